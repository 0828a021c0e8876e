"""Who is called: a dotted name through imports, reduced to its package and its last part."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Name:
    """``stable_baselines3.sac.SAC`` has the root ``stable_baselines3`` and the leaf ``SAC``.

    The same class is importable from several modules of its package, so that rules compare roots and leaves.
    """

    dotted: str

    @property
    def root(self) -> str:
        """The package; empty for a name that is defined in the script or built in."""
        return self.dotted.split(".", maxsplit=1)[0] if "." in self.dotted else ""

    @property
    def leaf(self) -> str:
        """The last part."""
        return self.dotted.rsplit(".", maxsplit=1)[-1]

    @property
    def owner(self) -> str:
        """The part before the last: the class of a class method, ``SAC`` in ``stable_baselines3.SAC.load``."""
        parts = self.dotted.split(".")
        return parts[-2] if len(parts) > 1 else ""
