"""The rules: one row each, one module each. A rule's module docstring is its manual page."""

from __future__ import annotations

from importlib import import_module

from rlmem.errors import UsageError, did_you_mean
from rlmem.findings import SEVERITIES, Finding
from rlmem.rules.base import Context, Rule

#: code, name, family, severity, module. Names complete "allow …".
_ROWS = (
    ("MEM001", "run-that-does-not-fit", "limits", "error", "does_not_fit"),
    ("MEM002", "tight-fit", "limits", "warning", "tight"),
    ("MEM003", "idle-machine", "limits", "info", "idle_machine"),
    ("MEM101", "duplicate-next-obs", "buffers", "warning", "duplicate_next_obs"),
    ("MEM102", "materialised-stack", "buffers", "warning", "materialised_stack"),
    ("MEM103", "materialised-history", "buffers", "warning", "materialised_history"),
    ("MEM104", "refused-combination", "buffers", "error", "refused"),
    ("MEM105", "unused-key", "buffers", "warning", "unused_key"),
    ("MEM201", "float-image", "dtypes", "warning", "float_image"),
    ("MEM202", "float64-observations", "dtypes", "warning", "float64_observations"),
    ("MEM301", "batch-over-rollout", "rollouts", "warning", "batch_exceeds_rollout"),
    ("MEM302", "uneven-minibatches", "rollouts", "info", "uneven_minibatches"),
    ("MEM303", "rollout-episode-mismatch", "rollouts", "info", "rollout_episode_mismatch"),
    ("MEM304", "flatten-copy", "rollouts", "info", "flatten_copy"),
    ("MEM305", "list-then-stack", "rollouts", "warning", "list_then_stack"),
    ("MEM306", "graph-in-collection", "rollouts", "warning", "graph_kept"),
    ("MEM401", "full-batch-update", "learner", "warning", "full_batch_update"),
    ("MEM402", "separate-extractors", "learner", "info", "separate_extractors"),
    ("MEM501", "threads-over-cores", "workers", "info", "threads_over_cores"),
    ("MEM801", "standing-eval-env", "evaluation and checkpoints", "info", "eval_env"),
    ("MEM802", "detached-eval-callback", "evaluation and checkpoints", "warning", "eval_detached"),
    ("MEM803", "load-beside-live-buffer", "evaluation and checkpoints", "warning", "loaded_beside_live"),
    ("MEM804", "checkpoint-interval", "evaluation and checkpoints", "info", "checkpoint_interval"),
    ("MEM901", "setting-without-effect", "runtime", "info", "no_effect"),
)
CODES = {code: name for code, name, *_ in _ROWS}


def rules() -> tuple[Rule, ...]:
    """Every rule, loaded."""
    return tuple(
        Rule(code=code, name=name, family=family, severity=severity, check=import_module(f"rlmem.rules.{module}").check)
        for code, name, family, severity, module in _ROWS
    )


def find(context: Context) -> tuple[Finding, ...]:
    """Findings of all rules: errors first, then by what they save."""
    found = [finding for rule in rules() for finding in rule.check(rule, context)]
    return tuple(sorted(found, key=lambda f: (SEVERITIES.index(f.severity), -(f.saves_bytes or 0), f.code)))


def find_rule(text: str) -> tuple[Rule, str]:
    """A rule by code or name, and its manual page."""
    wanted = text.strip().lower()
    for rule, row in zip(rules(), _ROWS, strict=True):
        if wanted in (rule.code.lower(), rule.name):
            return rule, import_module(f"rlmem.rules.{row[4]}").__doc__ or ""
    known = [*CODES, *CODES.values()]
    raise UsageError(f"unknown rule {text!r}{did_you_mean(text, known)}; 'rlmem rule' lists all")
