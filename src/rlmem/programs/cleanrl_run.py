"""A described CleanRL-like loop, for real: PPO on torch rollouts; DQN, SAC, TD3 or DDPG on SB3's replay arrays.

Stand-alone (numpy, torch, gymnasium). What is allocated, and in which order, follows CleanRL's single-file scripts; the
environment has the described shapes and returns noise. Networks come as layers in ``modules`` (``network`` is a trunk
that the other modules share). Written by ``rlmem.programs.cases``; every key is required.
"""

import sys

import program_kit as kit

TRUNK = "network"


class Nets:
    """Modules by name; heads run on the trunk's features where there is a trunk."""

    def __init__(self, case, device):
        self.case, self.device = case, device
        self.built = {name: kit.chain(ops).to(device) for name, ops in case["modules"].items()}
        self.heads = [name for name in self.built if name != TRUNK]

    def features(self, observations):
        if self.case["image"]:
            observations = observations / 255.0
            if not self.case["channels_first"]:
                observations = observations.permute(0, 3, 1, 2)
        return self.built[TRUNK](observations) if TRUNK in self.built else observations

    def head(self, name, features, actions=None):
        import torch

        if actions is not None:
            features = torch.cat([features.flatten(1), actions], 1)
        return self.built[name](features)

    def trained(self, name):
        """A head with the trunk it trains."""
        return [self.built[part] for part in (TRUNK, name) if part in self.built]


class Env:
    """All environments as arrays: two observations in turn, and what the description says they hold."""

    def __init__(self, case):
        import numpy as np

        thunk = kit.make_env(case)
        self.envs = [thunk() for _ in range(case["n_envs"])]
        self.np, self.agents = np, case["agents"]

    def observe(self, t):
        rows = [env.pool[t & 1] for env in self.envs]
        stacked = self.np.stack(rows)
        return (
            stacked
            if self.agents == 1
            else self.np.repeat(stacked[:, None], self.agents, axis=1).reshape(-1, *rows[0].shape)
        )


