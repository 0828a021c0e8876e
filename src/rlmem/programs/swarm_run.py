"""A described swarm, for real: PPO with an autoencoder over a sliding history, all agents in one vectorised environment.

Stand-alone (numpy, torch), unless ``settings`` are given: then the drones' own code in ``rlmem.swarm`` runs. The defaults are the ``drone-swarm`` reference run as it was first written: the rollout runs
with gradients on, observations are cloned into a list and stacked, and the update is one batch over all steps of all
agents. Case keys are in DEFAULTS:

    agents, steps, history, sample, extra, step     the swarm and its observation: history × sample + extra values
    modules       {"encoder", "decoder", "policy", "value"} as layers (required)
    rollout_grad  the rollout keeps the graph of every step;  clone_then_stack  a list, then a stack (two copies)
    batch         minibatch size, or null for one batch;  epochs, iterations
    imu_history   the redundant history array of the first version;  state_bytes  further bytes per agent
    threads, imports, device, optimizer, seed
    settings      of ``rlmem.swarm``, in place of all of the above but iterations, threads and imports
"""

import os
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
    "settings": None,
}
#: Control steps of 0.1 s in ten substeps, six IMU values each, four targets: what the physics below is written for.
DRONES = (6, 4, 10)
SIGMA = 0.5


def make_env(case):
    """The drones, or an environment of other shapes that observes noise."""
    import numpy as np

    n, history, sample, new = case["agents"], case["history"], case["sample"], case["step"]
    stream = history * sample
    drones = (sample, case["extra"], new) == DRONES

    class Swarm:
        """Arrays of N agents; each step appends ``step`` samples to every window and shifts the rest left."""

        def __init__(self):
            f = np.float32
            self.rng = np.random.default_rng(case["seed"])
            self.observations = np.zeros((n, stream + case["extra"]), f)
            self.pos_history = np.zeros((n, 100, 3), f)
            self.imu_history = np.zeros((n, history, sample), f) if case["imu_history"] else None
            self.count = np.zeros((n, 2), np.int32)
            self.agent_rng = np.zeros((n, 2), np.uint32)
            self.held = np.ones((n, case["state_bytes"]), np.uint8)
            if drones:
                reference = os.path.join(os.path.dirname(kit.HERE), "swarm", "reference.py")
                flown = kit.load_by_path("rlmem_drones", reference)
                self.drones = flown.Drones(n, targets=self.observations[:, stream:])
                self.scalars = [v for k, v in vars(self.drones).items() if k != "targets"]
            else:
                self.drones, self.scalars = None, [np.zeros((n, 16), f)]
            self.reset()

        def nbytes(self):
            own = [v for v in vars(self).values() if isinstance(v, np.ndarray)]
            return sum(v.nbytes for v in own + self.scalars)

        def reset(self):
            for array in (self.observations, self.pos_history, self.count):
                array[:] = 0
            if self.imu_history is not None:
                self.imu_history[:] = 0
            if self.drones is not None:
                self.drones.reset(self.rng)

        def step(self, action):
            if self.drones is not None:
                new_samples, reward = self.drones.step(action)
                pos = self.drones.pos
            else:
                new_samples, reward = self.rng.standard_normal((n, new, sample), np.float32), self.scalars[0][:, 0]
                pos = self.scalars[0][:, 1:4]
            if self.imu_history is not None:
                self.imu_history[:, :-new] = self.imu_history[:, new:].copy()
                self.imu_history[:, -new:] = new_samples[:, -history:]
                self.observations[:, :stream] = self.imu_history.reshape(n, -1)
            else:
                kept = max(stream - new * sample, 0)
                self.observations[:, :kept] = self.observations[:, stream - kept : stream].copy()
                self.observations[:, kept:stream] = new_samples.reshape(n, -1)[:, -(stream - kept) :]
            self.pos_history[:, int(self.count[0, 0]) % 100] = pos
            self.count += 1
            return reward

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


def run_settings(case):
    """A run of ``rlmem.swarm``, phase by phase."""
    phases = kit.Phases()
    with phases("import"):
        import torch  # noqa: F401  # first, as elsewhere

        from rlmem.swarm.run import SwarmRun
        from rlmem.swarm.settings import Settings

        notes = kit.prepare(case, phases)
    sizes = {}

    def switch(name):
        if phases.name in ("collect", "update"):
            sizes.update(kept_sizes(swarm))
            phases.__exit__(None, None, None)
        phases(name)
        if name:
            phases.__enter__()

    with phases("build"):
        kit.choose_device(case["settings"]["device"])
        swarm = SwarmRun(Settings(**case["settings"]), watch=switch)
    for _ in range(case["iterations"]):
        swarm.iterate()
        switch(None)
    sizes["learner.parameters"] = kit.module_bytes(swarm.nets.modules)
    sizes["learner.gradients"] = kit.gradient_bytes(swarm.nets.modules)
    sizes["learner.optimizer"] = kit.state_bytes(swarm.nets.optimizers)
    sizes.update(kit.cuda_peaks())
    return answer(case, sizes, phases, notes)


def kept_sizes(swarm):
    """Arrays of the environment and of the rollout, by name."""
    kept, sizes = swarm.kept, {"workers.env-state": swarm.drones.nbytes}

    def nbytes(*tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    if hasattr(kept, "positions"):
        sizes["workers.env-state"] += nbytes(kept.observations, kept.positions)
        held = kept.listed if kept.array is None else [kept.array]
        if held:  # a list is gone after the update
            sizes["rollout.observations"] = nbytes(*held)
    elif kept.store is not None:
        sizes["rollout.stream"] = nbytes(kept.store.samples)
        before = nbytes(kept.store.fields["actions"]) - nbytes(kept.actions)
        if before:  # a carried history's own
            sizes["rollout.actions-before"] = before
    sizes["rollout.actions"] = nbytes(kept.actions)
    sizes["rollout.scalars"] = nbytes(kept.log_probs, kept.rewards, kept.values)
    return sizes


def run(case):
    """All phases of the run."""
    if case["settings"]:
        return run_settings(case)
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
    return answer(case, sizes, phases, notes)


def answer(case, sizes, phases, notes):
    """What the program says."""
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
