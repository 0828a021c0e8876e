"""The framework will refuse this combination when the model is built.

In SB3, `optimize_memory_usage=True` fails together with timeout handling, with Dict observations, with n-step and with
HER; Tuple and nested observations are not supported at all; each algorithm takes certain actions only; n-step buffers
exist from 2.7.0 on.

Use instead: drop the option the finding names, or a buffer that supports the combination: ``CompactReplayBuffer`` of
``rlmem.sb3`` takes Dict observations, n-step, hindsight and timeouts, and stores every observation once without the option.

In a script it is found where a model or a buffer is built with the option and what refuses it::

    model = SAC("MlpPolicy", env, optimize_memory_usage=True)     # ValueError: timeouts are handled by default

Fix: unsafe; in a model's constructor it names CompactReplayBuffer in place of the option (rlmem is then needed where it
trains), or drops the option where a class is named; a buffer built by hand gets ``handle_timeout_termination=False``,
which makes truncated episodes end in wrong successors.

Reference: ``ReplayBuffer.__init__`` and ``check_for_nested_spaces`` in SB3 2.9.2; DLR-RM/stable-baselines3#243.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.edits import Edit, Fix
from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.frameworks import find_adapter
from rlmem.rules.base import Rule
from rlmem.scripts import UNKNOWN, Script
from rlmem.scripts.training import SB3, Model, models

_OPTION, _TIMEOUTS = "optimize_memory_usage", "handle_timeout_termination"
_NEVER = {
    "HerReplayBuffer": "hindsight replay",
    "NStepReplayBuffer": "n-step replay",
    "DictReplayBuffer": "Dict observations",
}


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """One finding per refusal the framework's adapter knows of."""
    for refusal in find_adapter(subject.spec).refusals(subject.spec):
        yield rule.finding(refusal.reason, severity=refusal.severity, location=refusal.location, remedy=refusal.remedy)


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """``optimize_memory_usage=True`` beside something that refuses it, in a model or a buffer built by hand."""
    for model in models(script):
        if model.off_policy and model.value(_OPTION) is True and (reason := _refusal(script, model)):
            yield rule.finding(
                f"SB3 refuses optimize_memory_usage {reason}",
                place=script.place(_spot(script, model)),
                remedy="drop it; replay_buffer_class=CompactReplayBuffer of rlmem.sb3 stores observations once and "
                "refuses none of these",
                fix=_fix(script, model),
            )
    for call in script.calls_of("ReplayBuffer", *_NEVER, roots=(*SB3, "cleanrl_utils")):
        given, timeouts = script.argument(call, _OPTION), script.argument(call, _TIMEOUTS)
        name = script.called(call)
        if given is None or name is None or script.value(given) is not True:
            continue
        if name.leaf in _NEVER:
            reason, fix = f"for {_NEVER[name.leaf]}", None
        elif timeouts is None and not script.has_unknown_arguments(call):
            reason = "together with handle_timeout_termination, which is on by default"
            edits = (script.add_argument(call, f"{_TIMEOUTS}=False"),)
            fix = Fix(title="do not handle timeouts", edits=edits, safety="unsafe")
        elif timeouts is not None and script.value(timeouts) is True:
            reason = "together with handle_timeout_termination=True"
            fix = Fix(title="do not handle timeouts", edits=(script.edit(timeouts, "False"),), safety="unsafe")
        else:
            continue
        yield rule.finding(
            f"{name.leaf} refuses optimize_memory_usage {reason}",
            place=script.place(_keyword(call) or call),
            remedy=f"pass {_TIMEOUTS}=False, or use CompactReplayBuffer of rlmem.sb3, which needs neither",
            fix=fix,
        )


def _refusal(script: Script, model: Model) -> str | None:
    """Why SB3 refuses the option, the first reason it finds."""
    chosen = model.argument("replay_buffer_class")
    leaf = (script.qualified(chosen) or "?").rsplit(".", maxsplit=1)[-1] if chosen is not None else ""
    if leaf in _NEVER:
        return f"for {_NEVER[leaf]}"
    if leaf not in ("", "ReplayBuffer"):
        return None
    if model.policy == "MultiInputPolicy":
        return "for Dict observations (MultiInputPolicy)"
    steps = model.value("n_steps")
    if isinstance(steps, int) and steps > 1:
        return f"for n-step replay (n_steps={steps})"
    given = model.argument("replay_buffer_kwargs")
    if given is None:
        missing = not script.has_unknown_arguments(model.call)
        return "while timeouts are handled, which is SB3's default" if missing else None
    handled = _handled(script, given)
    return None if handled in (False, UNKNOWN) else "while timeouts are handled"


def _handled(script: Script, expr: ast.expr) -> object:
    """Whether a model's ``replay_buffer_kwargs`` leave timeout handling on."""
    known = script.meaning.items(expr)
    return UNKNOWN if known is None else script.value(dict(known)[_TIMEOUTS]) if _TIMEOUTS in dict(known) else True


def _spot(script: Script, model: Model) -> ast.AST:
    """The option itself, also in a dict that is unpacked."""
    given = model.argument(_OPTION)
    known = given is not None and script.parent(given) is not None
    return _keyword(model.call) or (given if given is not None and known else model.call)


def _keyword(call: ast.Call) -> ast.keyword | None:
    return next((keyword for keyword in call.keywords if keyword.arg == _OPTION), None)


def _fix(script: Script, model: Model) -> Fix | None:
    keyword = _keyword(model.call)
    if keyword is None:
        return None
    if model.argument("replay_buffer_class") is not None:
        return Fix(title="drop the option", edits=(script.remove_argument(model.call, keyword),), safety="unsafe")
    edits: list[Edit] = [script.edit(keyword, "replay_buffer_class=CompactReplayBuffer")]
    imported = script.add_import("from rlmem.sb3 import CompactReplayBuffer")
    return Fix(
        title="keep every observation once", edits=tuple([*edits, imported] if imported else edits), safety="unsafe"
    )
