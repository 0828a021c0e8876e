"""What a process of a cluster does in a run, by the class of its actor: the same words as a plan's processes."""

from __future__ import annotations

import re

DRIVER, ENV_RUNNER, EVAL_ENV_RUNNER, LEARNER = "driver", "env-runner", "eval-env-runner", "learner"
AGGREGATOR, TRIAL, TASK, IDLE, RAY, STORE = "aggregator", "trial", "task", "idle", "ray", "object-store"
#: In the order in which a report shows them; actors of other classes, whose role is their class, come after the tasks.
ORDER = (DRIVER, TRIAL, ENV_RUNNER, EVAL_ENV_RUNNER, AGGREGATOR, LEARNER, TASK, IDLE, STORE, RAY)
#: RLlib's algorithms, which are Tune's trainables (Ray 2.60; a subclass of one is told by its trial's folder).
_ALGORITHMS = frozenset(["APPO", "BC", "CQL", "DQN", "DreamerV3", "IMPALA", "IQL", "MARWIL", "PPO", "SAC", "TQC"])
#: RLlib's remote learners are Ray Train's worker actors, in Ray 2.60 under this name.
_LEARNERS = frozenset({"_WrappedExecutable", "RayTrainWorker"})
#: Ray's own processes, by the program or the title.
_OWN = (
    "raylet",
    "gcs_server",
    "DashboardAgent",
    "RuntimeEnvAgent",
    "log_monitor.py",
    "monitor.py",
    "dashboard.py",
    "ray.util.client.server",
    "runtime_env_agent",
)
#: The folder of a trial: PPO_CartPole-v1_d9509_00000_0_lr=0.1_2026-11-18_11-40-26.
_TRIAL = re.compile(r"(?:^|_)([0-9a-f]{5,8}(?:_\d{5})?)_\d+(?:_|$)")


def role_of(class_name: str, *, is_evaluation: bool = False) -> str:
    """The role of an actor by its class; a class nobody knows is a role of its own.

    >>> role_of("SingleAgentEnvRunner"), role_of("SingleAgentEnvRunner", is_evaluation=True)
    ('env-runner', 'eval-env-runner')
    >>> role_of("create_executable_class.<locals>._WrappedExecutable"), role_of("AggregatorActor"), role_of("Judge")
    ('learner', 'aggregator', 'Judge')
    """
    name = short_class(class_name)
    if name.endswith(("EnvRunner", "RolloutWorker")):
        return EVAL_ENV_RUNNER if is_evaluation else ENV_RUNNER
    if "Aggregator" in name:
        return AGGREGATOR
    if name.endswith("Learner") or name in _LEARNERS:
        return LEARNER
    if name in _ALGORITHMS or name == "ImplicitFunc":
        return TRIAL
    return name or TASK


def short_class(class_name: str) -> str:
    """The last word of a qualified name.

    >>> short_class("wrap_function.<locals>.ImplicitFunc")
    'ImplicitFunc'
    """
    return class_name.rpartition(".")[2]


def is_rays_own(command: str) -> bool:
    """Whether a command line or a title is that of one of Ray's own processes.

    >>> is_rays_own("/site-packages/ray/core/src/ray/raylet/raylet --raylet_socket_name=/tmp/s"), is_rays_own("ray::Judge.say")
    (True, False)
    """
    return own_name(command) is not None


def own_name(command: str) -> str | None:
    """What one of Ray's own processes is called, by its command line or its title.

    >>> own_name("python -u /site-packages/ray/_private/log_monitor.py --session-dir=/tmp/s"), own_name("ray::SPILL_SpillWorker")
    ('log_monitor.py', 'SPILL_SpillWorker')
    """
    words = command.split()
    names = [word.rpartition("/")[2].removeprefix("ray::") for word in words[:4]]
    if command.startswith(("ray::SPILL", "ray::RESTORE", "ray::IO_")):
        return names[0]
    return next((name for name in names if name in _OWN), None)


def role_of_title(title: str) -> str:
    """The role of a worker that has no actor, by its title.

    >>> role_of_title("ray::IDLE"), role_of_title("ray::rollout()")
    ('idle', 'task')
    """
    if is_rays_own(title):
        return RAY
    return IDLE if title.startswith("ray::IDLE") else TASK


def trial_of(folder: str) -> str | None:
    """The trial that works in a folder, if Tune made it for one.

    >>> trial_of("/tmp/ray/s/artifacts/t/PPO_t/working_dirs/PPO_CartPole-v1_d9509_00000_0_2026-11-18_11-40-26")
    'd9509_00000'
    >>> trial_of("/home/me/working_dirs") is None
    True
    """
    before, _, name = folder.rstrip("/").rpartition("/")
    if before.rpartition("/")[2] != "working_dirs":
        return None
    found = _TRIAL.search(name)
    return found[1] if found else name or None
