"""RLlib PPO on Pong (new API stack): four 84×84 frames, train batches of 1,024 steps, minibatches of 256, four epochs, eight environments in all."""

import argparse

import ale_py
import gymnasium as gym
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack
from ray.tune.registry import register_env

parser = argparse.ArgumentParser()
parser.add_argument("--runners", type=int, default=0, help="processes that step environments; 0: the algorithm does it")
parser.add_argument("--iterations", type=int, default=3)

ENVS = 8


def make_env(settings):
    gym.register_envs(ale_py)
    env = gym.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0)
    return wrap_atari_for_new_api_stack(env, dim=84, framestack=4)  # float32 in [-1, 1], frames last


def config(runners=0):
    register_env("pong", make_env)
    return (
        PPOConfig()
        .environment("pong", clip_rewards=True)
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=ENVS // max(1, runners))
        .training(train_batch_size_per_learner=1024, minibatch_size=256, num_epochs=4)
        .rl_module(
            model_config=DefaultModelConfig(
                conv_filters=[[32, 8, 4, "valid"], [64, 4, 2, "valid"], [64, 3, 1, "valid"]],
                conv_activation="relu",
                head_fcnet_hiddens=[512],
                vf_share_layers=True,
            )
        )
    )


def two_runners():
    return config(2)


def four_runners():
    return config(4)


def main():
    args = parser.parse_args()
    # A cluster of its own. The store is a limit, of which only what is written becomes resident.
    ray.init(address="local", num_cpus=max(2, args.runners), include_dashboard=False, object_store_memory=512 * 2**20)
    algorithm = config(args.runners).build_algo()
    for _ in range(args.iterations):
        result = algorithm.train()
        print(f"iteration {result['training_iteration']}", flush=True)
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
