"""The networks SB3 builds for an algorithm: feature extractors, policy and value heads, targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from rlmem.core.layers import Chain, infer, parse_layers
from rlmem.core.spaces import Box, Leaf, MultiBinary
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.frameworks.sb3.defaults import channels_first
from rlmem.frameworks.sb3.storage import action_leaf
from rlmem.model.learner import Network

NATURE = ("conv2d 32 k8 s4", "relu", "conv2d 64 k4 s2", "relu", "conv2d 64 k3 s1", "relu", "flatten")
#: CombinedExtractor gives image keys a NatureCNN of this width, a stand-alone NatureCNN has 512.
COMBINED_WIDTH, NATURE_WIDTH = 256, 512
PRESETS = ("nature", "flatten", "combined")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extractor:
    """One feature extractor: a chain per observation key, then an optional fusion of their concatenation."""

    branches: tuple[tuple[Leaf, Chain], ...]
    fusion: Chain | None

    @property
    def concat_floats(self) -> int:
        """Values of all branches side by side."""
        return sum(chain.out_floats for _, chain in self.branches)

    @property
    def out_floats(self) -> int:
        """Width of the features."""
        return self.fusion.out_floats if self.fusion else self.concat_floats

    @property
    def convolves(self) -> bool:
        """Whether convolution kernels run."""
        return any(op.layer.kind.startswith("conv") for _, chain in self.branches for op in chain.ops)

    def chains(self, prefix: str = "extractor") -> dict[str, Chain]:
        """All chains by name."""
        named = {f"{prefix}[{leaf.name}]": chain for leaf, chain in self.branches}
        return named | ({f"{prefix}.fusion": self.fusion} if self.fusion else {})


def extractor(spec: RunSpec) -> Extractor:
    """The features extractor of one network, from its preset name or the description's own layers."""
    choice = spec.need("network.extractor")
    path = "network.extractor"
    leaves = spec.observation_leaves
    if isinstance(choice, str) and choice not in PRESETS:
        raise SpecError(path, f"unknown extractor {choice!r}; known: {', '.join(PRESETS)}, or give a list of layers")
    if isinstance(choice, Mapping):
        names = [leaf.name for leaf in leaves]
        for key in choice:
            if key not in names:
                raise SpecError(f"{path}.{key}", f"the observation has no such key; it has {', '.join(names)}")
    branches = tuple((leaf, _branch(spec, leaf, choice, path)) for leaf in leaves)
    fusion_layers = spec.get("network.fusion")
    width = sum(chain.out_floats for _, chain in branches)
    fusion = infer(parse_layers(fusion_layers, "network.fusion"), (width,), "network.fusion") if fusion_layers else None
    return Extractor(branches=branches, fusion=fusion)


def _branch(spec: RunSpec, leaf: Leaf, choice: object, path: str) -> Chain:
    image = leaf.is_image
    shape = channels_first(leaf) if image else _flat_or_shape(leaf)
    if isinstance(choice, Mapping):
        layers = choice.get(leaf.name, ("flatten",))
        path = f"{path}.{leaf.name}"
    elif isinstance(choice, str):
        if choice == "nature" and not image:
            raise SpecError(
                path, f"nature needs a uint8 image with three dimensions, got {list(leaf.shape)} {leaf.dtype}"
            )
        convolve = choice == "nature" or (choice == "combined" and image)
        width = spec.get("network.features_dim", COMBINED_WIDTH if choice == "combined" else NATURE_WIDTH)
        layers = (*NATURE, f"linear {width}", "relu") if convolve else ("flatten",)
    else:
        layers = choice
    return infer(parse_layers(layers, path), shape, path)


def _flat_or_shape(leaf: Leaf) -> tuple[int, ...]:
    """Floats keep their shape; discrete values arrive one-hot."""
    return leaf.shape if leaf.dtype.startswith("float") or leaf.width == prod(leaf.shape) else (leaf.width,)


def mlp(width: int, hidden: tuple[int, ...], activation: str, out: int | None, *, norm: bool = False) -> Chain:
    """``create_mlp``: hidden layers with activations, and an output layer if ``out`` is given."""
    words: list[str] = ["batchrenorm"] if norm else []
    for size in hidden:
        words += [f"linear {size}", activation] + ["batchrenorm"] * norm
    if out is not None:
        words.append(f"linear {out}")
    return infer(parse_layers(words, "network.net_arch"), (width,), "network.net_arch")


