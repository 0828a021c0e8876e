"""A described ElegantRL PPO run, for real: AgentPPO of the installed release, driven as ``train_agent`` does.

Stand-alone (torch, numpy, elegantrl). Case keys are in DEFAULTS:

    state_dim, action_dim, net_dims, horizon_len, batch_size, repeat_times, num_envs, discrete, episode_len
    store         "array" (what 0.3.5 and newer do) or "list-of-tuples" (0.3.3 and its forks: one tuple of small tensors
                  a step, kept until the next rollout)
    iterations, threads, imports, device, seed
"""

import sys

import program_kit as kit

DEFAULTS = {
    "state_dim": 71,
    "action_dim": 7,
    "net_dims": [768, 768],
    "horizon_len": 1024,
    "batch_size": 4096,
    "repeat_times": 16,
    "num_envs": 1,
    "discrete": False,
    "episode_len": 500,
    "store": "array",
    "iterations": 1,
    "threads": None,
    "imports": (),
    "device": "cpu",
    "seed": 0,
}


def make_env(case):
    """States and rewards of the described shapes; numpy for one environment, tensors for several, as ElegantRL wants."""
    import numpy as np
    import torch

    count = case["num_envs"]

    class Market:
        def __init__(self):
            self.t = 0
            rng = np.random.default_rng(case["seed"])
            self.rows = rng.standard_normal((case["episode_len"] + 1, case["state_dim"])).astype(np.float32)

        def state(self):
            if count == 1:
                return self.rows[self.t].copy()
            return torch.as_tensor(self.rows[self.t]).repeat(count, 1) + torch.randn(count, 1) * 0.01

        def reset(self):
            self.t = 0
            return self.state()

        def step(self, action):
            self.t += 1
            done = self.t >= case["episode_len"]
            if count == 1:
                return self.state(), float(np.sum(action)) * 0.01, done, {}
            if done:
                self.t = 0
            return self.state(), action.float().view(count, -1).sum(1) * 0.01, torch.full((count,), done), {}

    return Market


def explore_tuples(agent, env, steps):
    """A rollout as a list of tuples of small tensors, and the tensors ``update_net`` wants."""
    import torch

    state, listed = agent.last_state, []
    for _ in range(steps):
        action, log_prob = agent.act.get_action(state)
        following, reward, done, _ = env.step(agent.act.convert_action_for_env(action[0]).cpu().numpy())
        listed.append((state, float(reward), bool(done), action, log_prob))
        following = env.reset() if done else following
        state = torch.as_tensor(following, dtype=torch.float32, device=agent.device).unsqueeze(0)
    agent.last_state = state
    states, rewards, dones, actions, log_probs = zip(*listed)
    rewards = torch.tensor(rewards, device=agent.device).unsqueeze(1)
    undones = 1.0 - torch.tensor(dones, dtype=torch.float32, device=agent.device).unsqueeze(1)
    return listed, (torch.stack(states), torch.stack(actions), torch.stack(log_probs), rewards, undones)


def run(case):
    """All phases of the run."""
    phases = kit.Phases()
    with phases("import"):
        import torch
        from elegantrl.agents.AgentPPO import AgentDiscretePPO, AgentPPO
        from elegantrl.train.config import Config

        notes = kit.prepare(case, phases)
    torch.manual_seed(case["seed"])
    device = kit.choose_device(case["device"])
    market = make_env(case)
    with phases("build"):
        kind = AgentDiscretePPO if case["discrete"] else AgentPPO
        sizes = {"state_dim": case["state_dim"], "action_dim": case["action_dim"], "if_discrete": case["discrete"]}
        args = Config(kind, market, dict(sizes, env_name="m", num_envs=case["num_envs"], max_step=case["episode_len"]))
        args.net_dims, args.batch_size = tuple(case["net_dims"]), case["batch_size"]
        args.horizon_len, args.repeat_times = case["horizon_len"], case["repeat_times"]
        torch.set_grad_enabled(False)  # as train_agent() does
        env = market()
        gpu = 0 if device == "cuda" else -1
        agent = kind(args.net_dims, case["state_dim"], case["action_dim"], gpu_id=gpu, args=args)
        first = torch.as_tensor(env.reset())
        agent.last_state = (first.unsqueeze(0) if case["num_envs"] == 1 else first).detach().to(agent.device)
    buffer, listed = [], None
    for _ in range(case["iterations"]):
        with phases("collect"):
            if case["store"] == "list-of-tuples":
                listed, items = explore_tuples(agent, env, case["horizon_len"])
            else:
                items = agent.explore_env(env, case["horizon_len"])
            buffer[:] = items
        with phases("update"):
            torch.set_grad_enabled(True)
            agent.update_net(buffer)
            torch.set_grad_enabled(False)
    if listed is not None:
        notes.append("the rollout was also kept as a list of %d tuples" % len(listed))
    names = ("states", "actions", "logprobs", "rewards", "undones")
    sizes = {"rollout.%s" % name: tensor.untyped_storage().nbytes() for name, tensor in zip(names, buffer)}
    networks, optimizers = (agent.act, agent.cri), (agent.act_optimizer, agent.cri_optimizer)
    sizes["learner.parameters"] = kit.module_bytes(networks)
    sizes["learner.gradients"] = kit.gradient_bytes(networks)
    sizes["learner.optimizer"] = kit.state_bytes(optimizers)
    return {
        "case": case,
        "components": dict(sizes, **kit.cuda_peaks()),
        "act_target_is_act": agent.act_target is agent.act,
        "cri_target_is_cri": agent.cri_target is agent.cri,
        "phases": phases.rows,
        "notes": notes,
        "versions": kit.versions(),
    }


if __name__ == "__main__":
    sys.exit(kit.main(run, DEFAULTS))
