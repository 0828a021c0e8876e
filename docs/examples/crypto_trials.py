"""PPO of ElegantRL 0.3.6 on a small market of seven coins, inside Optuna trials, as a user would write it.

    pip install torch numpy pandas matplotlib optuna && pip install --no-deps elegantrl==0.3.6
    python docs/examples/crypto_trials.py --trials 3
    python docs/examples/crypto_trials.py --trials 8 --leak          # every episode's infos are kept: memory grows
    python docs/examples/crypto_trials.py --trials 1 --hold 600      # stays in its last trial, to be looked at

The agent is the released ``AgentPPO``, and ``train_agent`` of the package trains it. ``docs/why-20-gb.md`` tells what it is for.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import torch
from elegantrl.agents.AgentPPO import AgentPPO
from elegantrl.train.config import Config
from elegantrl.train.run import train_agent

COINS = 7
INDICATORS = 9  # a coin
STATE = 1 + COINS + COINS * INDICATORS  # cash, holdings, indicators: 71
FEE = 0.001


def market(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Prices (rows, 7) and indicators (rows, 63), float32: a random walk with quiet and wild stretches."""
    rng = np.random.default_rng(seed)
    wild = np.repeat(rng.uniform(0.3, 2.0, rows // 500 + 1), 500)[:rows, None]
    together = rng.standard_normal((rows, 1))
    moves = (0.6 * together + 0.8 * rng.standard_normal((rows, COINS))) * wild * 0.002
    frame = pd.DataFrame(100 * np.exp(np.cumsum(moves, axis=0)))
    change = frame.pct_change()
    columns = [change, frame.pct_change(12), frame.pct_change(48)]
    columns += [frame / frame.rolling(width).mean() - 1 for width in (12, 48, 288)]
    columns += [change.rolling(48).std(), frame.ewm(span=12).mean() / frame.ewm(span=26).mean() - 1]
    gain, loss = change.clip(lower=0).rolling(14).mean(), -change.clip(upper=0).rolling(14).mean()
    columns.append(gain / (gain + loss) - 0.5)
    indicators = pd.concat(columns, axis=1).fillna(0.0) * 10
    return frame.to_numpy(np.float32), indicators.to_numpy(np.float32)


class Market:
    """Buy and sell seven coins; an episode ends after ``episode_len`` steps or when half of the money is lost."""

    def __init__(self, prices, indicators, episode_len=512, seed=0, on_episode=None, hold=None):
        self.prices, self.indicators, self.episode_len = prices, indicators, episode_len
        self.rng = np.random.default_rng(seed)
        self.on_episode, self.hold = on_episode, hold
        self.infos: list[tuple[torch.Tensor, ...]] = []

    def state(self) -> np.ndarray:
        """Cash, the value of every holding, and the market's indicators."""
        worth = self.holdings * self.prices[self.row]
        return np.concatenate(([self.cash / 1e4], worth / 1e4, self.indicators[self.row])).astype(np.float32)

    def reset(self) -> np.ndarray:
        """Start somewhere with 10,000 in cash."""
        self.row = int(self.rng.integers(0, len(self.prices) - self.episode_len - 1))
        self.end = self.row + self.episode_len
        self.cash, self.holdings = np.float32(1e4), np.zeros(COINS, np.float32)
        self.total = np.float32(1e4)
        return self.state()

    def step(self, action):
        """Trade up to a tenth of the account in every coin, then see where the prices go."""
        price = self.prices[self.row]
        wanted = np.asarray(action, np.float32) * self.total * np.float32(0.1) / price
        sold = np.minimum(np.maximum(-wanted, 0), self.holdings)
        self.cash += np.float32((sold * price).sum() * (1 - FEE))
        self.holdings -= sold
        bought = np.maximum(wanted, 0)
        cost = (bought * price).sum() * (1 + FEE)
        if cost > self.cash:
            bought *= self.cash / cost
            cost = self.cash
        self.cash = np.float32(max(self.cash - cost, 0))
        self.holdings += bought
        self.row += 1
        total = np.float32(self.cash + (self.holdings * self.prices[self.row]).sum())
        reward = float(np.log(total / self.total) * 100)
        self.total = total
        done = bool(self.row >= self.end or total < 5e3)
        state = self.state()
        if self.on_episode is not None:
            self.infos.append((torch.from_numpy(state.copy()), torch.tensor(action), torch.tensor(reward)))
            if done:
                self.on_episode(self.infos)
                self.infos = []
        return state, reward, done, {}

    def close(self) -> None:
        """``train_agent`` calls this while the agent, the rollout and all else of the trial are still there."""
        if self.hold:
            print(f"holding {os.getpid()}", flush=True)
            end = time.monotonic() + self.hold
            while time.monotonic() < end:
                time.sleep(0.05)


class ListPPO(AgentPPO):
    """The rollout as ElegantRL 0.3.3 and its forks keep it: one tuple of small tensors a step."""

    def explore_one_env(self, env, horizon_len, if_random=False):
        """As in the base class, by way of a list."""
        state, listed = self.last_state, []
        for _ in range(horizon_len):
            action, logprob = self.act.get_action(state)
            taken = self.act.convert_action_for_env(action[0]).detach().cpu().numpy()
            following, reward, done, _ = env.step(taken)
            listed.append((state, action, logprob, reward, done))
            following = env.reset() if done else following
            state = torch.as_tensor(following, dtype=torch.float32, device=self.device).unsqueeze(0)
        self.last_state, self.trajectory = state, listed
        states, actions, logprobs, rewards, dones = zip(*listed, strict=True)
        undones = 1.0 - torch.tensor(dones, dtype=torch.float32).unsqueeze(1)
        rewards = torch.tensor(rewards, dtype=torch.float32).unsqueeze(1) * self.reward_scale
        return torch.stack(states), torch.stack(actions), torch.stack(logprobs), rewards, undones


class Objective:
    """What Optuna calls once a trial. It lives as long as the study."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.prices, self.indicators = market(options.rows, options.seed)
        self.begun = 0
        self.returns: list[float] = []
        self.episode_infos: list[tuple[torch.Tensor, ...]] = []

    def remember(self, infos: list[tuple[torch.Tensor, ...]]) -> None:
        """The end of an episode. To keep its infos is the mistake: a number would do."""
        self.returns.append(float(sum(reward for _, _, reward in infos)))
        if self.options.leak:
            self.episode_infos.extend(infos)

    def __call__(self, trial: optuna.Trial) -> float:
        """Train one agent; its best average return."""
        options, started = self.options, time.perf_counter()
        batch = options.batch or trial.suggest_categorical("batch_size", [2048, 4096, 8192])
        horizon = options.target_step or trial.suggest_categorical("target_step", [256, 512, 1024])
        self.begun += 1
        env_args = {
            "env_name": "market", "num_envs": 1, "max_step": options.episode, "state_dim": STATE, "action_dim": COINS,
            "if_discrete": False, "prices": self.prices, "indicators": self.indicators, "episode_len": options.episode,
            "seed": options.seed + trial.number, "on_episode": self.remember, "hold": options.hold if self.begun == options.trials else None,
        }  # fmt: skip
        args = Config(ListPPO if options.store == "list" else AgentPPO, Market, env_args)
        args.net_dims, args.batch_size, args.horizon_len = (options.net, options.net), batch, horizon
        args.repeat_times = max(16, batch / horizon)  # ElegantRL insists on at least one minibatch
        args.learning_rate = trial.suggest_float("learning_rate", 1e-5, 1e-3, log=True)
        args.num_threads, args.num_workers, args.gpu_id = options.threads, options.workers, -1
        args.break_step = options.iterations * horizon - 1
        args.random_seed, args.eval_times = options.seed, 2
        with tempfile.TemporaryDirectory(prefix="crypto-trial-") as folder:
            args.cwd = folder
            train_agent(args)
            best = float(np.load(f"{folder}/recorder.npy")[:, 1].max())
        print(f"trial {trial.number}: batch {batch}, target_step {horizon}, {time.perf_counter() - started:.1f} s")
        return best


def memory() -> dict[str, int]:
    """What the kernel says of this process: bytes resident now and at most, and its threads."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    resident, peak = (int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return {"resident": resident, "peak": max(resident, peak), "threads": int(lines["Threads"])}


def after_trial(way: str) -> None:
    """Tidy up in one of the ways people recommend; say what that gave back, and how large the process is then."""
    if way == "trim":
        gc.collect()  # first, so that only what trimming itself gives back is counted
    before = memory()["resident"]
    if way == "collect":
        gc.collect()
    elif way == "empty-cache":
        torch.cuda.empty_cache()
    elif way == "trim":
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    now = memory()
    print(f"after: {json.dumps({**now, 'returned': before - now['resident']})}", flush=True)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=3, help="rollouts and updates a trial")
    parser.add_argument("--batch", type=int, help="batch_size; searched from 2048 to 8192 if not given")
    parser.add_argument("--target-step", type=int, help="steps a rollout; searched from 256 to 1024 if not given")
    parser.add_argument("--episode", type=int, default=512, help="steps an episode at most")
    parser.add_argument("--net", type=int, default=768, help="width of the two hidden layers")
    parser.add_argument("--threads", type=int, default=12, help="torch.set_num_threads")
    parser.add_argument("--workers", type=int, default=3, help="num_workers of ElegantRL's configuration")
    parser.add_argument("--store", choices=("list", "array"), default="array", help="how a rollout is kept")
    parser.add_argument("--rows", type=int, default=36_000, help="rows of market data: 10 MB")
    parser.add_argument("--leak", action="store_true", help="keep the infos of every episode")
    ways = ("nothing", "empty-cache", "collect", "trim")
    parser.add_argument("--after-trial", choices=ways, default=ways[0], help="trim: gc.collect(), then malloc_trim(0)")
    parser.add_argument(
        "--storage", help="where Optuna keeps the study, such as sqlite:///trials.db (default: in memory)"
    )
    parser.add_argument("--hold", type=float, help="stay this many seconds in the last trial, after its last update")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    objective = Objective(options)
    sampler = optuna.samplers.TPESampler(seed=options.seed)
    study = optuna.create_study(
        direction="maximize", sampler=sampler, storage=options.storage, study_name="crypto", load_if_exists=True
    )
    study.optimize(objective, n_trials=options.trials, callbacks=[lambda *_: after_trial(options.after_trial)])
    print(f"best {study.best_value:.2f} with {study.best_params}")


if __name__ == "__main__":
    main()
