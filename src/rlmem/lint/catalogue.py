"""The rules as lint knows them: those of the table, and the one about its own comments; chosen by code, name or family."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from rlmem.errors import UsageError, did_you_mean
from rlmem.lint import suppression
from rlmem.rules import find_rule, rules
from rlmem.rules.base import Rule

ALL = "all"


@cache
def manual() -> tuple[tuple[Rule, str], ...]:
    """Every rule with its manual page."""
    return (*(find_rule(rule.code) for rule in rules()), (suppression.RULE, suppression.__doc__ or ""))


def find(text: str) -> tuple[Rule, str]:
    """A rule by code or name, and its manual page."""
    wanted = text.strip().lower()
    own = (suppression.RULE.code.lower(), suppression.RULE.name)
    return manual()[-1] if wanted in own else find_rule(text)


def codes(words: Iterable[str], where: str) -> frozenset[str]:
    """The codes that words stand for: a code, the beginning of codes (``MEM2``), a name, a family, or ``all``."""
    found: set[str] = set()
    for word in words:
        chosen = {rule.code for rule, _ in manual() if _stands_for(word.strip(), rule)}
        if not chosen:
            known = [ALL, *(text for rule, _ in manual() for text in (rule.code, rule.name, rule.family))]
            raise UsageError(f"{where}: unknown rule {word!r}{did_you_mean(word, known)}; 'rlmem rule' lists all")
        found |= chosen
    return frozenset(found)


def _stands_for(word: str, rule: Rule) -> bool:
    if word.lower() in (ALL, rule.name, rule.family.lower()):
        return True
    return word.upper().startswith("MEM") and rule.code.startswith(word.upper())
