"""DQN on CartPole in one file, in CleanRL's manner, with ``rlmem.buffers.Replay`` as its replay buffer.

pip install 'rlmem[buffers]' torch gymnasium
python docs/examples/cleanrl_replay.py
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from rlmem.buffers import Replay

SEED, STEPS, N_ENVS, BATCH, GAMMA = 1, 1000, 8, 128, 0.99


def network() -> nn.Sequential:
    """Values of the two actions."""
    return nn.Sequential(nn.Linear(4, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 2))


def main() -> None:
    """Collect, store, sample, learn."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    make = [lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))] * N_ENVS
    envs = gym.vector.SyncVectorEnv(make, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    value, target = network(), network()
    target.load_state_dict(value.state_dict())
    optimizer = torch.optim.Adam(value.parameters(), lr=2.5e-3)

    flag = ((), "bool")
    replay = Replay(
        10_000,
        envs.single_observation_space,
        N_ENVS,
        fields={"action": ((), "int64"), "reward": ((), "float32"), "terminated": flag, "truncated": flag},
        n_steps=3,
        gamma=GAMMA,
    )
    obs, _ = envs.reset(seed=SEED)
    returns: list[float] = []
    for step in range(STEPS):
        action = rng.integers(0, 2, N_ENVS)
        greedy = rng.random(N_ENVS) > max(0.05, 1 - step / (0.4 * STEPS))
        with torch.no_grad():
            action[greedy] = value(torch.from_numpy(obs[greedy])).argmax(1).numpy()
        next_obs, reward, terminated, truncated, infos = envs.step(action)
        final = next_obs.copy()  # what an episode ended with; next_obs is already the first of the one after it
        for env in np.flatnonzero(terminated | truncated):
            final[env] = infos["final_obs"][env]
            returns.append(float(infos["final_info"]["episode"]["r"][env]))
        replay.add(obs, final, action=action, reward=reward, terminated=terminated, truncated=truncated)
        obs = next_obs

        if step >= 100:
            batch = {name: torch.from_numpy(array) for name, array in replay.sample(BATCH, rng).items()}
            with torch.no_grad():
                ahead = batch["discount"] * ~batch["terminated"] * target(batch["next_obs"]).max(1).values
            chosen = value(batch["obs"]).gather(1, batch["action"][:, None]).squeeze(1)
            loss = nn.functional.mse_loss(chosen, batch["reward"] + ahead)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                target.load_state_dict(value.state_dict())
    envs.close()
    print(f"return of the first 20 episodes: {np.mean(returns[:20]):.0f}, of the last 20: {np.mean(returns[-20:]):.0f}")
    print(f"{replay!r}\n{replay.bytes_per_transition:.0f} bytes a transition, {replay.nbytes:,} in all")


if __name__ == "__main__":
    main()
