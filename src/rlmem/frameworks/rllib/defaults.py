"""What RLlib fills in, read from the sources of 2.60 (new API stack), and its default networks.

``get_default_config`` of each algorithm; ``core/models/configs.py`` and ``catalog.py`` for networks: two tanh layers of 256, the
value function with an encoder of its own in PPO and APPO's default, shared in IMPALA.
"""

from __future__ import annotations

from math import prod
from typing import Any

from rlmem.core.layers import Chain, infer, parse_layers
from rlmem.core.spaces import Box, Leaf, leaves
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.frameworks.rllib.counts import ASYNC

LATEST = "2.60.0"
ON_POLICY = ("ppo", "impala", "appo")
DEFAULTS: dict[str, dict[str, Any]] = {
    "ppo": {"rllib.num_env_runners": 2, "rllib.train_batch": 4000, "batch_size": 128, "n_epochs": 30},
    "dqn": {"rllib.num_env_runners": 0, "rllib.train_batch": 32, "buffer_size": 50_000, "replay.kind": "prioritised"},
    "sac": {
        "rllib.num_env_runners": 0,
        "rllib.train_batch": 256,
        "buffer_size": 1_000_000,
        "replay.kind": "prioritised",
    },
    "impala": {"rllib.num_env_runners": 2, "rllib.num_learners": 1, "rllib.train_batch": 500, "rllib.fragment": 50},
    "appo": {"rllib.num_env_runners": 2, "rllib.num_learners": 1, "rllib.train_batch": 500, "rllib.fragment": 50},
}
#: Filters ``get_filter_config`` chooses for square images of these sides: channels, kernel, stride; padded to keep the size.
FILTERS: dict[int, tuple[tuple[int, int, int], ...]] = {
    96: ((16, 8, 4), (32, 4, 2), (256, 11, 2)),
    84: ((16, 8, 4), (32, 4, 2), (256, 11, 1)),
    64: ((16, 4, 2), (32, 4, 2), (64, 4, 2), (128, 4, 2)),
    42: ((16, 4, 2), (32, 4, 2), (256, 11, 1)),
    10: ((16, 5, 2), (32, 5, 2)),
}
#: Of what a forward pass keeps, against the observation, where nothing is known: the default convolutions keep 5 to 11 times as much.
PASSED = 8
#: Bytes of a value in a module.
FLOAT = 4


def resolve(spec: RunSpec) -> RunSpec:
    """Fill in the release's defaults, then what follows from them."""
    algorithm = spec.text("algorithm")
    spec = spec.filled({"framework.version": LATEST}, "newest version rlmem has read")
    origin = f"rllib {spec.text('framework.version')} default"
    spec = spec.filled(
        {
            "agents": 1,
            "n_envs": 1,
            "vec_env": "dummy",
            "device": "cpu",
            "precision": "float32",
            "optimizer": "adam",
            "rllib.num_learners": 0,
            "rllib.num_aggregators": 0,
            "rllib.eval_env_runners": 0,
            "rllib.eval_envs": spec.get("n_envs", 1),
            "rllib.eval_duration": 10,
            "rllib.eval_unit": "episodes",
            "rllib.eval_in_driver": False,
            "rllib.in_flight": 1,
            "rllib.queue": 3 if algorithm in ASYNC else 0,
            "rllib.old_batches": 8 if algorithm == "appo" else 0,
            "rllib.complete_episodes": False,
            **DEFAULTS[algorithm],
        },
        origin,
    )
    if spec.count("agents") > 1:
        raise SpecError("agents", "a multi-agent configuration; rlmem plans RLlib's single-agent ones so far")
    spec = spec.filled({"rllib.fragment": _fragment(spec)}, f"{origin}: auto")
    spec = spec.filled({"batch_size": spec.count("rllib.train_batch")}, "the whole train batch is one minibatch")
    missing = [name for name in ("parameters", "runner_parameters") if f"rllib.{name}" not in spec]
    if missing:
        spec = spec.filled(_sizes(spec), f"{origin}: the default networks")
    # Of a network of the user's own that could not be tried.
    passed = PASSED * FLOAT * module_floats(spec)
    spec = spec.filled({"rllib.saved_bytes": passed}, f"not known: {PASSED} times the observation assumed")
    return spec.filled({"rllib.value_bytes": spec.count("rllib.saved_bytes")}, "not known: as much as a training pass")


