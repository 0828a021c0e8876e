"""Sizes and verdicts that a user wants to hear of, or wants the command to fail on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlmem.core.moments import Judgement, Moment
from rlmem.errors import UsageError
from rlmem.units import format_size, parse_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A size, or a share of the limit that will bite."""

    text: str
    nbytes: int | None = None
    share: float | None = None

    def bound(self, limit_bytes: int | None) -> int | None:
        """In bytes; None for a share where no limit is known."""
        if self.nbytes is not None:
            return self.nbytes
        return None if limit_bytes is None or self.share is None else round(self.share * limit_bytes)

    def sentence(self, tree_bytes: int, limit_bytes: int | None) -> str | None:
        """What to say when the tree holds as much; None when it does not."""
        bound = self.bound(limit_bytes)
        if bound is None or tree_bytes < bound:
            return None
        of = f" of the {format_size(limit_bytes)} there are" if self.share and limit_bytes else ""
        return f"holds {format_size(tree_bytes)}, over {self.text}{of}"


def parse_level(text: str, option: str) -> Level:
    """``12GB``, or ``80%`` of the limit."""
    word = text.strip()
    if not word.endswith("%"):
        try:
            return Level(text=word, nbytes=parse_size(word))
        except UsageError as error:
            raise UsageError(f"{option} {error}") from None
    try:
        share = float(word[:-1]) / 100
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a percentage; write it like 80%") from None
    if not 0 < share <= 1:
        raise UsageError(f"{option} {text!r} is not between 0% and 100%")
    return Level(text=word, share=share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What was asked for."""

    warn_at: Level | None = None
    fail_at: Level | None = None
    fail_on: Sequence[str] = ()

    def warning(self, tree_bytes: int, limit_bytes: int | None) -> str | None:
        """Why to warn, if there is a reason."""
        return self.warn_at.sentence(tree_bytes, limit_bytes) if self.warn_at else None

    def failure(self, moment: Moment, judgement: Judgement) -> str | None:
        """Why to fail, if there is a reason."""
        if self.fail_at and (why := self.fail_at.sentence(moment.tree_bytes, moment.limit_bytes)):
            return why
        return f"{judgement.state}: {judgement.reasons[0]}" if judgement.state in self.fail_on else None
