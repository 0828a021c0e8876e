"""REINFORCE with a linear softmax policy in numpy; whole episodes are kept in lists, as textbook scripts do."""

import argparse

import gymnasium as gym
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="CartPole-v1")
parser.add_argument("--iterations", type=int, default=200)
parser.add_argument("--episodes", type=int, default=16, help="episodes an update")
parser.add_argument("--features", type=int, default=512, help="random Fourier features")
parser.add_argument("--learning-rate", type=float, default=0.05)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--seed", type=int, default=1)


class Features:
    """A fixed random map that makes a linear policy expressive enough."""

    def __init__(self, inputs, count, rng):
        self.frequencies = rng.standard_normal((inputs, count))
        self.phases = rng.uniform(0, 2 * np.pi, count)

    def __call__(self, obs):
        return np.cos(np.asarray(obs, dtype=np.float64).ravel() @ self.frequencies + self.phases)


def softmax(values):
    shifted = np.exp(values - values.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def collect(env, features, weights, rng, seed):
    """One episode: features, actions, rewards."""
    rows, actions, rewards = [], [], []
    obs, _ = env.reset(seed=seed)
    done = False
    while not done:
        row = features(obs)
        masses = softmax(row @ weights)
        action = int(rng.choice(len(masses), p=masses))
        obs, reward, terminated, truncated, _ = env.step(action)
        rows.append(row)
        actions.append(action)
        rewards.append(float(reward))
        done = terminated or truncated
    return rows, actions, rewards


def discounted(rewards, gamma):
    returns, running = np.zeros(len(rewards)), 0.0
    for index in reversed(range(len(rewards))):
        running = rewards[index] + gamma * running
        returns[index] = running
    return returns


def main(args):
    rng = np.random.default_rng(args.seed)
    env = gym.make(args.env_id)
    actions_count = int(env.action_space.n)
    features = Features(int(np.prod(env.observation_space.shape)), args.features, rng)
    weights = np.zeros((args.features, actions_count))
    momentum, velocity = np.zeros_like(weights), np.zeros_like(weights)
    for iteration in range(1, args.iterations + 1):
        rows, actions, returns, lengths = [], [], [], []
        for _ in range(args.episodes):
            seen, taken, rewards = collect(env, features, weights, rng, int(rng.integers(2**31)))
            rows += seen
            actions += taken
            returns.append(discounted(rewards, args.gamma))
            lengths.append(len(rewards))
        inputs, chosen, weight = np.array(rows), np.array(actions), np.concatenate(returns)
        weight = (weight - weight.mean()) / (weight.std() + 1e-8)
        direction = -softmax(inputs @ weights)
        direction[np.arange(len(chosen)), chosen] += 1.0
        gradient = inputs.T @ (direction * weight[:, None]) / len(chosen)
        momentum = 0.9 * momentum + 0.1 * gradient
        velocity = 0.999 * velocity + 0.001 * gradient**2
        scale = np.sqrt(1 - 0.999**iteration) / (1 - 0.9**iteration)
        weights = weights + args.learning_rate * scale * momentum / (np.sqrt(velocity) + 1e-8)
        print(f"iteration {iteration}: {np.mean(lengths):.1f} steps an episode", flush=True)
    env.close()


if __name__ == "__main__":
    main(parser.parse_args())
