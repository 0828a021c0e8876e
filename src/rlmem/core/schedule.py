"""The arithmetic of a run's loop: samples, minibatches, updates, iterations, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from rlmem.core.quantity import Quantity
from rlmem.core.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How often things happen in an on-policy run; ``None`` where the description does not say."""

    samples: int
    batch: int
    minibatches: int
    remainder: int
    epochs: int
    total_timesteps: int | None
    save_calls: int | None
    n_envs: int
    with_replacement: bool = False

    @property
    def updates(self) -> int:
        """Gradient steps per iteration."""
        if self.with_replacement:
            return self.samples * self.epochs // self.batch
        return self.minibatches * self.epochs

    @property
    def iterations(self) -> int | None:
        """Iterations until ``total_timesteps`` is reached; the last one runs to its end."""
        return None if self.total_timesteps is None else -(-self.total_timesteps // self.samples)

    @property
    def save_timesteps(self) -> int | None:
        """Timesteps between checkpoints: a callback is called once per step of *all* environments."""
        return None if self.save_calls is None else self.save_calls * self.n_envs

    @property
    def save_iterations(self) -> float | None:
        """Iterations between checkpoints."""
        return None if self.save_timesteps is None else self.save_timesteps / self.samples


def schedule(spec: RunSpec) -> Schedule | None:
    """The schedule of a resolved on-policy run; ``None`` for runs without rollouts."""
    if "n_steps" not in spec or "buffer_size" in spec:
        return None
    samples = spec.count("n_steps") * spec.count("n_envs") * spec.count("agents")
    with_replacement = spec.get("rollout.sampling") == "with-replacement"
    asked = spec.get("batch_size", samples)
    batch = asked if with_replacement else min(asked, samples)
    return Schedule(
        samples=samples,
        batch=batch,
        minibatches=-(-samples // batch),
        remainder=0 if with_replacement else samples % batch,
        epochs=spec.get("n_epochs", 1),
        total_timesteps=spec.get("total_timesteps"),
        save_calls=spec.get("checkpoint.save_freq"),
        n_envs=spec.count("n_envs"),
        with_replacement=with_replacement,
    )


def reached(spec: RunSpec, slots: Quantity) -> Quantity | None:
    """Transitions of a replay buffer that a run comes to, over all environments; ``None`` where it comes to all of them.

    ``None`` too where the length of the run is not known, and where a saved buffer is loaded: that one may be full.
    """
    steps = spec.get("total_timesteps")
    if steps is None or spec.get("resume.replay_buffer", "none") != "none":
        return None
    n_envs = int(spec.get("n_envs", 1))
    written = -(-steps // n_envs) * n_envs
    if written >= slots.value:
        return None
    return Quantity.of(written, "transitions the run writes", f"total_timesteps: {spec.origin('total_timesteps')}")
