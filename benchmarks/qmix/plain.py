"""The side of `plain_qmix.py` in the QMIX benchmark; `run.py` starts it in a separate process."""

from __future__ import annotations

import numpy as np
from mpe2 import simple_spread_v3
from numpy.typing import NDArray

from benchmarks.peers import Measurement, answer, in_window
from benchmarks.qmix.plain_qmix import QMIX, Floats, TwoStepGame


class SimpleSpread:
    """PettingZoo's simple_spread with three agents; the team's reward is the mean of their rewards."""

    def __init__(self) -> None:
        self.env = simple_spread_v3.parallel_env(N=3, max_cycles=25)
        self.env.reset()
        self.agents = list(self.env.possible_agents)
        self.num_agents, self.state_size = len(self.agents), self.env.state_space.shape[0]
        self.num_actions = int(self.env.action_space(self.agents[0]).n)
        self.num_observed = self.env.observation_space(self.agents[0]).shape[0]

    def reset(self, seed: int | None = None) -> tuple[Floats, Floats]:
        """Starts an episode."""
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


def measured(work: Measurement) -> Measurement:
    """Learns through the warm-up and the window, and returns the measurements of the window."""
    learner = QMIX(WORLDS[work["part"]](), work, work["seed"])

    def step() -> tuple[int, int]:
        learner.step()
        return learner.env_steps, learner.updates

    while learner.updates == 0:
        learner.step()
    counts, clocks = in_window(work, step)
    (steps, updates), (last_steps, last_updates) = counts[0], counts[-1]
    return {"env_steps": last_steps - steps, "updates": last_updates - updates, **clocks}


if __name__ == "__main__":
    answer(measured)
