"""Runs whose VRAM is predicted and measured: SB3, sb3-contrib and a loop of one's own, from small to some gigabytes.

Each case is built for a device and a size along its axis (the batch; the environments for the loop), and trained for
real: whole on a GPU, only the update and small on a CPU, where it is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FRAMES = {"type": "box", "shape": [84, 84, 1], "dtype": "uint8"}
GAME_BOY = {"type": "box", "shape": [144, 160, 3], "dtype": "uint8"}
CAMERA = {"type": "box", "shape": [96, 96, 3], "dtype": "uint8"}
VECTOR, WIDE_VECTOR = {"type": "box", "shape": [27]}, {"type": "box", "shape": [376]}
BUTTONS, JOINTS = {"type": "discrete", "n": 6}, {"type": "box", "shape": [8]}


def _case(algorithm: str, batch: int, observation: Any, action: Any, net: list[int] | None = None, **more: Any) -> Any:
    return {
        "algorithm": algorithm,
        "batch_size": batch,
        "observation": observation,
        "action": action,
        "net": net,
        **more,
    }


#: Name to description. ``kwargs`` go to the constructor, ``policy`` to its ``policy_kwargs``.
CASES: dict[str, dict[str, Any]] = {
    "sac, vector, batch 256": _case("sac", 256, VECTOR, JOINTS),
    "sac, 4096×3, batch 4096": _case("sac", 4096, WIDE_VECTOR, JOINTS, [4096, 4096, 4096]),
    "sac, camera, batch 256": _case("sac", 256, CAMERA, JOINTS, n_envs=2),
    "td3, vector, batch 256": _case("td3", 256, VECTOR, JOINTS),
    "td3, 2048×2, batch 32768": _case("td3", 32768, WIDE_VECTOR, JOINTS, [2048, 2048]),
    "td3, camera, batch 512": _case("td3", 512, CAMERA, JOINTS),
    "dqn, frames, batch 32": _case("dqn", 32, FRAMES, BUTTONS, frame_stack=4),
    "dqn, frames, batch 1024": _case("dqn", 1024, FRAMES, BUTTONS, frame_stack=4),
    "dqn, 2048×3, batch 8192": _case("dqn", 8192, WIDE_VECTOR, BUTTONS, [2048, 2048, 2048]),
    "qrdqn, vector, batch 2048": _case("qrdqn", 2048, VECTOR, BUTTONS, [512, 512]),
    "qrdqn, frames, batch 512": _case("qrdqn", 512, FRAMES, BUTTONS, frame_stack=4),
    "tqc, 512×3, batch 4096": _case("tqc", 4096, VECTOR, JOINTS, [512, 512, 512]),
    "crossq, 1024×2, batch 2048": _case("crossq", 2048, VECTOR, JOINTS, [1024, 1024]),
    "ppo, vector, batch 64": _case("ppo", 64, VECTOR, JOINTS, n_envs=4),
    "ppo, 4096×4, batch 16384": _case("ppo", 16384, VECTOR, JOINTS, [4096] * 4, n_envs=32),
    "ppo, frames, batch 256": _case("ppo", 256, FRAMES, BUTTONS, frame_stack=4, n_envs=8),
    "ppo, frames, batch 2048": _case("ppo", 2048, FRAMES, BUTTONS, frame_stack=4, n_envs=8),
    "ppo, Game Boy, batch 2048": _case("ppo", 2048, GAME_BOY, BUTTONS, frame_stack=4, n_envs=8),
    "a2c, frames, batch 640": _case("a2c", 640, FRAMES, BUTTONS, frame_stack=4, n_envs=16),
    "a2c, 2048×2, batch 8192": _case("a2c", 8192, VECTOR, JOINTS, [2048, 2048], n_envs=64),
    "trpo, 1024×2, batch 4096": _case("trpo", 4096, VECTOR, JOINTS, [1024, 1024], n_envs=16),
    "recurrent ppo, LSTM 256, batch 128": _case("recurrent_ppo", 128, VECTOR, JOINTS, n_envs=4),
    "recurrent ppo, LSTM 1024, batch 2048": _case("recurrent_ppo", 2048, VECTOR, JOINTS, n_envs=16,
                                                  policy={"lstm_hidden_size": 1024}),
    "own ppo loop, frames, 64 envs": {"loop": True, "envs": 64, "steps": 128, "width": 512},
    "own ppo loop, frames, 256 envs": {"loop": True, "envs": 256, "steps": 128, "width": 2048},
    # Not looked at while the rules of workspaces and the context were set.
    "ddpg, 1024×3, batch 16384": _case("ddpg", 16384, WIDE_VECTOR, JOINTS, [1024, 1024, 1024]),
    "sac, frames, batch 128": _case("sac", 128, FRAMES, JOINTS, frame_stack=3),
    "sac, 1024×2, batch 1024": _case("sac", 1024, VECTOR, JOINTS, [1024, 1024]),
    "dqn, Game Boy, batch 256": _case("dqn", 256, GAME_BOY, BUTTONS),
    "tqc, camera, batch 256": _case("tqc", 256, CAMERA, JOINTS),
    "ppo, camera, batch 4096": _case("ppo", 4096, CAMERA, BUTTONS, n_envs=8),
    "ppo, 512×2, batch 65536": _case("ppo", 65536, WIDE_VECTOR, JOINTS, [512, 512], n_envs=64),
    "a2c, frames, batch 80": _case("a2c", 80, FRAMES, BUTTONS, frame_stack=4, n_envs=16),
    "own ppo loop, frames, 128 envs": {"loop": True, "envs": 128, "steps": 64, "width": 1024},
}  # fmt: skip
#: Algorithms that learn from a buffer, a batch at a time.
OFF_POLICY = ("sac", "td3", "ddpg", "dqn", "qrdqn", "tqc", "crossq")


def size(case: dict[str, Any]) -> int:
    """The wanted size along the case's axis."""
    return int(case["envs"] if "loop" in case else case["batch_size"])


