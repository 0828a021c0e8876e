"""Trains a described SB3 run for some timesteps on a real environment: speed, reward, memory.

Stand-alone (numpy, torch, gymnasium, SB3). The case is that of ``sb3_run.py`` and

    timesteps     how long to train
    env           the id of a Gymnasium environment, or null for one of the described shapes that returns noise
    training      further constructor arguments (learning_rate, train_freq, gamma …)
    seed

A real environment is dressed in the described observation: a ``uint8`` array with three dimensions is what it renders at
that size, every other array takes the environment's own observation, flat, cut off or padded with zeros to its width. Of
MuJoCo's Ant and its kin only positions and velocities are taken (27 values for Ant: 13 of qpos, without x and y, and 14
of qvel), not the contact forces behind them. Where nothing can be rendered, images are zeros.
"""

import os
import sys
import time

import program_kit as kit
import sb3_run

#: Episodes the mean reward is taken over.
LAST = 100
#: How often the status file says how far training is.
TELL_SECONDS = 0.5


class Dressed:
    """Makes environments that observe what the description says."""

    def __init__(self, case):
        self.case = case
        self.image_source = "no images"

    def make(self):
        """One environment, in the described observation space; a factory may not be pickled, so one process only."""
        import gymnasium

        space = kit.make_space(self.case["observation"])
        parts = dict(space.spaces) if isinstance(space, gymnasium.spaces.Dict) else {"": space}
        images = {name: part for name, part in parts.items() if part.dtype == "uint8" and len(part.shape) == 3}
        env = self.start(next(iter(images.values()), None))
        action = kit.make_space(self.case["action"])
        if env.action_space.shape != action.shape or type(env.action_space) is not type(action):
            raise ValueError("%s takes %s, the description says %s" % (self.case["env"], env.action_space, action))
        return dress(env, space, parts, images, self.image_source == "rendered")

    def start(self, image):
        """The environment, rendering if it can and must."""
        import gymnasium

        if image is None:
            return gymnasium.make(self.case["env"])
        height, width = image.shape[:2]
        if self.image_source != "zeros":
            try:
                env = gymnasium.make(self.case["env"], render_mode="rgb_array", width=width, height=height)
                env.reset()
                if env.render().shape == image.shape:
                    self.image_source = "rendered"
                    return env
            except Exception as error:  # no offscreen GL, or an environment that takes no size
                print("rendering is not possible here: %s" % error, file=sys.stderr)
            self.image_source = "zeros"
        return gymnasium.make(self.case["env"])


def dress(env, space, parts, images, rendered):
    """The observation wrapper."""
    import gymnasium
    import numpy as np

    state = getattr(env.unwrapped, "observation_structure", None)
    useful = state["qpos"] + state["qvel"] if state and "qvel" in state else None

    class Wrapper(gymnasium.ObservationWrapper):
        def __init__(self):
            super().__init__(env)
            self.observation_space = space

        def observation(self, observation):
            values = np.asarray(observation, dtype=np.float32).ravel()[:useful]
            given = {name: self.part(name, part, values) for name, part in parts.items()}
            return given[""] if "" in given else given

        def part(self, name, part, values):
            if name in images:
                return self.env.render() if rendered else np.zeros(part.shape, np.uint8)
            out = np.zeros(int(np.prod(part.shape)), part.dtype)
            out[: len(values)] = values[: len(out)]
            return out.reshape(part.shape)

    return Wrapper()


def vector_env(case, source):
    """All environments, monitored, in this process (or as described, for the shaped one)."""
    if source is None:
        return sb3_run.vector_env(case, case["n_envs"], case.get("vec_env", "dummy"))
    from stable_baselines3.common import vec_env
    from stable_baselines3.common.monitor import Monitor

    env = vec_env.DummyVecEnv([lambda: Monitor(source.make())] * case["n_envs"])
    return vec_env.VecFrameStack(env, case["frame_stack"]) if int(case.get("frame_stack") or 1) > 1 else env


def recorder(phases, timesteps):
    """A callback that keeps the last episodes and says how far training is."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Recorder(BaseCallback):
        def __init__(self):
            super().__init__()
            self.episodes, self.total, self.start, self.told = [], 0.0, time.perf_counter(), 0.0

        def _on_step(self):
            self.total += float(self.locals["rewards"].sum())
            for info in self.locals["infos"]:
                if "episode" in info:
                    self.episodes.append(float(info["episode"]["r"]))
            now = time.perf_counter()
            if now - self.told > TELL_SECONDS:
                self.told = now
                phases.extra["progress"] = {
                    "done": self.num_timesteps,
                    "of": timesteps,
                    "seconds": now - self.start,
                }
                phases.publish()
            return True

    return Recorder()


def run(case):
    """Train, and say what it came to."""
    # Without a display; the user's own choice wins.
    os.environ.setdefault("MUJOCO_GL", "egl")
    phases = kit.Phases()
    name = case["algorithm"].lower()
    with phases("import"):
        import stable_baselines3
        import torch

        algorithm = getattr(stable_baselines3, sb3_run.CORE.get(name, ""), None)
        if name in sb3_run.CONTRIB:
            import sb3_contrib

            algorithm = getattr(sb3_contrib, sb3_run.CONTRIB[name])
        notes = kit.prepare(case, phases)
    torch.manual_seed(case["seed"])
    source = Dressed(case) if case.get("env") else None
    before = kit.proc.rss()
    with phases("build"):
        env = vector_env(case, source)
        env.seed(case["seed"])
        env.reset()
    env_bytes = max(phases.rows["build"]["rss"] - before, 0)
    with phases("build"):
        arguments = dict(case.get("model_kwargs") or {}, **(case.get("training") or {}), seed=case["seed"])
        model = sb3_run.build(algorithm, dict(case, model_kwargs=arguments), env)
    watch = recorder(phases, case["timesteps"])
    started = time.perf_counter()
    with phases("update"):  # collection and updates in turn
        model.learn(case["timesteps"], callback=watch, log_interval=None)
    seconds = time.perf_counter() - started
    last = watch.episodes[-LAST:]
    result = {
        "steps": model.num_timesteps,
        "train_seconds": seconds,
        "updates": int(getattr(model, "_n_updates", 0)),
        "steps_per_s": model.num_timesteps / seconds,
        "episodes": len(watch.episodes),
        "mean_reward": sum(last) / len(last) if last else None,
        "reward_per_step": watch.total / max(model.num_timesteps, 1),
        "image": source.image_source if source else "noise",
        "env_bytes": env_bytes if source else None,
        "notes": notes,
        "phases": phases.rows,
        "components": sb3_run.components(
            model,
            model.replay_buffer if hasattr(model, "replay_buffer") else model.rollout_buffer,
            "replay" if hasattr(model, "replay_buffer") else "rollout",
        ),
        "versions": kit.versions(),
    }
    env.close()
    return result


if __name__ == "__main__":
    sys.exit(kit.main(run))