def arch(spec: RunSpec, head: str) -> tuple[int, ...]:
    """Hidden widths of one head (pi, vf or qf)."""
    value = spec.need("network.net_arch")
    if isinstance(value, Mapping):
        other = {"vf": "qf", "qf": "vf"}.get(head, head)
        return tuple(value.get(head, value.get(other, ())))
    return tuple(value)


def action_outputs(spec: RunSpec) -> int:
    """Outputs of the policy head: one per dimension, or one logit per choice (masking takes two per bit)."""
    both = spec.text("algorithm") == "maskable_ppo" and isinstance(spec.need("action"), MultiBinary)
    return action_leaf(spec).width * (2 if both else 1)


def on_policy(spec: RunSpec) -> tuple[Network, ...]:
    """ActorCriticPolicy: shared or separate extractors, two MLPs, two output layers."""
    features = extractor(spec)
    activation = spec.text("network.activation")
    width = features.out_floats
    chains = features.chains()
    if not spec.flag("network.share_features_extractor"):
        chains |= features.chains("vf-extractor")
    if spec.text("algorithm") == "recurrent_ppo":
        hidden, layers = spec.count("network.lstm_hidden"), spec.count("network.lstm_layers")
        lstm = infer(parse_layers([f"lstm {hidden}"] * layers), (width,))
        chains |= {"pi.lstm": lstm}
        if spec.flag("network.critic_lstm"):
            chains |= {"vf.lstm": lstm}
        else:
            chains |= {"vf.linear": infer(parse_layers([f"linear {hidden}"]), (width,))}
        width = hidden
    chains["pi"] = mlp(width, arch(spec, "pi"), activation, action_outputs(spec))
    chains["vf"] = mlp(width, arch(spec, "vf"), activation, 1)
    loose = action_leaf(spec).width if isinstance(spec.need("action"), Box) else 0
    return (Network(name="policy", chains=chains, loose=loose),)


def value_based(spec: RunSpec) -> tuple[Network, ...]:
    """DQN and QR-DQN: one network and its target."""
    features = extractor(spec)
    outputs = action_outputs(spec) * spec.get("network.n_quantiles", 1)
    head = mlp(features.out_floats, arch(spec, "qf"), spec.text("network.activation"), outputs)
    chains = features.chains() | {"q": head}
    return (
        Network(name="q_net", chains=chains),
        Network(name="q_net_target", chains=chains, trained=False),
    )


def actor_critic(spec: RunSpec) -> tuple[Network, ...]:
    """SAC, TQC, TD3, DDPG, CrossQ: each of actor, critic and targets owns an extractor unless shared."""
    algorithm = spec.text("algorithm")
    features = extractor(spec)
    activation = spec.text("network.activation")
    actions = prod(action_leaf(spec).shape)
    norm = algorithm == "crossq"
    stochastic = algorithm in ("sac", "tqc", "crossq")
    hidden = arch(spec, "pi")
    pi = {"pi": mlp(features.out_floats, hidden, activation, None if stochastic else actions, norm=norm)}
    if stochastic:
        last = pi["pi"].out_floats
        pi |= {"mu": mlp(last, (), activation, actions), "log_std": mlp(last, (), activation, actions)}
    outputs = spec.get("network.n_quantiles", 1) if algorithm == "tqc" else 1
    q = mlp(features.out_floats + actions, arch(spec, "qf"), activation, outputs, norm=norm)
    critics = {f"q{i}": q for i in range(spec.count("network.n_critics"))}
    own = features.chains()
    shared = spec.flag("network.share_features_extractor")
    networks = [
        Network(name="actor", chains=own | pi),
        Network(name="critic", chains=critics if shared else own | critics),
    ]
    if algorithm != "crossq":
        # SAC's critic target always owns an extractor; TD3's takes the actor target's when they are shared.
        borrowed = shared and algorithm in ("td3", "ddpg")
        networks.append(Network(name="critic_target", chains=critics if borrowed else own | critics, trained=False))
    if algorithm in ("td3", "ddpg"):
        networks.append(Network(name="actor_target", chains=own | pi, trained=False))
    return tuple(networks)


def networks(spec: RunSpec) -> tuple[Network, ...]:
    """All networks of the run's algorithm."""
    algorithm = spec.text("algorithm")
    if algorithm in ("dqn", "qrdqn"):
        return value_based(spec)
    if algorithm in ("sac", "tqc", "crossq", "td3", "ddpg"):
        return actor_critic(spec)
    return on_policy(spec)