def small_sizes(case: dict[str, Any]) -> tuple[int, int]:
    """Two small sizes along the axis to record at."""
    return (2, 4) if "loop" in case else (8, 16)


def train(case: dict[str, Any], device: str, wanted: int, around: Callable[[Any, Callable[[], Any]], None]) -> Any:
    """Build the case at a size and train it; ``around(model, update)`` runs the update. Returns what to keep alive."""
    if "loop" in case:
        return _loop(case, device, wanted, around)
    model = _build(case, device, wanted)
    update = model.train
    if case["algorithm"] in OFF_POLICY:
        model.learn(20)
        around(model, lambda: update(gradient_steps=4, batch_size=wanted))
    else:
        # The second update finds gradients and optimizer state in place: where a rollout gives one, it serves twice.
        times = 2 if device == "cpu" and case["algorithm"] in ("a2c", "trpo") else 1
        model.train = lambda: around(model, lambda: [update() for _ in range(times)])
        model.learn((2 if device == "cuda" else 1) * model.n_steps * model.n_envs)
        del model.train
    return model


def _env(case: dict[str, Any]) -> Any:
    import gymnasium
    import numpy as np
    from gymnasium import spaces
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

    box = case["observation"]
    low, high, dtype = (0, 255, np.uint8) if box.get("dtype") == "uint8" else (-1, 1, np.float32)

    class Still(gymnasium.Env):  # type: ignore[misc]
        """An environment that shows the same observation for 100 steps."""

        observation_space = spaces.Box(low, high, tuple(box["shape"]), dtype)
        action_space = spaces.Discrete(6) if case["action"] is BUTTONS else spaces.Box(-1, 1, (8,))

        def __init__(self) -> None:
            self.seen, self.steps = self.observation_space.sample(), 0

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.steps = 0
            return self.seen, {}

        def step(self, action: Any) -> Any:
            self.steps += 1
            return self.seen, 0.0, False, self.steps >= 100, {}

    env: Any = DummyVecEnv([Still] * case.get("n_envs", 1))
    return VecFrameStack(env, case["frame_stack"]) if case.get("frame_stack", 1) > 1 else env


