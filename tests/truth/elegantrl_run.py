#!/usr/bin/env python3
"""Ground truth for the `crypto-ppo` reference run: the real ElegantRL (0.3.6) AgentPPO, driven for real.

Stand-alone (torch, numpy, elegantrl==0.3.6 installed with --no-deps).  One JSON object on stdin, one on stdout.

    echo '{}' | python elegantrl_run.py                                   # the crypto-ppo case
    echo '{"tuples": 20000}' | python elegantrl_run.py                    # bytes per transition of a list of tuples

Keys: state_dim, action_dim, net_dims, horizon_len, batch_size, repeat_times, num_envs, discrete, iterations, threads,
episode_len, seed, saved (count saved-for-backward bytes), tuples (n: measure only the list-of-tuples representation),
tuples_kind ("clone" or "as_tensor_numpy").
Each phase: rss before/after and VmHWM, which is reset at the phase's start (/proc/self/clear_refs, "5").
"""

import gc
import json
import platform
import sys
import time


def status():
    out = {}
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(("VmRSS:", "VmHWM:", "Threads:")):
                k, v = line.split(":")
                out[k] = int(v.split()[0]) * (1 if k == "Threads" else 1024)
    return out


class Phases:
    def __init__(self):
        self.rows = {}

    def start(self):
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
        self.t, self.before = time.perf_counter(), status()["VmRSS"]

    def stop(self, name):
        s = status()
        row = {
            "rss_before": self.before,
            "rss_after": s["VmRSS"],
            "vmhwm": s["VmHWM"],
            "threads": s["Threads"],
            "seconds": round(time.perf_counter() - self.t, 3),
        }
        if name in self.rows:
            row["vmhwm"] = max(row["vmhwm"], self.rows[name]["vmhwm"])
        self.rows[name] = row


cfg = dict(
    state_dim=71,
    action_dim=7,
    net_dims=[768, 768],
    horizon_len=1024,
    batch_size=4096,
    repeat_times=16,
    num_envs=1,
    discrete=False,
    iterations=1,
    threads=None,
    episode_len=500,
    seed=0,
    saved=False,
    tuples=0,
    tuples_kind="clone",
)
given = json.loads(sys.stdin.read() or "{}")
if set(given) - set(cfg):
    sys.exit("unknown keys: %s" % sorted(set(given) - set(cfg)))
cfg.update(given)
phases = Phases()
phases.start()
import numpy as np  # noqa: E402
import torch  # noqa: E402

phases.stop("import_torch")
if cfg["threads"]:
    torch.set_num_threads(cfg["threads"])
torch.manual_seed(cfg["seed"])
S, A, E, Hz = cfg["state_dim"], cfg["action_dim"], cfg["num_envs"], cfg["horizon_len"]
out = {"config": cfg}


def finish():
    out["phases"] = phases.rows
    out["versions"] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "libc": "-".join(platform.libc_ver()),
    }
    json.dump(out, sys.stdout)
    print()
    sys.exit(0)


if cfg["tuples"]:
    # ElegantRL 0.3.3 (and every fork of it): traj_list.append((ten_s, reward, done, ten_a, ten_n)), one tuple a step
    n = cfg["tuples"]
    raw = 4 * (S + 1 + 1 + A + A)
    with torch.no_grad():
        state, act = torch.randn(1, S), torch.randn(1, A)
        warm = [(state.clone(), 0.5 * k, False, act.clone(), act.clone()) for k in range(200)]
        for kind in (cfg["tuples_kind"],):  # one per process: the second would reuse the first one's heap
            gc.collect()
            phases.start()
            traj = []
            for k in range(n):
                if kind == "clone":
                    s, a, e = state.clone(), act.clone(), act.clone()
                else:  # as in explore_one_env: as_tensor shares the numpy array the environment returned
                    s = torch.as_tensor(np.random.rand(S).astype(np.float32)).unsqueeze(0)
                    e = torch.randn(1, A)
                    a = act + e
                traj.append((s, float(k) * 1.5, k % 500 == 0, a, e))
            phases.stop("list_" + kind)
            row = phases.rows["list_" + kind]
            out["bytes_per_transition_" + kind] = (row["rss_after"] - row["rss_before"]) / n
            phases.start()
            cols = list(map(list, zip(*traj)))
            del traj
            cols = [
                torch.stack(cols[0]),
                torch.tensor(cols[1]),
                torch.tensor(cols[2]),
                torch.stack(cols[3]),
                torch.stack(cols[4]),
            ]
            phases.stop("stack_" + kind)
            out["bytes_per_transition_peak_" + kind] = (phases.rows["stack_" + kind]["vmhwm"] - row["rss_before"]) / n
            del cols, s, a, e
    out["raw_bytes_per_transition"] = raw
    finish()

phases.start()
from elegantrl.agents.AgentPPO import AgentDiscretePPO, AgentPPO  # noqa: E402
from elegantrl.train.config import Config  # noqa: E402

