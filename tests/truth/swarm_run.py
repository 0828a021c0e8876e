#!/usr/bin/env python3
"""Ground truth for the `drone-swarm` reference run: the *assessed* (naive) PPO + autoencoder, run for real.

Stand-alone (numpy + torch).  One JSON object on stdin, one on stdout.  Use one fresh process per measurement.

    echo '{"agents": 100}' | python swarm_run.py
    echo '{"agents": 100, "account": true}' | python swarm_run.py      # op-by-op live bytes (no clean VmHWM)

Keys (defaults in DEFAULTS below):
  agents, steps, history, seed, threads
  rollout_grad        the rollout runs without no_grad: log-probs and values keep the graph of every step alive
  decoder_in_rollout  the rollout calls the whole model (recon is thrown away at once)
  keep_recon          ... and keeps the reconstructions in a list (so the decoder's graph stays too)
  clone_then_stack    observations cloned into a list, then torch.stack'ed (two copies); false: one preallocated tensor
  free_list           drop the list of clones after stacking
  drop_rollout_graph  detach log-probs and values before the update and drop the lists (frees the rollout graphs)
  imu_history         v0 environment: the redundant (N, history, 6) array
  input_copy          encoder input is made contiguous in (N, 6, history) (a copy); false: a transposed view
  batch               minibatch size, or null for one batch of steps * agents; epochs
  loss                "sum" (one backward of the summed loss) or "separate" (AE backward, then RL on a detached latent)
  activation          "tanh" or "relu" in the policy trunk
  mkldnn              false disables oneDNN; iterations: collect+update cycles; saved: count saved tensors (hooks)
  account             TorchDispatchMode account of live tensor bytes after every operator
  watch_ops           reset VmHWM around every convolution: RSS rise per op beyond its output tensors (oneDNN scratch)
"""

import gc
import json
import os
import platform
import sys
import time


def status():
    out = {}
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(("VmRSS:", "VmHWM:")):
                k, v = line.split(":")
                out[k] = int(v.split()[0]) * 1024
    return out


def reset_hwm():
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")


class Phases:
    def __init__(self):
        self.rows = {}
        self.rss0 = status()["VmRSS"]

    def start(self):
        reset_hwm()
        self.t = time.perf_counter()
        self.before = status()["VmRSS"]

    def stop(self, name):
        s = status()
        row = {
            "rss_before": self.before,
            "rss_after": s["VmRSS"],
            "vmhwm": s["VmHWM"],
            "seconds": round(time.perf_counter() - self.t, 3),
        }
        if name in self.rows:  # several iterations: keep the highest peak, the last rss
            row["vmhwm"] = max(row["vmhwm"], self.rows[name]["vmhwm"])
        self.rows[name] = row


DEFAULTS = dict(
    agents=100,
    steps=100,
    history=300,
    seed=0,
    threads=None,
    rollout_grad=True,
    decoder_in_rollout=False,
    keep_recon=False,
    clone_then_stack=True,
    free_list=False,
    drop_rollout_graph=False,
    imu_history=False,
    input_copy=True,
    batch=None,
    epochs=1,
    loss="sum",
    activation="tanh",
    mkldnn=True,
    iterations=1,
    saved=False,
    account=False,
    watch_ops=False,
    top=12,
)

cfg = dict(DEFAULTS)
given = json.loads(sys.stdin.read() or "{}")
unknown = set(given) - set(cfg)
if unknown:
    sys.exit("unknown keys: %s" % sorted(unknown))
cfg.update(given)
phases = Phases()
phases.start()
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

if cfg["threads"]:
    torch.set_num_threads(cfg["threads"])
torch.backends.mkldnn.enabled = bool(cfg["mkldnn"])
phases.stop("import")


