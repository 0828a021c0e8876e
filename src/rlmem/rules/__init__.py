"""The rules: one row each, one module each. A rule's module docstring is its manual page."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache
from importlib import import_module

from rlmem.core.findings import SEVERITIES, Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.core.subject import Subject
from rlmem.errors import UsageError, did_you_mean
from rlmem.rules.base import SUBJECTS, Rule
from rlmem.scripts import Script
from rlmem.scripts.expectations import expected_failures

#: code, name, family, severity, subjects (script, plan, live), module. Names complete "allow …".
_ROWS = (
    ("MEM001", "run-that-does-not-fit", "limits", "error", "plan", "does_not_fit"),
    ("MEM002", "tight-fit", "limits", "warning", "plan", "tight"),
    ("MEM004", "shared-pages-counted-twice", "limits", "info", "live", "shared_pages"),
    ("MEM005", "host-memory-in-container", "limits", "warning", "script live", "host_memory"),
    ("MEM101", "duplicate-next-obs", "buffers", "warning", "script plan", "duplicate_next_obs"),
    ("MEM102", "materialised-stack", "buffers", "warning", "script plan", "materialised_stack"),
    ("MEM103", "materialised-history", "buffers", "warning", "plan", "materialised_history"),
    ("MEM104", "refused-combination", "buffers", "error", "script plan", "refused"),
    ("MEM105", "unused-key", "buffers", "warning", "plan", "unused_key"),
    ("MEM106", "image-buffer-default-size", "buffers", "warning", "script", "image_buffer_size"),
    ("MEM107", "buffer-as-long-as-run", "buffers", "warning", "script plan", "buffer_as_long_as_run"),
    ("MEM108", "defeated-lazy-frames", "buffers", "warning", "script", "defeated_lazy_frames"),
    ("MEM109", "buffer-size-per-env", "buffers", "warning", "script plan", "buffer_size_per_env"),
    ("MEM110", "hindsight-info-dicts", "buffers", "warning", "script plan", "hindsight_infos"),
    ("MEM111", "object-transitions", "buffers", "warning", "script live", "object_transitions"),
    ("MEM112", "buffer-on-gpu", "buffers", "warning", "script", "buffer_on_gpu"),
    ("MEM113", "filling-buffer", "buffers", "info", "live", "filling_buffer"),
    ("MEM114", "data-without-capacity", "buffers", "warning", "script", "data_without_capacity"),
    ("MEM201", "float-image", "dtypes", "warning", "script plan", "float_image"),
    ("MEM202", "float64-observations", "dtypes", "warning", "script plan", "float64_observations"),
    ("MEM203", "flattened-image", "dtypes", "warning", "script plan", "flattened_image"),
    ("MEM204", "float64-store", "dtypes", "warning", "script", "float64_store"),
    ("MEM301", "batch-over-rollout", "rollouts", "warning", "plan", "batch_exceeds_rollout"),
    ("MEM302", "uneven-minibatches", "rollouts", "info", "plan", "uneven_minibatches"),
    ("MEM303", "rollout-episode-mismatch", "rollouts", "info", "plan", "rollout_episode_mismatch"),
    ("MEM304", "flatten-copy", "rollouts", "info", "plan", "flatten_copy"),
    ("MEM305", "list-then-stack", "rollouts", "warning", "script plan", "list_then_stack"),
    ("MEM306", "graph-in-collection", "rollouts", "warning", "script plan", "graph_kept"),
    ("MEM307", "large-rollout", "rollouts", "warning", "script plan", "large_rollout"),
    ("MEM308", "recurrent-states", "rollouts", "info", "script plan", "recurrent_states"),
    ("MEM401", "full-batch-update", "learner", "warning", "script plan", "full_batch_update"),
    ("MEM402", "separate-extractors", "learner", "info", "plan", "separate_extractors"),
    ("MEM403", "flat-mlp-on-image", "learner", "warning", "script plan", "flat_mlp_on_image"),
    ("MEM404", "many-policies", "learner", "warning", "script", "many_policies"),
    ("MEM501", "threads-over-cores", "workers", "info", "script plan", "threads_over_cores"),
    ("MEM502", "heavy-workers", "workers", "warning", "script plan", "heavy_workers"),
    ("MEM503", "cuda-in-workers", "workers", "warning", "script live", "cuda_in_workers"),
    ("MEM504", "captured-data", "workers", "warning", "script", "captured_data"),
    ("MEM505", "copied-on-write-data", "workers", "warning", "script live", "copied_on_write_data"),
    ("MEM506", "render-in-training", "workers", "warning", "script", "render_in_training"),
    ("MEM507", "unclosed-envs", "workers", "warning", "script live", "unclosed_envs"),
    ("MEM508", "shared-memory-too-small", "workers", "warning", "script plan live", "shared_memory"),
    ("MEM509", "cameras-per-env", "workers", "warning", "script", "cameras_per_env"),
    ("MEM601", "kept-graph", "leaks", "warning", "script live", "kept_graph"),
    ("MEM602", "retained-graph", "leaks", "warning", "script", "retained_graph"),
    ("MEM603", "history-in-env", "leaks", "warning", "script", "env_history"),
    ("MEM604", "leaky-simulator", "leaks", "warning", "script", "leaky_simulator"),
    ("MEM605", "kept-video-frames", "leaks", "warning", "script", "video_frames"),
    ("MEM606", "open-figures", "leaks", "warning", "script live", "open_figures"),
    ("MEM607", "endless-statistics", "leaks", "warning", "script", "endless_statistics"),
    ("MEM608", "payload-in-info", "leaks", "warning", "script", "payload_in_info"),
    ("MEM609", "keras-predict-in-step", "leaks", "warning", "script", "keras_predict"),
    ("MEM610", "heavy-logging", "leaks", "warning", "script", "heavy_logging"),
    ("MEM611", "unbounded-queue", "leaks", "warning", "script", "unbounded_queue"),
    ("MEM612", "models-in-a-loop", "leaks", "warning", "script live", "models_in_a_loop"),
    ("MEM613", "unbounded-episodes", "leaks", "warning", "script", "unbounded_episodes"),
    ("MEM701", "ray-store", "runtime", "warning", "script", "ray_store"),
    ("MEM702", "late-jax-flag", "runtime", "warning", "script", "late_flag"),
    ("MEM703", "heap-kept-after-free", "runtime", "warning", "live", "heap_kept"),
    ("MEM704", "changing-batch-shapes", "runtime", "info", "script", "changing_batch_shapes"),
    ("MEM705", "cuda-fragmentation", "runtime", "warning", "live", "cuda_fragmentation"),
    ("MEM706", "cuda-graph-pools", "runtime", "info", "script", "cuda_graph_pools"),
    ("MEM801", "standing-eval-env", "evaluation and checkpoints", "info", "script plan", "eval_env"),
    ("MEM802", "detached-eval-callback", "evaluation and checkpoints", "warning", "script plan", "eval_detached"),
    ("MEM803", "load-beside-live-buffer", "evaluation and checkpoints", "warning", "script plan", "loaded_beside_live"),
    ("MEM804", "checkpoint-interval", "evaluation and checkpoints", "info", "plan", "checkpoint_interval"),
    ("MEM805", "buffer-in-inference", "evaluation and checkpoints", "warning", "script", "buffer_in_inference"),
    ("MEM806", "buffer-pickled", "evaluation and checkpoints", "warning", "script", "buffer_pickled"),
    ("MEM901", "setting-without-effect", "runtime", "info", "plan", "no_effect"),
)
CODES = {code: name for code, name, *_ in _ROWS}
#: Rules that say whether a run will work as described at all; they plan nothing anew.
BREAKING = ("MEM104", "MEM502")


@cache
def rules(subject: str | None = None) -> tuple[Rule, ...]:
    """Every rule, or those on one subject; only their modules are loaded."""
    return tuple(_rule(*row) for row in _ROWS if subject is None or subject in row[4].split())


def _rule(code: str, name: str, family: str, severity: str, subjects: str, module: str) -> Rule:
    loaded = import_module(f"rlmem.rules.{module}")
    checks = {f"on_{subject}": getattr(loaded, SUBJECTS[subject]) for subject in subjects.split()}
    return Rule(code=code, name=name, family=family, severity=severity, subjects=tuple(subjects.split()), **checks)


def find(subject: Subject, *, codes: Collection[str] | None = None) -> tuple[Finding, ...]:
    """Findings of all rules on a plan, or of some: errors first, then by what they save."""
    asked = [rule for rule in rules("plan") if codes is None or rule.code in codes]
    found = [finding for rule in asked if rule.on_plan for finding in rule.on_plan(rule, subject)]
    return tuple(sorted(found, key=lambda f: (SEVERITIES.index(f.severity), -(f.saves_bytes or 0), f.code)))


def with_findings(subject: Subject, *, codes: Collection[str] | None = None) -> Subject:
    """Return a planned run with the findings of all rules in its plan, or of some."""
    return replace(subject, plan=replace(subject.plan, findings=find(subject, codes=codes)))


def find_in_script(script: Script, stumbled: Callable[[Rule, Exception], None] | None = None) -> tuple[Finding, ...]:
    """Findings of all rules on a script, in the order of its lines.

    ``stumbled`` is told of a rule that raised; without it the error is the caller's.
    """
    found: list[Finding] = []
    for rule in rules("script"):
        try:
            found += rule.on_script(rule, script) if rule.on_script else ()
        except Exception as error:
            if stumbled is None:
                raise
            stumbled(rule, error)
    meant = expected_failures(script)
    found = [finding for finding in found if not (finding.place and finding.place.line in meant)]
    return tuple(sorted(found, key=lambda f: (f.place.line, f.place.column, f.code) if f.place else (0, 0, f.code)))


def find_live(tree: TreeExplanation) -> tuple[Finding, ...]:
    """Findings of all rules on a running process and its children: errors first."""
    found = [finding for rule in rules("live") if rule.on_live for finding in rule.on_live(rule, tree)]
    return tuple(sorted(found, key=lambda f: (SEVERITIES.index(f.severity), -(f.saves_bytes or 0), f.code)))


def find_rule(text: str) -> tuple[Rule, str]:
    """A rule by code or name, and its manual page."""
    wanted = text.strip().lower()
    for rule, row in zip(rules(), _ROWS, strict=True):
        if wanted in (rule.code.lower(), rule.name):
            return rule, import_module(f"rlmem.rules.{row[-1]}").__doc__ or ""
    known = [*CODES, *CODES.values()]
    raise UsageError(f"unknown rule {text!r}{did_you_mean(text, known)}; 'rlmem rule' lists all")
