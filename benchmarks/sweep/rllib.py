"""RLlib's side of the sweep benchmark, under Ray Tune; `run.py` starts it in a separate venv.

It uses RLlib as the documentation shows: a config with `grid_search` under a `Tuner`, where each trial samples and
learns in its own process on one CPU. It does not import rlrun, so it can run in a venv without it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import Any

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0")

import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPO, PPOConfig

from benchmarks.peers import Measurement, answer


class ReusablePPO(PPO):  # type: ignore[misc]  # ray has no types
    """PPO whose actor can take over the next trial; RLlib's own PPO cannot, and starts a process for each trial."""

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Closes everything that the last trial created, and creates it again in the same process."""
        self.cleanup()
        self.__init__(config=new_config, storage=self._storage)  # type: ignore[misc]
        return True


class FirstResult(tune.Callback):  # type: ignore[misc]
    """Reports when the first result has arrived."""

    has_come = False

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Prints a line, once."""
        if not self.has_come:
            self.has_come = True
            print(f"first result: {env_steps(result)} env steps, return {mean_return(result):.1f}", flush=True)


def config_of(work: Measurement) -> PPOConfig:
    """Returns the sweep's config, without the parts of RLlib's PPO loss that rlrun does not have."""
    net = {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh", "vf_share_layers": False}
    config = PPOConfig().environment("CartPole-v1").framework("torch")
    is_new = work["stack"] == "new"
    config.api_stack(enable_rl_module_and_learner=is_new, enable_env_runner_and_connector_v2=is_new)
    config.env_runners(
        num_env_runners=0, num_envs_per_env_runner=work["num_envs"], rollout_fragment_length=work["fragment"]
    )
    if is_new:
        config.env_runners(gym_env_vectorize_mode=work["vectorize"]).rl_module(model_config=net)
        config.learners(num_learners=0)
    else:
        config.training(model=net)
    config.training(
        lr=tune.grid_search(work["lrs"]),
        train_batch_size=work["num_envs"] * work["fragment"],
        minibatch_size=work["minibatch"],
        num_epochs=work["epochs"],
        gamma=work["gamma"],
        lambda_=work["gae_lambda"],
        clip_param=0.2,
        vf_clip_param=float("inf"),
        vf_loss_coeff=0.5,
        entropy_coeff=0.0,
        use_kl_loss=False,
        kl_coeff=0.0,
        grad_clip=0.5,
        grad_clip_by="global_norm",
    )
    return config.debugging(seed=tune.grid_search(work["seeds"]), log_level="ERROR")


def mean_return(result: Measurement) -> float:
    """Returns the mean return of a trial's last 100 episodes."""
    return float(result["env_runners"]["episode_return_mean"])


def env_steps(result: Measurement) -> int:
    """Returns the number of env steps that a trial has sampled."""
    return int(result["num_env_steps_sampled_lifetime"])


def swept(work: Measurement) -> Measurement:
    """Runs the sweep and returns the last result of each trial."""
    ray.init("local", num_cpus=work["cpus"], include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    with tempfile.TemporaryDirectory() as directory:
        tuner = tune.Tuner(
            ReusablePPO if work["reuse"] else PPO,
            param_space=config_of(work),
            tune_config=tune.TuneConfig(reuse_actors=work["reuse"]),
            run_config=tune.RunConfig(
                storage_path=directory,
                stop={"num_env_steps_sampled_lifetime": work["env_steps"]},
                callbacks=[FirstResult()],
                verbose=0,
            ),
        )
        results: Iterable[Any] = tuner.fit()
        last = [result.metrics for result in results if result.error is None]
    return {
        "returns": [mean_return(result) for result in last],
        "steps": [env_steps(result) for result in last],
        "training_s": [float(result["time_total_s"]) for result in last],
    }


if __name__ == "__main__":
    answer(swept)
