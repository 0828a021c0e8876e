"""The manual pages of the rules as Markdown: one file each, and an index with the table of what each rule looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlmem.documents.rules import RulePart

_WRITTEN = (
    "<!-- written by `rlmem rule --pages -o docs/rules.md` (`make docs`); a test checks that it is up to date -->"
)
_ASKED = {
    "script": "the text of a script (`rlmem lint`)",
    "plan": "a run before it runs (`rlmem plan`, and `rlmem lint` for runs a script describes completely)",
    "live": "a running process (`rlmem explain`)",
}
SUBJECTS = tuple(_ASKED)


def chunks(page: str) -> Iterator[tuple[str, str]]:
    """A manual page as prose and code, in order; code is fenced, or indented under a line that ends with ``::``."""
    prose: list[str] = []
    code: list[str] | None = None
    fenced = False
    for line in (*page.strip().splitlines(), ""):
        if code is not None and (line.strip() != "```" if fenced else not line.strip() or line.startswith("    ")):
            code.append(line if fenced else line[4:])
            continue
        if code is not None:
            yield "code", "\n".join(code).strip("\n")
            code = None
            if fenced:
                fenced = False
                continue
        if line.startswith("```"):
            code, fenced = [], True
        elif line.strip():
            prose.append(line.strip())
            if line.endswith("::"):
                prose[-1] = line.strip()[:-1]
                code = []
        if prose and (code is not None or not line.strip()):
            yield "prose", "\n".join(prose)
            prose = []
    if code is not None:
        yield "code", "\n".join(code).strip("\n")


def page_markdown(rule: RulePart) -> str:
    """One manual page."""
    lines = [f"# {rule.code} {rule.name}", "", _WRITTEN, ""]
    about = ", ".join(rule.subjects)
    lines += [f"Severity: {rule.severity}. Family: {rule.family}. Looks at: {about}.", ""]
    lines += [body_markdown(rule.page)]
    if set(rule.subjects) & {"script", "plan"} and rule.family != "comments":
        comment = f"`# rlmem: ignore[{rule.code}] reason`"
        lines += ["", f"In a script, {comment} silences it on a line ([lint](../lint.md#silencing-a-finding))."]
    return "\n".join(lines) + "\n"


def body_markdown(page: str) -> str:
    """The text of a manual page, its code fenced."""
    parts = (f"```py\n{text}\n```" if kind == "code" else text.replace("``", "`") for kind, text in chunks(page))
    return "\n\n".join(parts)


def index_markdown(rules: Sequence[RulePart]) -> str:
    """The list of rules: which family looks at what, then every rule."""
    lines = ["# Rules", "", _WRITTEN, "", "A rule looks at one or more of three subjects:", ""]
    lines += [f"- **{subject}**: {text}" for subject, text in _ASKED.items()]
    lines += ["", "How many rules of each family look at which:", "", *_families(rules), ""]
    for family in dict.fromkeys(rule.family for rule in rules):
        lines += [f"## {family.capitalize()}", "", _head(("rule", "severity", *SUBJECTS, "what it finds"))]
        for rule in rules:
            if rule.family == family:
                first = next(text for kind, text in chunks(rule.page) if kind == "prose").replace("``", "`")
                link = f"[{rule.code}](rules/{rule.code}.md) {rule.name}"
                lines.append(_row((link, rule.severity, *_marks(rule), " ".join(first.split()))))
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _families(rules: Sequence[RulePart]) -> Iterator[str]:
    yield _head(("family", "rules", *SUBJECTS))
    for family in dict.fromkeys(rule.family for rule in rules):
        own = [rule for rule in rules if rule.family == family]
        counts = (sum(subject in rule.subjects for rule in own) for subject in SUBJECTS)
        yield _row((family, str(len(own)), *(str(count or "") for count in counts)))
    counts = (sum(subject in rule.subjects for rule in rules) for subject in SUBJECTS)
    yield _row(("**all**", str(len(rules)), *(str(count) for count in counts)))


def _marks(rule: RulePart) -> tuple[str, ...]:
    return tuple("✓" if subject in rule.subjects else "" for subject in SUBJECTS)


def _head(titles: Sequence[str]) -> str:
    return f"{_row(titles)}\n|{' --- |' * len(titles)}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