phases.stop("import_elegantrl")


class TradingLikeEnv:
    """State = cash + holdings + indicators; numpy in and out for one env, tensors for several (as ElegantRL wants)."""

    def __init__(self):
        self.rng, self.t = np.random.default_rng(cfg["seed"]), 0
        self.tech = self.rng.standard_normal((cfg["episode_len"] + 1, S)).astype(np.float32)

    def state(self):
        if E == 1:
            return self.tech[self.t].copy()
        return torch.as_tensor(self.tech[self.t]).repeat(E, 1) + torch.randn(E, 1) * 0.01

    def reset(self):
        self.t = 0
        return self.state()

    def step(self, action):
        self.t += 1
        done = self.t >= cfg["episode_len"]
        if E == 1:
            return self.state(), float(np.sum(action)) * 0.01, done, {}
        if done:
            self.t = 0
        return self.state(), action.float().view(E, -1).sum(1) * 0.01, torch.full((E,), done), {}


phases.start()
cls = AgentDiscretePPO if cfg["discrete"] else AgentPPO
args = Config(
    cls,
    TradingLikeEnv,
    dict(
        env_name="trade",
        num_envs=E,
        max_step=cfg["episode_len"],
        state_dim=S,
        action_dim=A,
        if_discrete=cfg["discrete"],
    ),
)
defaults = {
    k: getattr(args, k)
    for k in (
        "net_dims",
        "batch_size",
        "horizon_len",
        "buffer_size",
        "repeat_times",
        "num_workers",
        "num_threads",
        "state_value_tau",
    )
}
args.net_dims, args.batch_size = tuple(cfg["net_dims"]), cfg["batch_size"]
args.horizon_len, args.repeat_times = Hz, cfg["repeat_times"]
torch.set_grad_enabled(False)  # as train_agent() does
env = TradingLikeEnv()
agent = cls(args.net_dims, S, A, gpu_id=-1, args=args)
first = env.reset()
agent.last_state = (torch.as_tensor(first).unsqueeze(0) if E == 1 else first).detach()
phases.stop("build")


def describe(net):
    p = list(net.parameters())
    return {
        "parameters": sum(x.numel() for x in p),
        "trainable": sum(x.numel() for x in p if x.requires_grad),
        "frozen": {n: list(x.shape) for n, x in net.named_parameters() if not x.requires_grad},
    }


saved = {"seen": set(), "bytes": 0, "max": 0, "on": False}
buffer = []
for _ in range(cfg["iterations"]):
    phases.start()
    items = agent.explore_env(env, Hz)
    buffer[:] = items
    phases.stop("collect")
    phases.start()
    torch.set_grad_enabled(True)
    if cfg["saved"]:
        skip = {p.untyped_storage().data_ptr() for n in (agent.act, agent.cri) for p in n.parameters()}
        rows = []

        def pack(t):
            s = t.untyped_storage()
            if s.data_ptr() not in skip:
                rows.append((list(t.shape), s.data_ptr(), s.nbytes()))
            return t

        real = agent.optimizer_update

        def spy(optimizer, objective):
            uniq = {p: (sh, b) for sh, p, b in rows}
            out.setdefault("saved_per_graph", []).append(
                {
                    "bytes": sum(b for _, b in uniq.values()),
                    "tensors": sorted([v for v in uniq.values()], key=lambda v: -v[1])[:8],
                }
            )
            rows.clear()
            real(optimizer, objective)

        agent.optimizer_update = spy
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            agent.update_net(buffer)
        out["saved_per_graph"] = out["saved_per_graph"][:2]
    else:
        agent.update_net(buffer)
    torch.set_grad_enabled(False)
    phases.stop("update")

names = ("states", "actions", "logprobs", "rewards", "undones")
out["buffer"] = {
    n: {"shape": list(t.shape), "dtype": str(t.dtype), "nbytes": t.untyped_storage().nbytes()}
    for n, t in zip(names, buffer)
}
out["buffer_nbytes"] = sum(v["nbytes"] for v in out["buffer"].values())
out["buffer_bytes_per_transition"] = out["buffer_nbytes"] / (Hz * E)
out["act"], out["cri"] = describe(agent.act), describe(agent.cri)
out["act_target_is_act"], out["cri_target_is_cri"] = agent.act_target is agent.act, agent.cri_target is agent.cri
out["optimizer_state_bytes"] = sum(
    v.numel() * v.element_size()
    for o in (agent.act_optimizer, agent.cri_optimizer)
    for st in o.state.values()
    for v in st.values()
    if torch.is_tensor(v)
)
out["grad_bytes"] = sum(
    p.grad.numel() * 4 for n in (agent.act, agent.cri) for p in n.parameters() if p.grad is not None
)
out["update_times"] = int(Hz * cfg["repeat_times"] / cfg["batch_size"])
out["defaults"] = defaults
out["threads"] = torch.get_num_threads()
finish()