def _build(case: dict[str, Any], device: str, batch: int) -> Any:
    import sb3_contrib
    import stable_baselines3

    name = case["algorithm"]
    kwargs: dict[str, Any] = dict(case.get("kwargs", {}))
    small = device == "cpu"
    env = _env({**case, "n_envs": min(case.get("n_envs", 1), 4)} if small else case)
    if name in OFF_POLICY:
        kwargs |= {"batch_size": batch, "buffer_size": 200, "learning_starts": 10**6}
    elif name == "a2c":
        kwargs |= {"n_steps": batch // env.num_envs}
    else:
        epochs = {} if name == "trpo" else {"n_epochs": 2}
        kwargs |= {
            "batch_size": batch,
            "n_steps": (1 if small or name == "trpo" else 2) * batch // env.num_envs,
            **epochs,
        }
    policy = "CnnPolicy" if case["observation"].get("dtype") == "uint8" else "MlpPolicy"
    policy = policy.replace("Policy", "LstmPolicy") if name == "recurrent_ppo" else policy
    of_net = {"net_arch": case["net"]} if case["net"] else {}
    source = stable_baselines3 if hasattr(stable_baselines3, name.upper()) else sb3_contrib
    named = {"recurrent_ppo": "RecurrentPPO", "crossq": "CrossQ"}.get(name, name.upper())
    return getattr(source, named)(
        policy, env, device=device, policy_kwargs={**of_net, **case.get("policy", {})}, **kwargs
    )


def _loop(case: dict[str, Any], device: str, envs: int, around: Callable[[Any, Callable[[], Any]], None]) -> Any:
    """PPO as people write it in one file: storage on the device, minibatches by index, a shared convolutional trunk."""
    import numpy as np
    import torch
    from torch import nn
    from torch.distributions import Categorical

    steps, width, minibatches = case["steps"], case["width"], 4
    trunk = nn.Sequential(
        nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 7 * 7, width), nn.ReLU(),
    )  # fmt: skip
    net = nn.ModuleList([trunk, nn.Linear(width, 6), nn.Linear(width, 1)]).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=2.5e-4, eps=1e-5)

    def act(x: Any, action: Any = None) -> Any:
        hidden = net[0](x / 255.0)
        choice = Categorical(logits=net[1](hidden))
        action = choice.sample() if action is None else action
        return action, choice.log_prob(action), choice.entropy(), net[2](hidden)

    def update() -> None:
        obs = torch.zeros((steps, envs, 4, 84, 84)).to(device)
        actions, logprobs, rewards, values = (torch.zeros((steps, envs)).to(device) for _ in range(4))
        seen = torch.Tensor(np.zeros((envs, 4, 84, 84), np.float32)).to(device)
        for _ in range(2):
            for step in range(steps):
                obs[step] = seen
                with torch.no_grad():
                    action, logprob, _, value = act(seen)
                    values[step] = value.flatten()
                actions[step], logprobs[step] = action, logprob
                rewards[step] = torch.tensor(np.zeros(envs, np.float32)).to(device).view(-1)
                seen = torch.Tensor(np.zeros((envs, 4, 84, 84), np.float32)).to(device)
            with torch.no_grad():
                advantages = torch.zeros_like(rewards).to(device)
                for step in reversed(range(steps)):
                    advantages[step] = rewards[step] - values[step]
                returns = advantages + values
            b_obs, b_actions, b_logprobs = obs.reshape((-1, 4, 84, 84)), actions.reshape(-1), logprobs.reshape(-1)
            b_advantages, b_returns = advantages.reshape(-1), returns.reshape(-1)
            rows = np.arange(steps * envs)
            np.random.shuffle(rows)
            for some in np.split(rows, minibatches):
                _, logprob, entropy, value = act(b_obs[some], b_actions.long()[some])
                ratio = (logprob - b_logprobs[some]).exp()
                gain = b_advantages[some]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                policy_loss = torch.max(-gain * ratio, -gain * torch.clamp(ratio, 0.8, 1.2)).mean()
                loss = policy_loss - 0.01 * entropy.mean() + 0.25 * ((value.view(-1) - b_returns[some]) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                optimizer.step()

    around((net, optimizer), update)
    return net
