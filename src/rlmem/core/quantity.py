"""A number that remembers how it came about.

A :class:`Quantity` is an integer with a range, the expression that produced it and the origin of every value in
that expression. Arithmetic on quantities builds the formula, so ``--why`` can never disagree with the number. The
text is only written when somebody asks for it: a plan makes thousands of quantities and shows a few dozen.

>>> rows = Quantity.of(100_000, "rows", "buffer_size // n_envs")
>>> pixel = Quantity.of(21_168, "image bytes", "observation")
>>> size = rows * 4 * pixel
>>> size.formula
'rows × 4 × image bytes = 100,000 × 4 × 21,168 = 8,467,200,000 B'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: How tightly an expression binds: a name or number, a product, a sum.
_ATOM, _PRODUCT, _SUM = 0, 1, 2
_RANKS = {"×": _PRODUCT, "//": _PRODUCT, "% of": _PRODUCT, "+": _SUM, "sum": _SUM}
#: Parts of a long sum that a formula spells out.
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One value that went into a quantity, and where it came from."""

    name: str
    value: int
    origin: str


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """Expected value with low and high, and the expression behind it: a term, a number, or two parts and a sign."""

    value: int
    low: int
    high: int
    sign: str = ""
    parts: tuple[Quantity, ...] = ()
    name: str = ""
    origin: str = ""

    @classmethod
    def of(cls, value: int, name: str, origin: str, *, low: int | None = None, high: int | None = None) -> Quantity:
        """A named value; without ``low`` and ``high`` it is exact."""
        return cls(value, value if low is None else low, value if high is None else high, name=name, origin=origin)

    @classmethod
    def literal(cls, value: int) -> Quantity:
        """A plain number in a formula (``4``), with nothing more to say about it."""
        return cls(value, value, value)

    @property
    def names(self) -> str:
        """The expression in names."""
        return self._text(in_names=True)

    @property
    def numbers(self) -> str:
        """The expression with its numbers filled in."""
        return self._text(in_names=False)

    @property
    def formula(self) -> str:
        """``names = numbers = result``, skipping steps that would only repeat the one before."""
        steps = dict.fromkeys((self.names, self.numbers, f"{self.value:,}"))
        return " = ".join(steps) + " B"

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every named value in the expression, with its origin, outermost first."""
        return tuple(dict.fromkeys(self._terms()))

    def _terms(self) -> Iterator[Term]:
        if self.name:
            yield Term(name=self.name, value=self.value, origin=self.origin or self.parts[0].formula.removesuffix(" B"))
        for part in self.parts:
            yield from part._terms()

    @property
    def _rank(self) -> int:
        if self.sign == "range":
            return self.parts[0]._rank
        return _ATOM if self.name else _RANKS.get(self.sign, _ATOM)

    def _text(self, *, in_names: bool) -> str:
        if self.name:
            return self.name if in_names else f"{self.value:,}"
        if not self.parts:
            return f"{self.value:,}"
        if self.sign == "sum":
            return self._sum_text(in_names=in_names)
        texts = [part._text(in_names=in_names) for part in self.parts]
        if self.sign in ("max", "min"):
            return f"{self.sign}({', '.join(texts)})"
        if self.sign == "range":  # reads like what it ranges over; the reason is listed among the terms
            return texts[0]
        shown = [
            f"({text})" if part._rank > self._rank or (index and self._rounds_with(part)) else text
            for index, (part, text) in enumerate(zip(self.parts, texts, strict=True))
        ]
        return f" {self.sign} ".join(shown)

    def _rounds_with(self, right: Quantity) -> bool:
        """Whether a product on the right needs its grouping: ``2 × (3 // 2)`` is not ``2 × 3 // 2``."""
        if right._rank != _PRODUCT or self._rank != _PRODUCT:
            return False
        while right._rank == _PRODUCT and right.sign in ("×", "range"):
            if right.sign == "×" != self.sign:
                return True
            right = right.parts[0]  # "2 × (3 // 2 × 5)": the rounding may be its first factor
        return right._rank == _PRODUCT

    def _sum_text(self, *, in_names: bool) -> str:
        """The largest parts in full, equal ones counted, the small rest as a number of parts."""
        counts: dict[tuple[str, int], int] = {}
        for part in sorted(self.parts, key=lambda part: -part.value):
            key = (part._text(in_names=in_names), part.value)
            counts[key] = counts.get(key, 0) + 1
        shown = [text if count == 1 else f"{count} × ({text})" for (text, _), count in counts.items()]
        rest = len(shown) - _SHOWN
        return " + ".join(shown[:_SHOWN]) + (f" + {rest} smaller" if rest > 0 else "")

    def __mul__(self, other: Quantity | int) -> Quantity:
        """Product; multiplying by the plain number 1 changes nothing and is left out of the formula."""
        if isinstance(other, int):
            if other == 1:
                return self
            other = Quantity.literal(other)
        return Quantity(self.value * other.value, self.low * other.low, self.high * other.high, "×", (self, other))

    def __rmul__(self, other: int) -> Quantity:
        """``4 × rows`` reads as written."""
        return self if other == 1 else Quantity.literal(other) * self

    def __add__(self, other: Quantity | int) -> Quantity:
        """Sum; adding the plain number 0 changes nothing and is left out of the formula."""
        if isinstance(other, int):
            if other == 0:
                return self
            other = Quantity.literal(other)
        return Quantity(self.value + other.value, self.low + other.low, self.high + other.high, "+", (self, other))

    def __floordiv__(self, other: Quantity) -> Quantity:
        """Whole division, as frameworks round their rows."""
        return Quantity(self.value // other.value, self.low // other.high, self.high // other.low, "//", (self, other))

    def percent_of(self, whole: Quantity) -> Quantity:
        """This many percent of another quantity."""
        expected = whole.value
        return Quantity(
            self.value * expected // 100, self.low * expected // 100, self.high * expected // 100, "% of", (self, whole)
        )

    def at_least(self, floor: int) -> Quantity:
        """``max(floor, self)``."""
        if self.low >= floor:
            return self
        value, low, high = (max(number, floor) for number in (self.value, self.low, self.high))
        return Quantity(value, low, high, "max", (Quantity.literal(floor), self))

    def at_most(self, ceiling: int) -> Quantity:
        """``min(ceiling, self)``."""
        if self.high <= ceiling:
            return self
        value, low, high = (min(number, ceiling) for number in (self.value, self.low, self.high))
        return Quantity(value, low, high, "min", (Quantity.literal(ceiling), self))

    def named(self, name: str, origin: str = "") -> Quantity:
        """The same value as one named term; the terms beneath it stay listed, and explain it if no origin is given."""
        return Quantity(self.value, self.low, self.high, "", (self,), name, origin)

    def between(self, low: float, high: float, why: str) -> Quantity:
        """The same expected value with a range (factors on it) and the reason for the range."""
        reason = Quantity.of(self.value, "range", f"{low:g} to {high:g} × expected: {why}")
        return Quantity(self.value, round(self.low * low), round(self.high * high), "range", (self, reason))


def total(parts: Iterable[Quantity]) -> Quantity:
    """The sum of quantities; its formula shows the largest few and counts the rest."""
    items = tuple(parts)
    if len(items) == 1:
        return items[0]
    bounds = (sum(p.value for p in items), sum(p.low for p in items), sum(p.high for p in items))
    return Quantity(*bounds, "sum", items)
