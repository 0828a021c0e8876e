"""RLlib PPO on HalfCheetah (new API stack): train batches of 2,048 steps, minibatches of 256, ten epochs, eight environments in all."""

import argparse

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

parser = argparse.ArgumentParser()
parser.add_argument("--runners", type=int, default=0, help="processes that step environments; 0: the algorithm does it")
parser.add_argument("--iterations", type=int, default=3)

ENVS = 8


def config(runners=0):
    return (
        PPOConfig()
        .environment("HalfCheetah-v5")
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=ENVS // max(1, runners))
        .training(train_batch_size_per_learner=2048, minibatch_size=256, num_epochs=10)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[256, 256], fcnet_activation="tanh", vf_share_layers=False, free_log_std=True
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
