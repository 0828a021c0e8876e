"""A PPO loop of one's own whose log keeps every loss, and with it every graph."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical

NUM_ENVS, NUM_STEPS, EPOCHS, MINIBATCH = 8, 128, 4, 256
ITERATIONS = 5_000


def layer(a, b):
    return nn.Sequential(nn.Linear(a, b), nn.Tanh())


class Agent(nn.Module):
    def __init__(self, n_obs, n_actions):
        super().__init__()
        self.body = nn.Sequential(layer(n_obs, 512), layer(512, 512))
        self.pi, self.v = nn.Linear(512, n_actions), nn.Linear(512, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(NUM_ENVS)])
n_obs, n_actions = envs.single_observation_space.shape[0], int(envs.single_action_space.n)
agent = Agent(n_obs, n_actions)
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4)

obs_buf = torch.zeros(NUM_STEPS, NUM_ENVS, n_obs)
act_buf, logp_buf, rew_buf, done_buf, val_buf = (torch.zeros(NUM_STEPS, NUM_ENVS) for _ in range(5))
history = []  # for the plot at the end

obs = torch.as_tensor(envs.reset(seed=1)[0])
done = torch.zeros(NUM_ENVS)
for iteration in range(ITERATIONS):
    for t in range(NUM_STEPS):
        with torch.no_grad():
            dist, value = agent(obs)
            action = dist.sample()
        obs_buf[t], act_buf[t], logp_buf[t], val_buf[t], done_buf[t] = obs, action, dist.log_prob(action), value, done
        next_obs, reward, terminated, truncated, _ = envs.step(action.numpy())
        rew_buf[t] = torch.as_tensor(reward)
        obs, done = (
            torch.as_tensor(next_obs),
            torch.as_tensor(np.logical_or(terminated, truncated), dtype=torch.float32),
        )

    with torch.no_grad():
        last = agent(obs)[1]
    adv, gae = torch.zeros(NUM_STEPS, NUM_ENVS), 0.0
    for t in reversed(range(NUM_STEPS)):
        alive = 1 - (done if t == NUM_STEPS - 1 else done_buf[t + 1])
        nxt = last if t == NUM_STEPS - 1 else val_buf[t + 1]
        delta = rew_buf[t] + 0.99 * nxt * alive - val_buf[t]
        adv[t] = gae = delta + 0.99 * 0.95 * alive * gae
    ret = adv + val_buf

    b_obs, b_act, b_logp = obs_buf.reshape(-1, n_obs), act_buf.reshape(-1), logp_buf.reshape(-1)
    b_adv, b_ret = adv.reshape(-1), ret.reshape(-1)
    for _ in range(EPOCHS):
        for idx in torch.randperm(NUM_ENVS * NUM_STEPS).split(MINIBATCH):
            dist, value = agent(b_obs[idx])
            ratio = (dist.log_prob(b_act[idx]) - b_logp[idx]).exp()
            a = (b_adv[idx] - b_adv[idx].mean()) / (b_adv[idx].std() + 1e-8)
            pg_loss = -torch.min(a * ratio, a * ratio.clamp(0.8, 1.2)).mean()
            v_loss = (value - b_ret[idx]).square().mean()
            loss = pg_loss + 0.5 * v_loss - 0.01 * dist.entropy().mean()
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            history.append(loss)
    if iteration % 10 == 0:
        print(f"iteration {iteration}: loss {sum(history) / len(history):.3f}")
