"""The rules and their manual pages."""

from __future__ import annotations

from rlmem.documents.parts import part_of
from rlmem.documents.rules import RulePart, RulesDocument
from rlmem.lint.catalogue import find, manual


def list_rules(code: str | None = None) -> RulesDocument:
    """Return every rule with its manual page, or the one of a code or a name.

    Raises:
        UsageError: no rule has that code or name.
    """
    rules = manual() if code is None else (find(code),)
    return RulesDocument(rules=tuple(part_of(RulePart, rule, page=page.strip()) for rule, page in rules))
