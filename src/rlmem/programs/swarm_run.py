"""A described swarm, for real: PPO with an autoencoder over a sliding history, all agents in one vectorised environment.

Stand-alone (numpy, torch). The defaults are the ``drone-swarm`` reference run as it was first written: the rollout runs
with gradients on, observations are cloned into a list and stacked, and the update is one batch over all steps of all
agents. Case keys are in DEFAULTS:

    agents, steps, history, sample, extra, step     the swarm and its observation: history × sample + extra values
    modules       {"encoder", "decoder", "policy", "value"} as layers (required)
    rollout_grad  the rollout keeps the graph of every step;  clone_then_stack  a list, then a stack (two copies)
    batch         minibatch size, or null for one batch;  epochs, iterations
    imu_history   the redundant history array of the first version;  state_bytes  further bytes per agent
    threads, imports, device, optimizer, seed
"""

import sys

import program_kit as kit

DEFAULTS = {
    "agents": 100,
    "steps": 100,
    "history": 300,
    "sample": 6,
    "extra": 4,
    "step": 10,
    "modules": None,
    "rollout_grad": True,
    "clone_then_stack": True,
    "batch": None,
    "epochs": 1,
    "iterations": 1,
    "imu_history": False,
    "state_bytes": 0,
    "threads": None,
    "imports": (),
    "device": "cpu",
    "optimizer": "adam",
    "seed": 0,
}
#: Control steps of 0.1 s in ten substeps, six IMU values each, four targets: what the physics below is written for.
DRONES = (6, 4, 10)
SIGMA = 0.5


