"""Hooks that measure a run and stop it, and an operator that shapes rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlrun.plugin import (
    Answer,
    EpisodeStep,
    Hook,
    Metric,
    Operator,
    RunningEpisode,
    SampleBatch,
    Stop,
    Trainee,
)


class PoleAngle(Hook):
    """Measures how far CartPole's pole leans, and how often it is nearly upright."""

    declared_metrics = (
        Metric("pole_angle", "rad", "Mean angle of the pole over an episode"),
        Metric(
            "upright",
            "",
            "Share of an episode's steps with an angle below the bound",
        ),
    )

    def __init__(self, bound: float = 0.05) -> None:
        self.bound = bound

    def on_episode_start(self, episode: RunningEpisode, observation: Any) -> Answer:
        """Resets the sums for a new episode."""
        episode.notes |= {"angle": 0.0, "upright": 0}
        return None

    def on_episode_step(self, episode: RunningEpisode, step: EpisodeStep) -> Answer:
        """Adds a step to the sums."""
        angle = abs(float(step.observation[2]))
        episode.notes["angle"] += angle
        episode.notes["upright"] += angle < self.bound
        return None

    def on_episode_end(self, episode: RunningEpisode) -> Answer:
        """Returns the means over the episode."""
        sums, steps = episode.notes, episode.length
        return {"pole_angle": sums["angle"] / steps, "upright": sums["upright"] / steps}


class Plateau(Hook):
    """Stops a run whose evaluations have not improved for some time."""

    declared_metrics = (
        Metric(
            "evaluations_without_gain", "evaluations", "Evaluations since the best one"
        ),
    )

    def __init__(self, patience: int = 5) -> None:
        self.patience = patience
        self.best = float("-inf")
        self.waited = 0

    def on_evaluation(self, evaluation: Mapping[str, Any]) -> Answer:
        """Counts evaluations since the best one."""
        score = evaluation["evaluation/episode_return_mean"]
        if score > self.best:
            self.best, self.waited = score, 0
        else:
            self.waited += 1
        metrics = {"evaluations_without_gain": self.waited}
        if self.waited < self.patience:
            return metrics
        return Stop(
            f"no evaluation was above {self.best:g} in the last {self.waited}", metrics
        )


class KeepUpright(Operator):
    """Adds potential-based shaping to CartPole; the potential is minus the angle.

    This keeps the optimal policy (Ng, Harada and Russell 1999, theorem 1):
    r + gamma * potential(s') - potential(s), with a potential of 0 in terminal states.

    Args:
        trainee: The trainee.
        weight: Weight of the potential.
        gamma: Discount factor of the algorithm.
    """

    def __init__(
        self, trainee: Trainee, weight: float = 1.0, gamma: float = 0.99
    ) -> None:
        self.weight = weight
        self.gamma = gamma

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns a fragment [T, B] with shaped rewards."""
        potential = -self.weight * np.abs(item["obs"][..., 2])  # [T + 1, B]
        following = np.where(item["terminateds"], 0.0, potential[1:])
        shaping = self.gamma * following - potential[:-1]
        return SampleBatch(
            item, rewards=(item["rewards"] + shaping).astype(item["rewards"].dtype)
        )
