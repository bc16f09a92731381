"""skrl's side of the tensors benchmark; `run.py` starts it in a separate venv.

It uses skrl as skrl's examples for Isaac Lab do: `SequentialTrainer`, `RandomMemory`, a Gaussian and a deterministic
model. It tracks returns, and writes no checkpoints.
"""

from __future__ import annotations

import statistics
import tempfile
from itertools import pairwise
from typing import Any

import gymnasium
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import Wrapper
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.resources.schedulers.torch import KLAdaptiveLR
from skrl.trainers.torch import SequentialTrainer
from torch import Tensor, nn

from benchmarks.peers import Measurement, answer
from benchmarks.tensors.env import ACTIVATIONS, SteeredCartPole, started
from benchmarks.tensors.marks import Marks


class CartPole(Wrapper):  # type: ignore[misc]  # skrl is not type-checked
    """The env with skrl's interface."""

    def __init__(self, env: SteeredCartPole, observations: Tensor) -> None:
        super().__init__(env)
        self._first = observations

    def reset(self) -> tuple[Tensor, dict[str, Any]]:
        """Returns the first observations."""
        return self._first, {}

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Steps the env; flags and rewards are columns [B, 1]."""
        step = self._env.step(actions)
        columns = (step.rewards, step.terminateds, step.truncateds)
        rewards, terminateds, truncateds = (column[:, None] for column in columns)
        return step.observations, rewards, terminateds, truncateds, {}

    def state(self) -> Tensor | None:
        """Returns None, because the critic has no separate state."""
        return None

    def render(self, *args: Any, **kwargs: Any) -> None:
        """No-op."""

    def close(self) -> None:
        """No-op."""


def layers(inputs: int, hiddens: list[int], activation: str) -> nn.Sequential:
    """Returns dense layers with activations and a single output."""
    widths = [inputs, *hiddens]
    dense = [module for pair in pairwise(widths) for module in (nn.Linear(*pair), ACTIVATIONS[activation]())]
    return nn.Sequential(*dense, nn.Linear(widths[-1], 1))


class Actor(GaussianMixin, Model):  # type: ignore[misc]
    """Gaussian policy."""

    def __init__(self, spaces: dict[str, gymnasium.Space[Any]], device: str, work: Measurement) -> None:
        Model.__init__(self, **spaces, device=device)
        GaussianMixin.__init__(self)
        self.net = layers(4, work["hiddens"], work["activation"])
        self.log_std = nn.Parameter(torch.zeros(1))

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[Tensor, dict[str, Any]]:
        """Returns means and log standard deviations."""
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class Critic(DeterministicMixin, Model):  # type: ignore[misc]
    """State values."""

    def __init__(self, spaces: dict[str, gymnasium.Space[Any]], device: str, work: Measurement) -> None:
        Model.__init__(self, **spaces, device=device)
        DeterministicMixin.__init__(self)
        self.net = layers(4, work["hiddens"], work["activation"])

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[Tensor, dict[str, Any]]:
        """Returns values."""
        return self.net(inputs["observations"]), {}


def measured(work: Measurement) -> Measurement:
    """Trains for the warm-up and the measured iterations, and returns the measurements."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return trained(work, folder)


def trained(work: Measurement, folder: str) -> Measurement:
    """Trains with the given folder for logs, and returns the measurements."""
    env = CartPole(*started(work))
    device, num_envs = work["device"], work["num_envs"]
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    config = PPO_CFG(
        rollouts=work["fragment"],
        learning_epochs=work["epochs"],
        mini_batches=work["minibatches"],
        learning_rate=work["lr"],
        learning_rate_scheduler=KLAdaptiveLR,
        learning_rate_scheduler_kwargs={"kl_threshold": work["adaptive_kl"]},
        grad_norm_clip=1.0,
        entropy_loss_scale=0.01,
        value_loss_scale=1.0,
        time_limit_bootstrap=True,
        experiment={"directory": folder, "write_interval": 1_000_000, "checkpoint_interval": 0},
    )
    agent = PPO(
        models={"policy": Actor(spaces, device, work), "value": Critic(spaces, device, work)},
        memory=RandomMemory(memory_size=work["fragment"], num_envs=num_envs, device=device),
        device=device,
        cfg=config,
        **spaces,
    )
    clock = Marks()
    agent.act = clock.timed("acting_s", agent.act)
    agent.update = clock.timed("updates_s", agent.update)
    steps = (work["warm_up"] + work["iterations"]) * work["fragment"]
    settings = {"timesteps": steps, "headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
    SequentialTrainer(cfg=settings, env=env, agents=agent).train()
    return clock.found(work, statistics.mean(reward for (reward,) in agent._track_rewards))


if __name__ == "__main__":
    answer(measured)
