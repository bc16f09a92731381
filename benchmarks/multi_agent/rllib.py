"""RLlib's side of the multi-agent benchmark; `run.py` starts it in a separate venv.

It uses the new API stack with one policy for all agents, and samples and learns in the algorithm's own process with one
thread. It does not import rlrun, so it can run in a venv without it.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0", PYTHONWARNINGS="ignore")

import gymnasium
import numpy as np
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from benchmarks.multi_agent.line import ACTIONS, OBSERVED, Line
from benchmarks.peers import Measurement, answer, in_window


class LineEnv(MultiAgentEnv):  # type: ignore[misc]
    """The benchmark's world for RLlib."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.line = Line(config["num_agents"])
        self.agents = self.possible_agents = self.line.agents
        seen, done = gymnasium.spaces.Box(-np.inf, np.inf, (OBSERVED,), np.float32), gymnasium.spaces.Discrete(ACTIONS)
        self.observation_spaces = dict.fromkeys(self.agents, seen)
        self.action_spaces = dict.fromkeys(self.agents, done)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Starts an episode."""
        return self.line.reset(seed), {}

    def step(self, actions: dict[str, Any]) -> Any:
        """Moves all agents."""
        observations, rewards, cut_off = self.line.step(actions)
        return observations, rewards, {"__all__": False}, {"__all__": cut_off}, {}


def config_of(work: Measurement) -> Any:
    """Returns RLlib's config for the given work."""
    settings = work["config"]
    config = PPOConfig().environment(LineEnv, env_config={"num_agents": work["num_agents"]}).framework("torch")
    config.debugging(seed=work["seed"], log_level="ERROR")
    config.multi_agent(policies={"default"}, policy_mapping_fn=lambda agent, episode, **more: "default")
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=settings["num_envs_per_worker"])
    config.env_runners(batch_mode="truncate_episodes")
    config.learners(num_learners=0)
    config.multi_agent(count_steps_by="agent_steps")
    config.training(
        train_batch_size=settings["train_batch_size"],
        minibatch_size=settings["minibatch_size"],
        num_epochs=settings["num_epochs"],
        lr=settings["lr"],
        gamma=settings["gamma"],
        lambda_=settings["gae_lambda"],
        use_kl_loss=False,
        grad_clip=0.5,
    )
    config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=settings["model"]["hiddens"]))
    return config


def agent_steps(result: Measurement) -> int:
    """Returns the number of agent steps so far."""
    return int(sum(result["env_runners"]["num_agent_steps_sampled_lifetime"].values()))


def measured(work: Measurement) -> Measurement:
    """Trains through the warm-up and the window, and returns the measurements of the window."""
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    results, clocks = in_window(work, config_of(work).build_algo().train)
    return {"env_steps": agent_steps(results[-1]) - agent_steps(results[0]), **clocks}


if __name__ == "__main__":
    answer(measured)
