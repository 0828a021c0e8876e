"""Evolution strategies in numpy alone: no torch, no gradients; a table of noise that all candidates read from."""

import argparse

import gymnasium as gym
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="CartPole-v1")
parser.add_argument("--generations", type=int, default=100)
parser.add_argument("--population", type=int, default=32)
parser.add_argument("--max-steps", type=int, default=500)
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--noise-table", type=int, default=25_000_000, help="float32 values; 25 million are 100 MB")
parser.add_argument("--sigma", type=float, default=0.05)
parser.add_argument("--learning-rate", type=float, default=0.03)
parser.add_argument("--seed", type=int, default=1)


class Policy:
    """Two hidden layers whose weights are one flat vector."""

    def __init__(self, inputs, hidden, outputs):
        self.shapes = [(inputs, hidden), (hidden, hidden), (hidden, outputs)]
        self.size = sum(rows * columns + columns for rows, columns in self.shapes)

    def layers(self, flat):
        at = 0
        for rows, columns in self.shapes:
            weights = flat[at : at + rows * columns].reshape(rows, columns)
            at += rows * columns
            yield weights, flat[at : at + columns]
            at += columns

    def act(self, layers, obs):
        for index, (weights, bias) in enumerate(layers):
            obs = obs @ weights + bias
            if index < len(layers) - 1:
                obs = np.tanh(obs)
        return obs


def episode(env, policy, flat, max_steps, seed):
    layers, total = list(policy.layers(flat)), 0.0
    discrete = isinstance(env.action_space, gym.spaces.Discrete)
    obs, _ = env.reset(seed=seed)
    for _ in range(max_steps):
        out = policy.act(layers, np.asarray(obs, dtype=np.float32).ravel())
        action = int(out.argmax()) if discrete else np.clip(out, env.action_space.low, env.action_space.high)
        obs, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        if terminated or truncated:
            break
    return total


def ranks(scores):
    """Scores as evenly spaced values from -0.5 to 0.5, so that one outlier does not decide."""
    order = np.empty(len(scores))
    order[scores.argsort()] = np.arange(len(scores))
    return order / max(len(scores) - 1, 1) - 0.5


def main(args):
    rng = np.random.default_rng(args.seed)
    env = gym.make(args.env_id)
    discrete = isinstance(env.action_space, gym.spaces.Discrete)
    outputs = int(env.action_space.n) if discrete else int(np.prod(env.action_space.shape))
    policy = Policy(int(np.prod(env.observation_space.shape)), args.hidden, outputs)
    noise = rng.standard_normal(args.noise_table, dtype=np.float32)
    centre = rng.standard_normal(policy.size, dtype=np.float32) * 0.1
    momentum, velocity = np.zeros_like(centre), np.zeros_like(centre)

    for generation in range(1, args.generations + 1):
        starts = rng.integers(0, args.noise_table - policy.size, args.population)
        scores = np.zeros((args.population, 2))
        for index, start in enumerate(starts):
            step = args.sigma * noise[start : start + policy.size]
            seed = int(rng.integers(2**31))
            scores[index, 0] = episode(env, policy, centre + step, args.max_steps, seed)
            scores[index, 1] = episode(env, policy, centre - step, args.max_steps, seed)
        weights = ranks(scores.ravel()).reshape(scores.shape)
        weights = weights[:, 0] - weights[:, 1]
        directions = np.stack([noise[start : start + policy.size] for start in starts])
        gradient = (weights @ directions / (2 * args.population * args.sigma)).astype(np.float32)
        momentum = 0.9 * momentum + 0.1 * gradient
        velocity = 0.999 * velocity + 0.001 * gradient**2
        corrected = momentum / (1 - 0.9**generation), velocity / (1 - 0.999**generation)
        centre = centre + args.learning_rate * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
        print(f"generation {generation}: mean {scores.mean():.1f}, best {scores.max():.1f}", flush=True)
    env.close()


if __name__ == "__main__":
    main(parser.parse_args())