def make_env(case):
    """The drones, or an environment of other shapes that observes noise."""
    import numpy as np

    drones = (case["sample"], case["extra"], case["step"]) == DRONES
    n, history, sample, new = case["agents"], case["history"], case["sample"], case["step"]
    stream = history * sample

    class Swarm:
        """Arrays of N agents; each step appends ``step`` samples to every window and shifts the rest left."""

        def __init__(self):
            f = np.float32
            self.rng = np.random.default_rng(case["seed"])
            self.observations = np.zeros((n, stream + case["extra"]), f)
            self.pos_history = np.zeros((n, 100, 3), f)
            self.imu_history = np.zeros((n, history, sample), f) if case["imu_history"] else None
            self.pos, self.vel, self.ang, self.rates = (np.zeros((n, 3), f) for _ in range(4))
            self.mass, self.drag, self.thrust, self.reward = (np.zeros(n, f) for _ in range(4))
            self.count = np.zeros((n, 2), np.int32)
            self.agent_rng = np.zeros((n, 2), np.uint32)
            self.held = np.ones((n, case["state_bytes"]), np.uint8)
            self.reset()

        def nbytes(self):
            return sum(v.nbytes for v in vars(self).values() if isinstance(v, np.ndarray))

        def reset(self):
            for array in (self.vel, self.ang, self.rates, self.observations, self.pos_history, self.count):
                array[:] = 0
            if self.imu_history is not None:
                self.imu_history[:] = 0
            self.pos[:] = (0, 0, 10)
            for array, low, high in ((self.mass, 0.5, 1.5), (self.drag, 0.05, 0.15), (self.thrust, 0.8, 1.2)):
                array[:] = self.rng.uniform(low, high, n)
            pick = self.rng.integers(0, 10, n)  # 0, 1: hover; 2..9: ±1 on vx, vy, vz, yaw rate
            if drones:
                rows = np.nonzero(pick >= 2)[0]
                self.observations[rows, stream + (pick[rows] - 2) // 2] = 1 - 2 * ((pick[rows] - 2) % 2)

        def step(self, action):
            new_samples = self.fly(action) if drones else self.rng.standard_normal((n, new, sample), np.float32)
            if self.imu_history is not None:
                self.imu_history[:, :-new] = self.imu_history[:, new:].copy()
                self.imu_history[:, -new:] = new_samples[:, -history:]
                self.observations[:, :stream] = self.imu_history.reshape(n, -1)
            else:
                kept = max(stream - new * sample, 0)
                self.observations[:, :kept] = self.observations[:, stream - kept : stream].copy()
                self.observations[:, kept:stream] = new_samples.reshape(n, -1)[:, -(stream - kept) :]
            self.pos_history[:, int(self.count[0, 0]) % 100] = self.pos
            self.count += 1
            return self.reward

        def fly(self, action):
            dt, samples = np.float32(0.01), np.empty((n, new, sample), np.float32)
            self.rates[:] = action[:, 1:4]
            for k in range(new):
                self.ang += self.rates * dt
                rot = self.rotation()
                push = action[:, :1] * 20 * self.thrust[:, None] / self.mass[:, None]
                acc = rot[:, :, 2] * push - self.drag[:, None] * self.vel
                samples[:, k, :3] = np.einsum("nji,nj->ni", rot, acc)
                samples[:, k, 3:] = self.rates
                acc[:, 2] -= 9.81
                self.vel += acc * dt
                self.pos += self.vel * dt
                ground = 5 * np.sin(0.1 * self.pos[:, 0]) * np.cos(0.1 * self.pos[:, 1])
                hit = self.pos[:, 2] < ground
                self.pos[hit, 2] = ground[hit]
                self.vel[hit] = 0
            target = self.observations[:, stream:]
            body = np.einsum("nji,nj->ni", rot, self.vel)
            roll, pitch = self.ang[:, 0], self.ang[:, 1]
            self.reward[:] = (
                np.exp(-2 * ((body - target[:, :3]) ** 2).sum(1))
                + 0.5 * np.exp(-2 * (self.rates[:, 2] - target[:, 3]) ** 2)
                - 0.01 * (roll**2 + pitch**2)
                - 0.1 * ((abs(roll) > 1) | (abs(pitch) > 1))
                + 0.1
            )
            return samples

        def rotation(self):
            (cr, cp, cy), (sr, sp, sy) = np.cos(self.ang.T), np.sin(self.ang.T)
            rows = [
                np.stack([cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr], -1),
                np.stack([sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr], -1),
                np.stack([-sp, cp * sr, cp * cr], -1),
            ]
            return np.stack(rows, 1).astype(np.float32)

    return Swarm()


class Networks:
    """Encoder, decoder, policy and value; the value head shares the policy's trunk."""

    def __init__(self, case, device):
        import torch.nn as nn

        modules = case["modules"]
        self.history, self.sample = case["history"], case["sample"]
        self.encoder, self.decoder = (kit.chain(modules[name]).to(device) for name in ("encoder", "decoder"))
        policy = kit.chain(modules["policy"]).to(device)
        self.trunk, self.mean = nn.Sequential(*list(policy)[:-1]), policy[-1]
        self.value = kit.chain(modules["value"]).to(device)
        self.modules = (self.encoder, self.decoder, policy, self.value)
        self.optimizers = [
            kit.optimizer(case["optimizer"], [p for m in group for p in m.parameters()])
            for group in ((policy, self.value), (self.encoder, self.decoder))
        ]

    def window(self, observations):
        """The history, channels first (a view)."""
        width = self.history * self.sample
        return observations[:, :width].view(-1, self.history, self.sample).transpose(1, 2)

    def head(self, latent, observations):
        """Means and values."""
        import torch

        joined = torch.cat([latent.flatten(1), observations[:, self.history * self.sample :]], 1)
        trunk = self.trunk(joined)
        return self.mean(trunk), self.value(trunk).squeeze(-1)


def log_prob(action, mean):
    """Of a normal distribution with a fixed deviation."""
    return (-((action - mean) ** 2) / (2 * SIGMA**2) - 0.2257913526447274).sum(-1)  # −log σ − ½ log 2π


def collect(case, env, nets, device):
    """One rollout, as the run writes it."""
    import torch

    steps, agents = case["steps"], case["agents"]
    kept, logs, values, actions, rewards = [], [], [], [], []
    width = env.observations.shape[1]
    store = None if case["clone_then_stack"] else torch.empty(steps, agents, width, device=device)
    env.reset()
    for t in range(steps):
        now = torch.from_numpy(env.observations).to(device)
        if store is None:
            kept.append(now.clone())
        else:
            store[t] = now
        with torch.set_grad_enabled(case["rollout_grad"]):
            mean, value = nets.head(nets.encoder(nets.window(now)), now)
            action = (mean + SIGMA * torch.randn_like(mean)).detach()
            logs.append(log_prob(action, mean))
        values.append(value)
        actions.append(action)
        rewards.append(torch.from_numpy(env.step(action.cpu().numpy()).copy()).to(device))
    return kept, store, logs, values, actions, rewards


def update(case, nets, data):
    """Monte-Carlo returns, then one batch or minibatches through autoencoder and policy."""
    import torch
    import torch.nn.functional as functional

    kept, store, logs, values, actions, rewards = data
    returns, later = [], torch.zeros_like(rewards[0])
    for reward in reversed(rewards):
        later = reward + 0.99 * later
        returns.append(later)
    returns = torch.stack(returns[::-1]).view(-1)
    observations = (torch.stack(kept) if store is None else store).flatten(0, 1)
    old, value, acted = (torch.stack(items).detach().flatten(0, 1) for items in (logs, values, actions))
    gain = returns - value
    gain = (gain - gain.mean()) / (gain.std() + 1e-8)
    samples = len(returns)
    size = case["batch"] or samples
    for _ in range(case["epochs"]):
        order = torch.randperm(samples, device=returns.device) if size < samples else None
        for low in range(0, samples, size):
            batch = (observations, acted, returns, gain, old)
            if order is not None:
                rows = order[low : low + size]
                batch = tuple(part[rows] for part in batch)
            seen, action, target, advantage, before = batch
            window = nets.window(seen)
            latent = nets.encoder(window)
            rebuilt = nets.decoder(latent)
            mean, predicted = nets.head(latent, seen)
            ratio = (log_prob(action, mean) - before).exp()
            policy = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            loss = policy + 0.5 * functional.mse_loss(predicted, target) + functional.mse_loss(rebuilt, window)
            for one in nets.optimizers:
                one.zero_grad()
            loss.backward()
            for one in nets.optimizers:
                one.step()
            # As in a user's loop, the names live on until they are bound again.
    return observations


def run(case):
    """All phases of the run."""
    phases = kit.Phases()
    with phases("import"):
        import numpy as np  # noqa: F401  # part of what such a process imports
        import torch

        notes = kit.prepare(case, phases)
    torch.manual_seed(case["seed"])
    with phases("build"):
        device = kit.choose_device(case["device"])
        env = make_env(case)
        nets = Networks(case, device)
    sizes = {"workers.env-state": env.nbytes()}
    for _ in range(case["iterations"]):
        with phases("collect"):
            data = collect(case, env, nets, device)
        kept, store, logs, values, actions, rewards = data
        held = kept if store is None else [store]
        sizes["rollout.observations"] = sum(t.untyped_storage().nbytes() for t in held)
        sizes["rollout.actions"] = sum(t.untyped_storage().nbytes() for t in actions)
        sizes["rollout.scalars"] = sum(t.untyped_storage().nbytes() for t in (*logs, *values, *rewards))
        with phases("update"):
            stacked = update(case, nets, data)
        if store is None:
            stacked_bytes = stacked.untyped_storage().nbytes() + sizes["rollout.actions"]
            sizes["rollout.stacked"] = stacked_bytes
        del stacked, data, kept, store, logs, values, actions, rewards, held
    sizes["learner.parameters"] = kit.module_bytes(nets.modules)
    sizes["learner.gradients"] = kit.gradient_bytes(nets.modules)
    sizes["learner.optimizer"] = kit.state_bytes(nets.optimizers)
    sizes.update(kit.cuda_peaks())
    return {
        "case": case,
        "parameters": sizes["learner.parameters"] // 4,
        "components": sizes,
        "phases": phases.rows,
        "notes": notes,
        "versions": kit.versions(),
    }


if __name__ == "__main__":
    sys.exit(kit.main(run, DEFAULTS))
