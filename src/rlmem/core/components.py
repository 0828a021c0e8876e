"""Which component of a plan an owner in a running process is, by its path from a variable and its type."""

from __future__ import annotations

import re

#: Components that stay resident between updates, and the word in a path by which a process's owners are told to be them.
STANDING = {"replay": "replay_buffer", "rollout": "rollout_buffer"}
#: What no plan knows: the name of the variable follows.
OTHER = "other"

#: Roles of processes that plans call workers.
_WORKERS = ("worker", "forkserver")
#: Words of a path that tell a store of transitions, as far as its own fields.
_STORES = (
    ("replay", re.compile(r"(?:^|\.)(?:\w*replay\w*|rb)(?=[.\[]|$)", re.I)),
    ("rollout", re.compile(r"(?:^|\.)\w*rollout\w*(?=[.\[]|$)", re.I)),
)
#: A field of a store: ``.observations['image']``.
_FIELD = re.compile(r"\.(\w+)(?:\[(['\"])([^'\"]+)\2\])?")
_ENVIRONMENT = re.compile(r"(?:^|[._])(eval_)?v?envs?(?=[.\[]|$)")
_OPTIMIZER = re.compile(r"optim", re.I)
_TARGET = re.compile(r"(?:^|[._])target", re.I)
_NETWORK = re.compile(r"(?:^|\.)(?:policy|actor|critic|\w*q_net\w*|\w*network)(?=[.\[_]|$)")
_VARIABLE = re.compile(r"[^.\[]*")
_MODULE_TYPES = ("Parameter", "Module")


def component_of(path: str, kind: str, type_name: str, *, has_transitions: bool | None = None) -> str:
    """Return the component of a plan that an owner is; ``other.NAME`` for what a plan does not have.

    Args:
        path: where the owner is, from a variable of the program: ``model.replay_buffer.rewards``.
        kind: what it is: array, tensor, container, store, graph or objects.
        type_name: its class.
        has_transitions: whether its elements are steps of an environment.

    >>> component_of("model.replay_buffer.observations['image']", "array", "numpy.ndarray")
    'replay.observations[image]'
    >>> component_of("model.policy.optimizer.state[…].exp_avg", "tensor", "torch.Tensor")
    'learner.optimizer'
    >>> component_of("losses", "container", "list")
    'other.losses'
    """
    for store, words in _STORES:
        if match := words.search(path):
            return _of_store(store, path[match.end() :], kind)
    if has_transitions:
        return "replay"
    if match := _ENVIRONMENT.search(path):
        return "eval" if match[1] else "workers"
    if _OPTIMIZER.search(path):
        return "learner.optimizer"
    if kind == "objects":  # what Python itself takes for the program's objects; a plan has them with the runtime
        return "runtime"
    if kind == "tensor" and (type_name.endswith(_MODULE_TYPES) or _NETWORK.search(path)):
        return _of_network(path)
    return f"{OTHER}.{_VARIABLE.match(path)[0]}"  # type: ignore[index]  # it matches everything


def _of_store(store: str, rest: str, kind: str) -> str:
    field = _FIELD.match(rest)
    if field is None:
        return f"{store}.objects" if kind == "objects" else store
    return f"{store}.{field[1]}" + (f"[{field[3]}]" if field[3] else "")


def _of_network(path: str) -> str:
    if path.endswith(".grad"):
        return "learner.gradients"
    return "learner.targets" if _TARGET.search(path) else "learner.parameters"


def process_of(role: str) -> str:
    """Return the process of a plan that a process with a role is: main, workers, or other."""
    return "main" if role == "main" else "workers" if role in _WORKERS else OTHER