def _fragment(spec: RunSpec) -> int:
    """``get_rollout_fragment_length``: an on-policy batch is shared out over all environments; off-policy steps singly."""
    if spec.text("algorithm") not in ON_POLICY:
        return 1
    whole = spec.count("rllib.train_batch") * max(1, spec.count("rllib.num_learners"))
    envs = max(1, spec.count("rllib.num_env_runners")) * spec.count("n_envs")
    return max(1, -(-whole // envs))


def module_floats(spec: RunSpec) -> int:
    """Values of one observation as a module takes it: frames stacked, one-hot where the space is discrete."""
    return sum(prod(leaf.shape) if _is_image(leaf) else leaf.width for leaf in spec.observation_leaves)


def _sizes(spec: RunSpec) -> dict[str, int]:
    """Parameters and saved bytes of the default networks."""
    algorithm = spec.text("algorithm")
    action = sum(leaf.width for leaf in leaves(spec.need("action"), "action"))
    continuous = isinstance(spec.need("action"), Box)
    out = action * (2 if continuous else 1)
    encoder = _encoder(spec, _widths(spec))
    width = encoder.out_floats
    pi, value = _head(width, out), _head(width, 1)
    if algorithm in ("ppo", "appo"):
        learner, runner, targets = [encoder, encoder, pi, value], [encoder, pi], []
        if algorithm == "appo":
            targets = [encoder, encoder, pi]
    elif algorithm == "impala":
        learner, runner, targets = [encoder, pi, value], [encoder, pi], []
    elif algorithm == "dqn":
        learner = runner = targets = [encoder, _head(width, action), value]
    else:
        critics = 2 * _critic(spec, encoder)
        learner, runner, targets = [encoder, pi, *critics], [encoder, pi], critics
    # DQN runs observations and next observations together.
    saved = sum(_saved(chain) for chain in learner) * FLOAT * (2 if algorithm == "dqn" else 1)
    return {
        "rllib.parameters": sum(chain.parameters for chain in learner),
        "rllib.runner_parameters": sum(chain.parameters for chain in runner),
        "rllib.target_parameters": sum(chain.parameters for chain in targets),
        "rllib.saved_bytes": saved,
        "rllib.value_bytes": _saved(encoder) * FLOAT,
    }


def _saved(chain: Chain) -> int:
    """Values a chain's graph keeps per sample, its input included: activations, and the padded input of each convolution."""
    padded = sum(op.in_floats for op in chain.ops if op.layer.kind == "conv2d")
    outputs = sum(op.out_floats for op in chain.ops if op.kind.saves_output)
    inputs = chain.ops[0].in_floats if outputs else 0  # a head's input is the output of what is before it
    return padded + outputs + inputs


def _is_image(leaf: Leaf) -> bool:
    """RLlib gives convolutions to whatever has three sides, of any dtype."""
    return len(leaf.shape) == 3


def _widths(spec: RunSpec) -> tuple[int, ...]:
    arch = spec.get("network.net_arch")
    return tuple(arch) if isinstance(arch, tuple) else (256, 256)


def _encoder(spec: RunSpec, widths: tuple[int, ...]) -> Chain:
    observed = spec.observation_leaves
    if len(observed) == 1 and _is_image(observed[0]):
        return _convolutions(spec)
    activation = spec.get("network.activation", "tanh")
    words = [word for width in widths for word in (f"linear {width}", str(activation))]
    return infer(parse_layers(words, "network.net_arch"), (module_floats(spec),), "network.net_arch")


def _convolutions(spec: RunSpec) -> Chain:
    leaf = spec.observation_leaves[0]
    shape = (leaf.shape[-1], *leaf.shape[:-1])  # RLlib takes channels last
    if shape[1] not in FILTERS:
        known = ", ".join(str(side) for side in FILTERS)
        raise SpecError(
            "observation", f"RLlib has no default filters for images of {shape[1]}×{shape[2]} (it has for {known})"
        )
    words: list[str] = []
    side = shape[1]
    for channels, kernel, stride in FILTERS[side]:
        out = -(-side // stride)
        padding = -(-max(0, (out - 1) * stride + kernel - side) // 2)
        words += [f"conv2d {channels} k{kernel} s{stride} p{padding}", "relu"]
        side = out
    return infer(parse_layers([*words, "flatten"], "network.extractor"), shape, "network.extractor")


def _head(width: int, out: int) -> Chain:
    return infer(parse_layers([f"linear {out}"], "network"), (width,), "network")


def _critic(spec: RunSpec, encoder: Chain) -> list[Chain]:
    """One of SAC's Q networks: with continuous actions an encoder for them too, and three layers that join the two."""
    actions = leaves(spec.need("action"), "action")
    if not isinstance(spec.need("action"), Box):
        return [encoder, _head(encoder.out_floats, sum(leaf.width for leaf in actions))]
    width = sum(prod(leaf.shape) for leaf in actions)
    words = [word for wide in _widths(spec) for word in (f"linear {wide}", "tanh")]
    of_actions = infer(parse_layers(words, "network.net_arch"), (width,), "network.net_arch")
    both = encoder.out_floats + of_actions.out_floats
    last = of_actions.out_floats
    # A dense block: each layer sees what all before it made.
    fusion = [_head(both, last), _head(both + last, last), _head(both + last, last)]
    return [encoder, of_actions, *fusion, _head(last, 1)]
