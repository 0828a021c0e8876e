"""An RLlib configuration in its own interpreter: what it says of itself, or a run of it for real.

Stand-alone: runs by path where Ray is installed. The case is ``{"mode": "describe" | "measure", "target": "file.py:name", …}``;
``describe`` starts no Ray.
"""

import importlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import program_kit as kit
import rllib_describe

DEFAULTS = {
    "mode": "describe",
    "target": "",
    "folder": "",
    "iterations": 3,
    "most_iterations": 2000,
    "seconds": 240,
    "changes": {},
    "cpus": None,
    "store_bytes": None,
}


# ---------------------------------------------------------------- the configuration
def find_config(target, changes):
    """The object a target names: ``file.py:name`` or ``module:name``, called if it is a function."""
    place, _, name = target.rpartition(":")
    sys.path.insert(0, os.getcwd())
    if place.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(place)))
        module = kit.load_by_path("rlmem_rllib_target", place)
        sys.modules["rlmem_rllib_target"] = module
        # Other processes have no module of this name: what it defines travels whole, as it would from a user's __main__.
        from ray import cloudpickle

        cloudpickle.register_pickle_by_value(module)
    else:
        module = importlib.import_module(place)
    if not hasattr(module, name):
        raise ValueError("%s has no %r" % (place, name))
    config = getattr(module, name)
    if callable(config) and not hasattr(config, "algo_class"):
        config = config()
    if not hasattr(config, "algo_class"):
        raise ValueError("%s is a %s, not an RLlib AlgorithmConfig" % (target, type(config).__name__))
    if not getattr(config, "enable_env_runner_and_connector_v2", False):
        raise ValueError(
            "%s uses RLlib's old API stack; rlmem plans the new one (api_stack of the configuration)" % target
        )
    config = config.copy(copy_frozen=False)
    for key, value in changes.items():
        if key == "buffer_size":
            config.replay_buffer_config = dict(config.replay_buffer_config, capacity=value)
            continue
        if not hasattr(config, key):
            raise ValueError("an RLlib configuration has no %r" % key)
        setattr(config, key, value)
    return config


# ---------------------------------------------------------------- measure
def check_gpus(config, there):
    """Actors that no node can take would be waited for without end."""
    runners, learners = config.num_env_runners or 0, config.num_learners or 0
    wanted = runners * (config.num_gpus_per_env_runner or 0) + max(1, learners) * (config.num_gpus_per_learner or 0)
    if wanted > there:
        raise ValueError("the configuration asks for %g GPUs, and this machine has %g" % (wanted, there))


def check_sampled(result):
    """RLlib goes on without EnvRunners that fail, and without a step: that is no measurement."""
    steps = result.get("num_env_steps_sampled_lifetime")
    if steps is not None and not steps:
        raise ValueError(
            "nothing was sampled: the environment or the module fails in every EnvRunner ('rlmem plan' of the configuration says more)"
        )


def has_learned(result):
    """Whether an iteration had an update in it."""
    learners = result.get("learners") or {}
    steps = [module.get("num_module_steps_trained") for module in learners.values() if hasattr(module, "get")]
    return any(count is None or count > 0 for count in steps)


def have_updated(algo):
    """Whether learners have updated and not said so yet, as those of IMPALA and APPO do only now and then."""
    found = algo.learner_group.foreach_learner(lambda learner: getattr(learner, "_num_updates", 0))
    return any(each.get() if hasattr(each, "get") else each for each in found)


def measure(case):
    import time

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    phases = kit.Phases()
    begin = time.monotonic()
    with phases("import"):
        config = find_config(case["target"], case["changes"])
        import ray
    settings = {"include_dashboard": False, "log_to_driver": False, "_temp_dir": case["folder"] or None}
    if case["cpus"]:
        settings["num_cpus"] = case["cpus"]
    if case["store_bytes"]:
        settings["object_store_memory"] = case["store_bytes"]
    with phases("build"):
        ray.init(**settings)
        check_gpus(config, ray.cluster_resources().get("GPU", 0))
        algo = config.build_algo()
    calls = iterations = rows = 0
    capacity = (getattr(config, "replay_buffer_config", None) or {}).get("capacity")
    has_replay = getattr(algo, "local_replay_buffer", None) is not None
    with phases("update"):
        while calls < case["most_iterations"] and time.monotonic() - begin < case["seconds"]:
            result = algo.train()
            calls += 1
            if calls >= case["iterations"]:
                check_sampled(result)
            # IMPALA and APPO come back before they have learned, off-policy runs collect first.
            iterations += has_learned(result)
            if has_replay:
                rows = algo.local_replay_buffer.get_num_timesteps()
                if rows < 0.995 * capacity:
                    continue
            if iterations >= case["iterations"]:
                break
    if not iterations and not have_updated(algo):
        raise ValueError(
            "nothing was learned within %d s: a measurement without an update says little; give it more time (--timeout)"
            % case["seconds"]
        )
    roles = {str(os.getpid()): "driver"}

    def note(pids, role):
        roles.update({str(pid): role for pid in pids if pid != os.getpid()})

    note(algo.env_runner_group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False), "env-runner")
    if getattr(algo, "eval_env_runner_group", None) is not None:
        note(
            algo.eval_env_runner_group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False),
            "eval-env-runner",
        )
    if not algo.learner_group.is_local:
        note([result.get() for result in algo.learner_group.foreach_learner(lambda learner: os.getpid())], "learner")
    manager = getattr(algo, "_aggregator_actor_manager", None)
    if manager is not None:
        note([result.get() for result in manager.foreach_actor(lambda actor: os.getpid())], "aggregator")
    owners = {}  # environments that have processes of their own
    for pid in roles:
        if roles[pid] != "driver":
            owners.update({str(child): pid for child in kit.proc.tree(int(pid)) if str(child) not in roles})
    answer = {
        "phases": phases.rows,
        "roles": roles,
        "owners": owners,
        "titles": {str(pid): kit.proc.command(pid).strip() for pid in kit.proc.tree(os.getpid())},
        "iterations": iterations,
        "rows": rows,
        "capacity": capacity if has_replay else None,
        "versions": rllib_describe.kit_versions(),
    }
    algo.stop()
    ray.shutdown()
    return answer


def run(case):
    """What was asked for."""
    if case["mode"] == "measure":
        return measure(case)
    return rllib_describe.describe(find_config(case["target"], case["changes"]))


if __name__ == "__main__":
    sys.exit(kit.main(run, DEFAULTS))
