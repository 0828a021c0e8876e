"""Commands over runs that are rehearsed: scripts, factories, RL Zoo entries, RLlib configurations, environments.

Each target has a file of facts: what its dry runs said when ``make golden-facts`` made them for real.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from golden.children import children
from golden.harness import Case, command_case, session_case

SCRIPTS = Path(__file__).parent / "scripts"
_RAM = ("--ram", "16GB")
_NODES = ("--nodes", "2x(16GB,8cpu)")


def _scripts(*names: str) -> dict[str, str | bytes]:
    return {name: (SCRIPTS / name).read_bytes() for name in names}


def _cases(facts: str, commands: dict[str, list[str]], *scripts: str) -> tuple[Case, ...]:
    """Commands over one target, each in a folder that has only these scripts."""
    return tuple(
        command_case(f"dryruns/{facts}/{name}", words, _scripts(*scripts), around=partial(children, facts))
        for name, words in commands.items()
    )


def _formats(name: str, words: list[str], *suffixes: str) -> dict[str, list[str]]:
    return {f"{name}.{suffix}": words for suffix in suffixes}


#: A run that fits: every command, every format.
_SAC = _cases(
    "sac",
    {
        **_formats("plan", ["plan", "sac.py", *_RAM], "txt", "md", "json", "html"),
        "plan-full.txt": ["plan", "sac.py", *_RAM, "--full"],
        "plan-why.txt": ["plan", "sac.py", *_RAM, "--why", "replay.observations"],
        "plan-why-unknown.txt": ["plan", "sac.py", *_RAM, "--why", "replay.observation"],
        "plan-nodes.txt": ["plan", "sac.py", *_NODES],
        "plan-arguments.txt": ["plan", "sac.py", *_RAM, "--", "--buffer-size", "2000000"],
        "plan-set.txt": ["plan", "sac.py", *_RAM, "--set", "buffer_size=3M"],
        "plan-stacks.txt": ["plan", "sac.py", "--stacks"],
        **_formats("workers", ["workers", "sac.py", *_NODES], "txt", "json"),
        **_formats(
            "capacity", ["capacity", "sac.py", "--vary", "buffer_size", "--machines", "8GB,16GB"], "txt", "json"
        ),
        "capacity-values.txt": ["capacity", "sac.py", "--vary", "batch_size=256,1024", *_RAM],
        **_formats("compare", ["compare", "sac.py", "sac.py", "--set-right", "buffer_size=3M"], "txt", "json"),
        **_formats("assess", ["assess", "sac.py", *_RAM], "txt", "md", "json"),
        **_formats("fit", ["fit", "sac.py", *_RAM], "txt", "json"),
        "fit-diff.txt": ["fit", "sac.py", *_RAM, "--diff"],
    },
    "sac.py",
)
#: A run that does not fit, with steps that edit its script.
_FIT = ["fit", "dqn_frames.py", *_RAM]
_FRAMES = _cases(
    "dqn_frames",
    {
        **_formats("plan", ["plan", "dqn_frames.py", *_RAM], "txt", "json", "html"),
        **_formats("fit", _FIT, "txt", "md", "json"),
        "fit-lossless.txt": [*_FIT, "--lossless"],
        "fit-keep.txt": [*_FIT, "--keep", "buffer_size,storage"],
        "fit-keep-unknown.txt": [*_FIT, "--keep", "buffersize"],
        "fit-slowdown.txt": [*_FIT, "--max-slowdown", "1.05"],
        "fit-diff.txt": [*_FIT, "--diff"],
        "fit-none.txt": ["fit", "dqn_frames.py", "--ram", "300MB"],
        "fit-none.json": ["fit", "dqn_frames.py", "--ram", "300MB"],
        "capacity.txt": ["capacity", "dqn_frames.py", "--vary", "buffer_size", *_RAM],
        "assess.html": ["assess", "dqn_frames.py", *_RAM],
    },
    "dqn_frames.py",
)
_FRAMES_APPLIED = tuple(
    session_case(
        f"dryruns/dqn_frames/{name}.txt",
        commands,
        _scripts("dqn_frames.py"),
        ("dqn_frames.py", "dqn_frames.py.orig"),
        around=partial(children, "dqn_frames"),
    )
    for name, commands in {
        "fit-apply": [[*_FIT, "--apply"], ["fit", "dqn_frames.py", *_RAM]],
        "fit-apply-none": [["fit", "dqn_frames.py", "--ram", "300MB", "--apply"]],
    }.items()
)
_WORKERS = _cases(
    "ppo_workers",
    {
        "plan.txt": ["plan", "ppo_workers.py", *_RAM, "--full"],
        "workers.txt": ["workers", "ppo_workers.py", *_NODES],
        "capacity.txt": ["capacity", "ppo_workers.py", "--vary", "n_envs", *_RAM],
        "assess.txt": ["assess", "ppo_workers.py", *_RAM],
        "fit.txt": ["fit", "ppo_workers.py", "--ram", "1GB"],
    },
    "ppo_workers.py",
)
#: A loop of one's own, whose VRAM is not known.
_OWN = _cases(
    "own_dqn",
    {
        **_formats("plan", ["plan", "own_dqn.py", *_RAM], "txt", "json"),
        **_formats("plan-vram", ["plan", "own_dqn.py", "--ram", "80GB", "--vram", "8GB"], "txt", "json", "html"),
        "workers.txt": ["workers", "own_dqn.py", *_NODES],
        "capacity.txt": ["capacity", "own_dqn.py", "--vary", "buffer_size", *_RAM],
        "assess.txt": ["assess", "own_dqn.py", *_RAM],
        "fit.txt": ["fit", "own_dqn.py", *_RAM],
        "fit.json": ["fit", "own_dqn.py", *_RAM],
        "fit-vram.txt": ["fit", "own_dqn.py", "--ram", "80GB", "--vram", "8GB"],
        "fit-diff.txt": ["fit", "own_dqn.py", *_RAM, "--diff"],
    },
    "own_dqn.py",
)
#: Measured before and after its steps, under the cap that it does not keep to as it is.
_VERIFIED = _cases(
    "verified",
    {
        **_formats(
            "fit",
            [
                "fit",
                "own_dqn.py",
                "--ram",
                "1GB",
                "--verify",
                "--",
                "--buffer-size",
                "20000",
                "--total-timesteps",
                "22000",
            ],
            "txt",
            "json",
        )
    },
    "own_dqn.py",
)
_LEAK = _cases(
    "leak",
    {
        **_formats("plan", ["plan", "leak.py", *_RAM], "txt", "json", "html"),
        **_formats("fit", ["fit", "leak.py", *_RAM], "txt", "json"),
        "fit-diff.txt": ["fit", "leak.py", *_RAM, "--diff"],
        "assess.txt": ["assess", "leak.py", *_RAM],
    },
    "leak.py",
)
_TOO_LARGE = _cases(
    "too_large",
    {
        **_formats("plan", ["plan", "too_large.py", *_RAM], "txt", "json"),
        **_formats("fit", ["fit", "too_large.py", *_RAM], "txt", "json"),
    },
    "too_large.py",
)
#: What cannot be taken as far as a plan.
_STOPPED = (
    *_cases(
        "raises",
        {
            **_formats("plan", ["plan", "raises.py", *_RAM], "txt", "json"),
            "fit.txt": ["fit", "raises.py", *_RAM],
            "workers.txt": ["workers", "raises.py", *_NODES],
            "compare.txt": ["compare", "raises.py", "raises.py"],
        },
        "raises.py",
    ),
    *_cases(
        "nothing",
        {
            "plan.txt": ["plan", "nothing.py", *_RAM],
            "plan-refused.txt": ["plan", "nothing.py", *_RAM, "--", "--nonsense", "3"],
            "plan-own-option.txt": ["plan", "nothing.py", "--steps", "3", *_RAM],
            "fit-refused.txt": ["fit", "nothing.py", *_RAM, "--", "--nonsense", "3"],
            "missing.txt": ["plan", "nowhere.py", *_RAM],
            "fit-missing.txt": ["fit", "nowhere.py", *_RAM],
        },
        "nothing.py",
    ),
    *_cases("gone", {"plan.txt": ["plan", "gone.py", *_RAM]}, "gone.py"),
    *_cases("capped", {"plan.txt": ["plan", "sac.py", *_RAM, "--cap", "100MB"]}, "sac.py"),
    *_cases(
        "raises_in_learn",
        {"plan.txt": ["plan", "raises_in_learn.py", *_RAM], "fit.txt": ["fit", "raises_in_learn.py", "--ram", "300MB"]},
        "raises_in_learn.py",
    ),
)
_FACTORIES = _cases(
    "factories",
    {
        **_formats("plan", ["plan", "factories:make_model", *_RAM], "txt", "json"),
        "plan-arguments.txt": ["plan", "factories:make_model", *_RAM, "--", "1000"],
        "plan-of-a-file.txt": ["plan", "factories.py:make_model", *_RAM],
        "plan-nothing.txt": ["plan", "factories:make_nothing", *_RAM],
        "plan-no-function.txt": ["plan", "factories:make_modal", *_RAM],
        "fit.txt": ["fit", "factories:make_model", "--ram", "420MB"],
        "fit-apply.txt": ["fit", "factories:make_model", "--ram", "420MB", "--apply"],
        "capacity.txt": ["capacity", "factories:make_model", "--vary", "buffer_size", *_RAM],
    },
    "factories.py",
)
_ZOO = _cases(
    "zoo",
    {
        **_formats("plan", ["plan", "zoo:sac/Pendulum-v1", *_RAM], "txt", "json"),
        "plan-wrong.txt": ["plan", "zoo:sac", *_RAM],
        "plan-no-algorithm.txt": ["plan", "zoo:sacc/Pendulum-v1", *_RAM],
        **_formats("fit", ["fit", "zoo:dqn/PongNoFrameskip-v4", "--ram", "2GB"], "txt", "json"),
        "fit-diff.txt": ["fit", "zoo:dqn/PongNoFrameskip-v4", "--ram", "2GB", "--diff"],
        "capacity.txt": ["capacity", "zoo:sac/Pendulum-v1", "--vary", "buffer_size", *_RAM],
        "assess.txt": ["assess", "zoo:sac/Pendulum-v1", *_RAM],
    },
)
_RLLIB = _cases(
    "rllib",
    {
        **_formats("plan", ["plan", "rllib:rllib_config.py:ppo", *_RAM], "txt", "json", "html"),
        "plan-nodes.txt": ["plan", "rllib:rllib_config.py:ppo", *_NODES],
        "plan-set.txt": ["plan", "rllib:rllib_config.py:dqn", *_RAM, "--set", "num_env_runners=8"],
        "plan-no-name.txt": ["plan", "rllib:rllib_config.py", *_RAM],
        "plan-unknown.txt": ["plan", "rllib:rllib_config.py:pbo", *_RAM],
        "workers.txt": ["workers", "rllib:rllib_config.py:ppo", *_NODES],
        "capacity.txt": ["capacity", "rllib:rllib_config.py:ppo", "--vary", "rllib.num_env_runners", *_RAM],
        "compare.txt": ["compare", "rllib:rllib_config.py:ppo", "rllib:rllib_config.py:dqn"],
        "assess.txt": ["assess", "rllib:rllib_config.py:dqn", *_RAM],
        "fit.txt": ["fit", "rllib:rllib_config.py:dqn", *_RAM],
        "arguments.txt": ["plan", "rllib:rllib_config.py:ppo", *_RAM, "--timeout", "30"],
    },
    "rllib_config.py",
)
_LARGEST = ["max-buffer", "Pendulum-v1", "--algo", "sac", *_RAM]
_MAX_BUFFER = _cases(
    "max_buffer",
    {
        **_formats("pendulum", _LARGEST, "txt", "md", "json"),
        "margin.txt": [*_LARGEST, "--margin", "0.3"],
        "several.txt": [*_LARGEST, "--n-envs", "4"],
        "set.json": [*_LARGEST, "--set", "storage=compact"],
        "too-small.txt": ["max-buffer", "Pendulum-v1", "--algo", "sac", "--ram", "200MB"],
        "on-policy.txt": ["max-buffer", "Pendulum-v1", "--algo", "ppo", *_RAM],
        "no-algorithm.txt": ["max-buffer", "Pendulum-v1", *_RAM],
        "discrete.txt": ["max-buffer", "CartPole-v1", "--algo", "sac", *_RAM],
        "unknown.txt": ["max-buffer", "Pendulum-v9", "--algo", "sac", *_RAM],
        "script.txt": ["max-buffer", "train.py", "--algo", "sac", *_RAM],
        "margin-wrong.txt": [*_LARGEST, "--margin", "120%"],
    },
)

CASES: tuple[Case, ...] = (
    *_SAC,
    *_FRAMES,
    *_FRAMES_APPLIED,
    *_WORKERS,
    *_OWN,
    *_VERIFIED,
    *_LEAK,
    *_TOO_LARGE,
    *_STOPPED,
    *_FACTORIES,
    *_ZOO,
    *_RLLIB,
    *_MAX_BUFFER,
)