# ---------------------------------------------------------------- environment
class SwarmEnv:
    """N drones, 10 Hz control, 10 substeps; state 4*(6H+4) + 1200 + 80 bytes per agent (8,496 at H = 300)."""

    def __init__(self, n, history, imu_history, seed):
        f = np.float32
        self.n, self.h, self.rng = n, history, np.random.default_rng(seed)
        self.observations = np.zeros((n, history * 6 + 4), f)
        self.pos_history = np.zeros((n, 100, 3), f)
        self.imu_history = np.zeros((n, history, 6), f) if imu_history else None
        self.pos, self.vel, self.ang = (np.zeros((n, 3), f) for _ in range(3))
        self.rates = np.zeros((n, 3), f)
        self.mass, self.drag, self.thrust = (np.zeros(n, f) for _ in range(3))
        self.step_count, self.done = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self.reward = np.zeros(n, f)
        self.agent_rng = np.zeros((n, 2), np.uint32)
        self.reset()

    def arrays(self):
        return {k: v for k, v in vars(self).items() if isinstance(v, np.ndarray)}

    def nbytes(self):
        return sum(v.nbytes for v in self.arrays().values())

    def reset(self):
        r, n = self.rng, self.n
        for a in (self.vel, self.ang, self.rates, self.observations, self.pos_history, self.step_count, self.done):
            a[:] = 0
        if self.imu_history is not None:
            self.imu_history[:] = 0
        self.pos[:] = (0, 0, 10)
        self.mass[:], self.drag[:], self.thrust[:] = (
            r.uniform(0.5, 1.5, n),
            r.uniform(0.05, 0.15, n),
            r.uniform(0.8, 1.2, n),
        )
        pick = r.integers(0, 10, n)  # 0, 1: hover; 2..9: +-1 on vx, vy, vz, yaw rate
        rows = np.nonzero(pick >= 2)[0]
        self.observations[rows, 6 * self.h + (pick[rows] - 2) // 2] = 1 - 2 * ((pick[rows] - 2) % 2)

    def rotation(self):
        (cr, cp, cy), (sr, sp, sy) = np.cos(self.ang.T), np.sin(self.ang.T)
        return np.stack(
            [
                np.stack([cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr], -1),
                np.stack([sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr], -1),
                np.stack([-sp, cp * sr, cp * cr], -1),
            ],
            1,
        ).astype(np.float32)

    def step(self, action):
        dt = np.float32(0.01)
        new = np.empty((self.n, 10, 6), np.float32)
        self.rates[:] = action[:, 1:4]
        for k in range(10):
            self.ang += self.rates * dt
            rot = self.rotation()
            acc = (
                rot[:, :, 2] * (action[:, :1] * 20 * self.thrust[:, None] / self.mass[:, None])
                - self.drag[:, None] * self.vel
            )
            new[:, k, :3] = np.einsum("nji,nj->ni", rot, acc)
            new[:, k, 3:] = self.rates
            acc[:, 2] -= 9.81
            self.vel += acc * dt
            self.pos += self.vel * dt
            ground = 5 * np.sin(0.1 * self.pos[:, 0]) * np.cos(0.1 * self.pos[:, 1])
            hit = self.pos[:, 2] < ground
            self.pos[hit, 2] = ground[hit]
            self.vel[hit] = 0
        h6 = 6 * self.h
        if self.imu_history is not None:
            self.imu_history[:, :-10] = self.imu_history[:, 10:].copy()
            self.imu_history[:, -10:] = new
            self.observations[:, :h6] = self.imu_history.reshape(self.n, -1)
        else:
            self.observations[:, : h6 - 60] = self.observations[:, 60:h6].copy()
            self.observations[:, h6 - 60 : h6] = new.reshape(self.n, 60)
        self.pos_history[:, int(self.step_count[0]) % 100] = self.pos
        self.step_count += 1
        target = self.observations[:, h6:]
        body = np.einsum("nji,nj->ni", rot, self.vel)
        roll, pitch = self.ang[:, 0], self.ang[:, 1]
        self.reward[:] = (
            np.exp(-2 * ((body - target[:, :3]) ** 2).sum(1))
            + 0.5 * np.exp(-2 * (self.rates[:, 2] - target[:, 3]) ** 2)
            - 0.01 * (roll**2 + pitch**2)
            - 0.1 * ((abs(roll) > 1) | (abs(pitch) > 1))
            + 0.1
        )
        return self.reward


# ---------------------------------------------------------------- network
def conv_lengths(h):
    l1 = (h - 1) // 2 + 1
    l2 = (l1 - 1) // 2 + 1
    return l1, l2, (l2 - 3) // 3 + 1


class Net(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.h = h
        l1, l2, l3 = conv_lengths(h)
        self.l3 = l3
        op1, op2, op3 = l2 - (3 * l3), l1 - (2 * l2 - 1), h - (2 * l1 - 1)
        self.output_padding = (op1, op2, op3)
        self.conv = nn.ModuleList([nn.Conv1d(6, 16, 5, 2, 2), nn.Conv1d(16, 32, 5, 2, 2), nn.Conv1d(32, 64, 5, 3, 1)])
        self.to_z = nn.Linear(64 * l3, 20)
        self.from_z = nn.Linear(20, 64 * l3)
        self.deconv = nn.ModuleList(
            [
                nn.ConvTranspose1d(64, 32, 5, 3, 1, op1),
                nn.ConvTranspose1d(32, 16, 5, 2, 2, op2),
                nn.ConvTranspose1d(16, 6, 5, 2, 2, op3),
            ]
        )
        self.p1, self.p2, self.mu, self.v = (
            nn.Linear(24, 128),
            nn.Linear(128, 128),
            nn.Linear(128, 4),
            nn.Linear(128, 1),
        )
        self.act = torch.tanh if cfg["activation"] == "tanh" else torch.relu

    def imu(self, obs):
        x = obs[:, : 6 * self.h].view(-1, self.h, 6).transpose(1, 2)
        return x.contiguous() if cfg["input_copy"] else x

    def encode(self, x):
        for c in self.conv:
            x = torch.relu(c(x))
        return torch.tanh(self.to_z(x.flatten(1)))

    def decode(self, z):
        y = self.from_z(z).view(-1, 64, self.l3)
        y = torch.relu(self.deconv[0](y))
        y = torch.relu(self.deconv[1](y))
        return self.deconv[2](y)

    def head(self, z, obs):
        t = self.act(self.p2(self.act(self.p1(torch.cat([z, obs[:, 6 * self.h :]], 1)))))
        return self.mu(t), self.v(t).squeeze(-1)


# ---------------------------------------------------------------- accounts
class SavedCounter:
    """Unique storages saved for backward, parameters excluded."""

    def __init__(self, params, exclude=()):
        self.skip = {p.untyped_storage().data_ptr() for p in params}
        self.external = {t.untyped_storage().data_ptr() for t in exclude}
        self.seen, self.rows, self.ext_bytes = set(), [], 0

    def pack(self, t):
        s = t.untyped_storage()
        p = s.data_ptr()
        if p not in self.skip and p not in self.seen:
            self.seen.add(p)
            if p in self.external:
                self.ext_bytes += s.nbytes()
            else:
                self.rows.append((list(t.shape), s.nbytes()))
        return t

    def hooks(self):
        return torch.autograd.graph.saved_tensors_hooks(self.pack, lambda t: t)

    def report(self, samples, top):
        total = sum(b for _, b in self.rows)
        big = sorted(self.rows, key=lambda r: -r[1])[:top]
        return {
            "bytes": total,
            "bytes_per_sample": total / samples,
            "storages": len(self.rows),
            "external_bytes_per_sample": self.ext_bytes / samples,
            "largest": [[s, b / samples] for s, b in big],
        }


def make_account():
    import weakref

    from torch.utils._python_dispatch import TorchDispatchMode

    class Account(TorchDispatchMode):
        """Live tensor bytes after every operator (unique storages made by operators seen here)."""

        def __init__(self):
            super().__init__()
            self.live, self.peak, self.peak_op, self.n, self.where = 0, 0, None, 0, "start"
            self.known, self.log, self.peak_set, self.keep_log, self.by_where = {}, [], [], False, {}

        def drop(self, key, nbytes):
            self.live -= nbytes
            self.known.pop(key, None)

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            before = self.live
            out = func(*args, **(kwargs or {}))
            outs = out if isinstance(out, (tuple, list)) else (out,)
            shapes = []
            for t in outs:
                if isinstance(t, torch.Tensor):
                    s = t.untyped_storage()
                    key = s._cdata
                    if key not in self.known and s.nbytes() > 0:
                        self.known[key] = (s.nbytes(), str(func), tuple(t.shape), self.where)
                        self.live += s.nbytes()
                        weakref.finalize(s, self.drop, key, s.nbytes())
                        shapes.append(list(t.shape))
            if self.keep_log and (shapes or self.live != before):
                self.log.append((self.where, str(func), shapes, self.live))
            if self.live > self.peak:
                self.peak, self.peak_op = self.live, (self.where, str(func), shapes)
                self.peak_set = None
                if self.keep_log:
                    self.peak_set = list(self.known.values())
            self.by_where[self.where] = max(self.by_where.get(self.where, 0), self.live)
            return out

    return Account()


def make_watch(rows):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = str(func)
            if "convolution" not in name:
                return func(*args, **(kwargs or {}))
            reset_hwm()
            a = status()["VmRSS"]
            out = func(*args, **(kwargs or {}))
            s = status()
            outs = out if isinstance(out, (tuple, list)) else (out,)
            ob = sum(t.untyped_storage().nbytes() for t in outs if isinstance(t, torch.Tensor))
            rows.append(
                {
                    "op": name,
                    "in": list(args[0].shape),
                    "out": [list(t.shape) for t in outs if t is not None],
                    "out_bytes": ob,
                    "hwm_rise": s["VmHWM"] - a,
                    "rss_rise": s["VmRSS"] - a,
                    "beyond_output": s["VmHWM"] - a - ob,
                }
            )
            return out

    return Watch()


# ---------------------------------------------------------------- run
LOG2PI = 1.8378770664093453
N, T, H = cfg["agents"], cfg["steps"], cfg["history"]
D = 6 * H + 4
torch.manual_seed(cfg["seed"])
result = {"config": cfg}

phases.start()
env = SwarmEnv(N, H, cfg["imu_history"], cfg["seed"])
net = Net(H)
ae_params = [p for m in (net.conv, net.to_z, net.from_z, net.deconv) for p in m.parameters()]
rl_params = [p for m in (net.p1, net.p2, net.mu, net.v) for p in m.parameters()]
opts = [torch.optim.Adam(rl_params, 1e-3), torch.optim.Adam(ae_params, 1e-3)]
phases.stop("build")
result["parameters"] = sum(p.numel() for p in net.parameters())
result["output_padding"] = net.output_padding
result["env_bytes_per_agent"] = env.nbytes() / N
params = list(net.parameters())
saved = {}


def collect(mode):
    obs_list, logps, values, actions, rewards, recons = [], [], [], [], [], []
    store = None if cfg["clone_then_stack"] else torch.empty(T, N, D)
    counter = SavedCounter(params)
    env.reset()
    for t in range(T):
        obs = torch.from_numpy(env.observations)
        if store is None:
            obs_list.append(obs.clone())
        else:
            store[t] = obs
        with torch.set_grad_enabled(cfg["rollout_grad"]):
            if cfg["saved"]:
                ctx = counter.hooks()
                ctx.__enter__()
            z = net.encode(net.imu(obs))
            if cfg["decoder_in_rollout"]:
                recon = net.decode(z)
                if cfg["keep_recon"]:
                    recons.append(recon)
                del recon
            mu, value = net.head(z, obs)
            action = (mu + 0.5 * torch.randn_like(mu)).detach()
            logp = (-((action - mu) ** 2) / 0.5 - 0.5 * LOG2PI + 0.6931471805599453).sum(-1)
            if cfg["saved"]:
                ctx.__exit__(None, None, None)
        logps.append(logp)
        values.append(value)
        actions.append(action)
        rewards.append(torch.from_numpy(env.step(action.numpy()).copy()))
    del z, mu, value, logp, action, obs
    saved["rollout"] = counter
    return obs_list, store, logps, values, actions, rewards, recons


def update(data, mode):
    obs_list, store, logps, values, actions, rewards, recons = data
    returns, g = [None] * T, torch.zeros(N)
    for t in reversed(range(T)):
        g = rewards[t] + 0.99 * g
        returns[t] = g
    returns = torch.stack(returns).view(-1)
    b_obs = (torch.stack(obs_list) if store is None else store).view(T * N, D)
    old_logp = torch.stack(logps).detach().view(-1)
    old_v = torch.stack(values).detach().view(-1)
    b_act = torch.stack(actions).view(-1, 4)
    adv = returns - old_v
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    if cfg["free_list"]:
        obs_list.clear()
    if cfg["drop_rollout_graph"]:
        logps.clear(), values.clear(), recons.clear()
    b = cfg["batch"] or T * N
    for _ in range(cfg["epochs"]):
        order = torch.randperm(T * N) if cfg["batch"] else None
        for lo in range(0, T * N, b):
            if order is None:
                o, a, r, ad, ol = b_obs, b_act, returns, adv, old_logp
            else:
                i = order[lo : lo + b]
                o, a, r, ad, ol = b_obs[i], b_act[i], returns[i], adv[i], old_logp[i]
            counter = SavedCounter(params, [o])
            if cfg["saved"]:
                ctx = counter.hooks()
                ctx.__enter__()
            if mode:
                mode.where = "update.forward"
            x = net.imu(o)
            z = net.encode(x)
            recon = net.decode(z)
            mu, v = net.head(z if cfg["loss"] == "sum" else z.detach(), o)
            logp = (-((a - mu) ** 2) / 0.5 - 0.5 * LOG2PI + 0.6931471805599453).sum(-1)
            ratio = (logp - ol).exp()
            rl = -torch.min(ratio * ad, ratio.clamp(0.8, 1.2) * ad).mean() + 0.5 * F.mse_loss(v, r)
            ae = F.mse_loss(recon, x)
            if cfg["saved"]:
                ctx.__exit__(None, None, None)
                saved.setdefault("update", (counter, len(o)))
            if mode:
                mode.where = "update.backward"
            for op in opts:
                op.zero_grad()
            if cfg["loss"] == "sum":
                (rl + ae).backward()
            else:
                rl.backward()
                ae.backward()
            if mode:
                mode.where = "update.step"
            for op in opts:
                op.step()
            # like a user's loop: the names live on until they are bound again


def cycle(mode=None):
    phases.start()
    if mode:
        mode.where = "collect"
    data = collect(mode)
    phases.stop("collect")
    if mode:
        result["account_live_after_collect_per_sample_floats"] = mode.live / 4 / (T * N)
        mode.keep_log = True
    phases.start()
    if mode:
        mode.where = "update.prepare"
    update(data, mode)
    phases.stop("update")


watch_rows = []
for _ in range(cfg["iterations"]):
    if cfg["account"]:
        acct = make_account()
        with acct:
            cycle(acct)
        per = 4.0 * T * N
        comp = {}
        for nb, op, shape, where in acct.peak_set or []:
            k = "%s %s" % (where, op)
            comp.setdefault(k + " " + "x".join(map(str, shape)), [0, 0.0])
            e = comp[k + " " + "x".join(map(str, shape))]
            e[0] += 1
            e[1] += nb / per
        result["account"] = {
            "peak_bytes": acct.peak,
            "peak_floats_per_sample": acct.peak / per,
            "peak_op": acct.peak_op,
            "peak_by_phase_floats_per_sample": {k: v / per for k, v in acct.by_where.items()},
            "live_at_peak_floats_per_sample": sorted(([k] + v for k, v in comp.items()), key=lambda r: -r[2])[:60],
            "log": [[w, o, s, round(l / per, 2)] for w, o, s, l in acct.log],
        }
    elif cfg["watch_ops"]:
        with make_watch(watch_rows):
            cycle()
    else:
        cycle()
    gc.collect()
if watch_rows:
    result["watch"] = (
        watch_rows[:3] + watch_rows[T * 3 : T * 3 + 20] if not cfg["decoder_in_rollout"] else watch_rows[-16:]
    )
result["phases"] = phases.rows
result["peak_vmhwm"] = max(r["vmhwm"] for r in phases.rows.values())
if cfg["saved"]:
    result["saved"] = {
        "rollout": saved["rollout"].report(N * T, cfg["top"]),
        "update": saved["update"][0].report(saved["update"][1], cfg["top"]),
    }
result["threads"] = torch.get_num_threads()
result["versions"] = {
    "python": platform.python_version(),
    "torch": torch.__version__,
    "numpy": np.__version__,
    "libc": "-".join(platform.libc_ver()),
    "mkldnn": torch.backends.mkldnn.is_available(),
    "malloc_env": {k: v for k, v in os.environ.items() if k.startswith(("MALLOC_", "GLIBC_TUN"))},
}
json.dump(result, sys.stdout)
print()
