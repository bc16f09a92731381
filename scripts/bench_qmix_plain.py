"""Runs one piece of the QMIX benchmark with `plain_qmix.py`; `bench_qmix.py` starts it in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import torch
from mpe2 import simple_spread_v3
from numpy.typing import NDArray
from plain_qmix import QMIX, Floats, TwoStepGame


class SimpleSpread:
    """PettingZoo's simple_spread with three agents; the team is given the mean of their rewards."""

    def __init__(self) -> None:
        self.env = simple_spread_v3.parallel_env(N=3, max_cycles=25)
        self.env.reset()
        self.agents = list(self.env.possible_agents)
        self.num_agents, self.state_size = len(self.agents), self.env.state_space.shape[0]
        self.num_actions = int(self.env.action_space(self.agents[0]).n)
        self.num_observed = self.env.observation_space(self.agents[0]).shape[0]

    def reset(self, seed: int | None = None) -> tuple[Floats, Floats]:
        """Begins an episode."""
        observations, _ = self.env.reset(seed=seed)
        return self._seen(observations), self.env.state()

    def step(self, actions: NDArray[np.int64]) -> tuple[Floats, Floats, float, bool, bool]:
        """Moves the agents."""
        chosen = dict(zip(self.agents, actions.tolist(), strict=True))
        observations, rewards, terminated, truncated, _ = self.env.step(chosen)
        reward = sum(rewards.values()) / self.num_agents
        return self._seen(observations), self.env.state(), reward, all(terminated.values()), all(truncated.values())

    def _seen(self, observations: dict[str, Floats]) -> Floats:
        return np.stack([observations[agent] for agent in self.agents])


WORLDS = {"two_step": TwoStepGame, "simple_spread": SimpleSpread}


def measured(work: dict[str, Any]) -> dict[str, Any]:
    """Learns through warm-up and window, and returns what the window held."""
    learner = QMIX(WORLDS[work["plain_world"]](), work, work["seed"])
    while learner.updates == 0:
        learner.step()
    began = time.perf_counter()
    while time.perf_counter() - began < work["warm_up_s"]:
        learner.step()
    steps, updates, began, began_cpu = learner.env_steps, learner.updates, time.perf_counter(), time.process_time()
    while time.perf_counter() - began < work["window_s"]:
        learner.step()
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    return {
        "env_steps": learner.env_steps - steps,
        "updates": learner.updates - updates,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
    }


def main() -> None:
    torch.set_num_threads(1)
    print(json.dumps(measured(json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
