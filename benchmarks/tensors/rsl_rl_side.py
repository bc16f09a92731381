"""rsl_rl's side of the tensors benchmark; `run.py` starts it in a separate venv.

It uses rsl_rl as its users do: through `OnPolicyRunner`, with the settings of Isaac Lab. It logs to a folder, because
rsl_rl tracks episode returns only then.
"""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from torch import Tensor

from benchmarks.peers import Measurement, answer
from benchmarks.tensors.env import started
from benchmarks.tensors.marks import Marks


class CartPole(VecEnv):  # type: ignore[misc]  # rsl_rl is not type-checked
    """The env with rsl_rl's interface."""

    def __init__(self, work: Measurement) -> None:
        self.env, self.observations = started(work)
        self.num_envs, self.num_actions, self.max_episode_length = self.env.num_envs, 1, 500
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.int64)
        self.device = str(self.env.device)
        self.cfg: dict[str, Any] = {}

    def get_observations(self) -> TensorDict:
        """Returns the current observations."""
        return TensorDict({"policy": self.observations}, batch_size=[self.num_envs])

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        """Steps the env."""
        step = self.env.step(actions)
        self.observations = step.observations
        dones = (step.terminateds | step.truncateds).long()
        return self.get_observations(), step.rewards, dones, {"time_outs": step.truncateds}


def measured(work: Measurement) -> Measurement:
    """Trains for the warm-up and the measured iterations, and returns the measurements."""
    net = {"class_name": "MLPModel", "hidden_dims": work["hiddens"], "activation": work["activation"]}
    settings = {
        "num_steps_per_env": work["fragment"],
        "save_interval": 1_000_000,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**net, "distribution_cfg": {"class_name": "GaussianDistribution", "std_type": "log"}},
        "critic": net,
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": work["epochs"],
            "num_mini_batches": work["minibatches"],
            "learning_rate": work["lr"],
            "desired_kl": work["adaptive_kl"],
            "schedule": "adaptive",
        },
    }
    clock = Marks()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        runner = OnPolicyRunner(CartPole(work), settings, log_dir=folder, device=work["device"])
        runner.logger.git_status_repos = []
        runner.alg.act = clock.timed("acting_s", runner.alg.act)
        runner.alg.update = clock.timed("updates_s", runner.alg.update)
        runner.learn(work["warm_up"] + work["iterations"])
        return clock.found(work, statistics.mean(runner.logger.rewbuffer))


if __name__ == "__main__":
    answer(measured)