# ---------------------------------------------------------------- on-policy
def ppo(case, phases, device, sizes):
    """ppo.py and ppo_atari.py."""
    import torch

    with phases("build"):
        env, nets = Env(case), Nets(case, device)
        steps, rows = case["n_steps"], case["n_envs"] * case["agents"]
        log_std = torch.nn.Parameter(torch.zeros(1, case["action_width"], device=device))
        parameters = [p for module in nets.built.values() for p in module.parameters()] + [log_std] * case["continuous"]
        optimizer = kit.optimizer(case["optimizer"], parameters)
        shape = tuple(case["observation"]["shape"])
        wide = (case["action_values"],) if case["action_values"] > 1 or case["continuous"] else ()
        store = {"observations": torch.zeros((steps, rows, *shape), device=device)}
        store["actions"] = torch.zeros((steps, rows, *wide), device=device)
        for name in ("logprobs", "rewards", "dones", "values"):
            store[name] = torch.zeros((steps, rows), device=device)
    sizes.update({"rollout.%s" % name: tensor.nbytes for name, tensor in store.items()})

    def policy(observations, action=None):
        features = nets.features(observations)
        logits, value = nets.head("actor", features), nets.head("critic", features).flatten()
        if case["continuous"]:
            law = torch.distributions.Normal(logits, log_std.expand_as(logits).exp())
            action = law.sample() if action is None else action
            return action, law.log_prob(action).sum(1), law.entropy().sum(1), value
        law = torch.distributions.Categorical(logits=logits)
        picked = law.sample() if action is None else action.reshape(len(action), -1)[:, 0]
        chosen = picked if not wide else picked[:, None].expand(-1, *wide)
        return (chosen if action is None else action), law.log_prob(picked), law.entropy(), value

    for _ in range(case["updates"]):
        with phases("collect"):
            for t in range(steps):
                now = torch.as_tensor(env.observe(t), dtype=torch.float32).to(device)
                store["observations"][t] = now
                with torch.no_grad():
                    action, logprob, _, value = policy(now)
                store["actions"][t], store["logprobs"][t], store["values"][t] = action, logprob, value
                store["rewards"][t] = 0.5
        with phases("update"):
            with torch.no_grad():
                advantages = torch.zeros_like(store["rewards"])
                last = 0
                for t in reversed(range(steps)):
                    following = store["values"][min(t + 1, steps - 1)]
                    last = store["rewards"][t] + 0.99 * following - store["values"][t] + 0.99 * 0.95 * last
                    advantages[t] = last
                returns = advantages + store["values"]
            flat = {name: tensor.flatten(0, 1) for name, tensor in store.items()}
            gain, goal = advantages.flatten(), returns.flatten()
            order = torch.randperm(steps * rows, device=device)
            for low in range(0, steps * rows, case["batch_size"]):
                part = order[low : low + case["batch_size"]]
                _, logprob, entropy, value = policy(flat["observations"][part], flat["actions"][part])
                ratio = (logprob - flat["logprobs"][part]).exp()
                better = gain[part]
                better = (better - better.mean()) / (better.std() + 1e-8)
                clipped = torch.max(-better * ratio, -better * torch.clamp(ratio, 0.8, 1.2)).mean()
                loss = clipped - 0.01 * entropy.mean() + 0.25 * ((value - goal[part]) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(parameters, 0.5)
                optimizer.step()
    return nets, [optimizer], []


# ---------------------------------------------------------------- off-policy
def replay(case):
    """SB3's arrays: lazily backed until written."""
    import numpy as np

    rows, n_envs = max(case["buffer_size"] // case["n_envs"], 1), case["n_envs"]
    shape, dtype = tuple(case["observation"]["shape"]), np.dtype(case["observation"]["dtype"])
    kinds = {"observations": (shape, dtype)}
    if not case["share_next"]:
        kinds["next_observations"] = (shape, dtype)
    kinds["actions"] = ((case["action_values"],), np.dtype("float32" if case["continuous"] else "int64"))
    for name in ("rewards", "dones", "timeouts"):
        kinds[name] = ((), np.dtype("float32"))
    return {name: np.zeros((rows, n_envs, *inner), dtype=kind) for name, (inner, kind) in kinds.items()}


def sample(case, store, device):
    """A batch as tensors on the device: observations, following observations, actions, rewards."""
    import numpy as np
    import torch

    size = case["batch_size"]
    rows = np.random.randint(0, case["rows"] or len(store["rewards"]), size)
    envs = np.random.randint(0, case["n_envs"], size)
    following = store.get("next_observations")
    after = (
        store["observations"][(rows + 1) % len(store["rewards"]), envs] if following is None else following[rows, envs]
    )
    parts = (store["observations"][rows, envs], after, store["actions"][rows, envs], store["rewards"][rows, envs])
    tensors = [torch.as_tensor(part).to(device) for part in parts]
    return [t.float() if t.dtype == torch.float64 else t for t in tensors]


def off_policy(case, phases, device, sizes):
    """dqn.py, sac_continuous_action.py, td3_continuous_action.py, ddpg_continuous_action.py and the Atari ones."""
    import copy

    import torch

    name = case["algorithm"]
    with phases("build"):
        env, nets = Env(case), Nets(case, device)
        with_target = [head for head in nets.heads if head != "actor" or name in ("td3", "ddpg")]
        targets = {head: copy.deepcopy(torch.nn.ModuleList(nets.trained(head))) for head in with_target}
        optimizers = {
            head: kit.optimizer(case["optimizer"], [p for m in nets.trained(head) for p in m.parameters()])
            for head in nets.heads
        }
        store = replay(case)
    sizes.update({"replay.%s" % key: array.nbytes for key, array in store.items()})

    def collect():
        for t in range(16):
            with torch.no_grad():
                features = nets.features(torch.as_tensor(env.observe(t), dtype=torch.float32).to(device))
                if TRUNK not in nets.built:
                    nets.head(nets.heads[0], features)

    with phases("collect"):
        for key, array in store.items():
            if key != "timeouts":  # never written when timeouts are not handled
                array[: case["rows"]].fill(0 if array.dtype.kind == "i" or key in ("rewards", "dones") else 1)
        collect()

    def target(head, seen, actions=None):
        modules = list(targets[head])
        features = seen / 255.0 if case["image"] else seen
        if case["image"] and not case["channels_first"]:
            features = features.permute(0, 3, 1, 2)
        features = modules[0](features) if len(modules) > 1 else features
        return modules[-1](features if actions is None else torch.cat([features.flatten(1), actions], 1))

    def step(head, loss):
        optimizers[head].zero_grad()
        loss.backward()
        optimizers[head].step()

    def act(seen):
        values = nets.head("actor", nets.features(seen))[:, : case["action_values"]]
        return torch.tanh(values + torch.randn_like(values) if name == "sac" else values)

    critics = [head for head in nets.heads if head.startswith("qf")]

    def update():
        seen, after, actions, rewards = sample(case, store, device)
        if name == "dqn":
            with torch.no_grad():
                goal = rewards + 0.99 * target("q_network", after).max(1).values
            chosen = nets.head("q_network", nets.features(seen)).gather(1, actions[:, :1].long()).squeeze(1)
            step("q_network", ((chosen - goal) ** 2).mean())
            return
        with torch.no_grad():
            following = act(after) if name == "sac" else torch.tanh(target("actor", after))
            goal = rewards + 0.99 * torch.stack([target(q, after, following)[:, 0] for q in critics]).min(0).values
        for head in critics:
            step(head, ((nets.head(head, nets.features(seen), actions)[:, 0] - goal) ** 2).mean())
        step("actor", -nets.head(critics[0], nets.features(seen), act(seen)).mean())

    with phases("update"):
        for _ in range(case["updates"]):
            update()
    with phases("collect"):  # beside gradients and optimizer state now
        collect()
    return nets, list(optimizers.values()), list(targets.values())


def run(case):
    """All phases of the run."""
    phases, sizes = kit.Phases(), {}
    with phases("import"):
        import gymnasium  # noqa: F401  # part of what such a process imports
        import numpy as np  # noqa: F401
        import torch  # noqa: F401

        notes = kit.prepare(case, phases)
    device = kit.choose_device(case["device"])
    loop = ppo if case["algorithm"] == "ppo" else off_policy
    nets, optimizers, targets = loop(case, phases, device, sizes)
    if targets:
        sizes["learner.targets"] = kit.module_bytes(targets)
        notes.append("replay filled with observations of the described shape")
    modules = list(nets.built.values())
    sizes["learner.parameters"] = kit.module_bytes(modules)
    sizes["learner.gradients"] = kit.gradient_bytes(modules)
    sizes["learner.optimizer"] = kit.state_bytes(optimizers)
    return {
        "case": case,
        "components": dict(sizes, **kit.cuda_peaks()),
        "phases": phases.rows,
        "notes": notes,
        "versions": kit.versions(),
    }


if __name__ == "__main__":
    sys.exit(kit.main(run))
