"""Interest evolution: a recommendation env with slates of documents, and baseline policies for it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

WATCH_MINUTES = 4.0
"""Time that a clicked document is watched for."""
SKIP_MINUTES = 0.5
"""Time that a slate without a click takes."""
BONUS_PER_QUALITY = 0.9 / 3.4 * WATCH_MINUTES
"""Time that a watched document gives back per unit of its topic's quality; negative quality takes extra time."""
INTEREST_STEP = 0.3
"""Largest fraction of the distance to 1 by which a watched document changes the interest in its topic."""
WORTH_OF_A_MINUTE = 0.45
"""Reward that `exact_slate` expects per minute, about as much as it earns itself."""

Observation = dict[str, Any]
Doubles = NDArray[np.float64]


class InterestEvolution(gymnasium.Env[Observation, NDArray[np.int64]]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Interest evolution: a user with a time budget clicks on documents in a slate, and her interests change.

    At each step `num_candidates` documents are sampled, each with one of `num_topics` topics. The action selects a
    slate of `slate_size` documents; a duplicate counts once. The user clicks according to a conditional logit model:
    the logit of a document is her interest in its topic, and the logit of no click is 0. A click gives a reward of 1,
    and watching the document takes 4 minutes of her budget; a topic of high quality gives some of this time back. Her
    interest in the topic increases with probability (interest + 1) / 2, else it decreases. An episode ends when the
    budget is used up.

    Interesting topics get clicks, but topics of high quality keep the user, so the slate with the most clicks is not
    the best one.

    Observations are a Dict. `candidates`: one-hot topics of the documents, [num_candidates, num_topics]. `user`:
    interests in the topics, and the remaining fraction of the budget. `clicked`: position of the last click within the
    slate; `slate_size` for no click.

    Args:
        num_candidates: Number of documents to choose from.
        slate_size: Number of documents in a slate.
        num_topics: Number of topics.
        budget_minutes: Time budget of an episode.

    Source:
        Ie et al., "SlateQ", arXiv:1905.12767, section 6.1, with a logit choice model, topics as the only features of
        documents, and equal qualities within a topic.
    """

    def __init__(
        self, num_candidates: int = 10, slate_size: int = 2, num_topics: int = 20, budget_minutes: float = 200.0
    ) -> None:
        if not 1 <= slate_size <= num_candidates:
            raise ValueError(f"slate_size must be from 1 to num_candidates ({num_candidates}), not {slate_size}")
        self.observation_space = spaces.Dict(
            candidates=spaces.Box(0.0, 1.0, (num_candidates, num_topics)),
            clicked=spaces.Discrete(slate_size + 1),
            user=spaces.Box(-1.0, 1.0, (num_topics + 1,)),
        )
        self.action_space = spaces.MultiDiscrete([num_candidates] * slate_size)
        self._shape = num_candidates, num_topics
        self._budget_minutes = budget_minutes
        self._qualities = topic_qualities(num_topics)
        self._interests: Doubles = np.zeros(num_topics)
        self._topics = np.zeros(num_candidates, np.int64)
        self._left = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Samples a user with uniform interests, and the first candidates."""
        super().reset(seed=seed)
        self._interests = self.np_random.uniform(-1.0, 1.0, self._shape[1])
        self._left = self._budget_minutes
        return self._show(len(self.action_space.nvec)), {}

    def step(self, action: NDArray[np.int64]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Shows a slate; the reward is 1 for a click, else 0, and new candidates are sampled."""
        shown = np.asarray(action)
        is_repeated = [item in shown[:i] for i, item in enumerate(shown)]
        logits = np.append(np.where(is_repeated, -np.inf, self._interests[self._topics[shown]]), 0.0)
        clicked = int((logits + self.np_random.gumbel(size=len(logits))).argmax())
        if clicked == len(shown):
            self._left -= SKIP_MINUTES
            return self._show(clicked), 0.0, self._left <= 0.0, False, {}
        topic = int(self._topics[shown[clicked]])
        self._left += BONUS_PER_QUALITY * self._qualities[topic] - WATCH_MINUTES
        self._move_interest(topic)
        return self._show(clicked), 1.0, self._left <= 0.0, False, {}

    def _move_interest(self, topic: int) -> None:
        interest = self._interests[topic]
        step = INTEREST_STEP * (1.0 - abs(interest)) * (1.0 - interest)
        goes_up = self.np_random.random() < (interest + 1.0) / 2.0
        self._interests[topic] = np.clip(interest + (step if goes_up else -step), -1.0, 1.0)

    def _show(self, clicked: int) -> Observation:
        candidates, topics = self._shape
        self._topics = self.np_random.integers(topics, size=candidates)
        left = np.clip(self._left / self._budget_minutes, -1.0, 1.0)
        return {
            "candidates": np.eye(topics, dtype=np.float32)[self._topics],
            "clicked": np.int64(clicked),
            "user": np.append(self._interests, left).astype(np.float32),
        }


def topic_qualities(num_topics: int) -> Doubles:
    """Qualities of topics, [num_topics], evenly spaced: from -3 to 0 for the first 70% of topics, then from 0 to 3."""
    num_low = round(0.7 * num_topics)
    return np.append(np.linspace(-3.0, 0.0, num_low), np.linspace(0.0, 3.0, num_topics - num_low + 1)[1:])


def clicked_slate(observation: Mapping[str, Any]) -> NDArray[np.int64]:
    """Greedy baseline: the slate of two documents that is most likely to be clicked under the exact choice model."""
    return _best_slate(observation, np.ones(observation["candidates"].shape[1]), 0.0)


def exact_slate(observation: Mapping[str, Any]) -> NDArray[np.int64]:
    """Baseline: the slate of two documents with the highest value, by the exact choice model.

    The value of a slate is its expected reward minus the expected cost of the minutes that it takes from the user's
    budget, at `WORTH_OF_A_MINUTE` each. This policy knows everything except the future changes of interests.
    """
    qualities = topic_qualities(observation["candidates"].shape[1])
    minutes = WATCH_MINUTES - BONUS_PER_QUALITY * qualities
    return _best_slate(observation, 1.0 - WORTH_OF_A_MINUTE * minutes, -WORTH_OF_A_MINUTE * SKIP_MINUTES)


def _best_slate(observation: Mapping[str, Any], worths: Doubles, skipped: float) -> NDArray[np.int64]:
    """Slate with the highest expected worth, given the worths of topics [num_topics] and of no click."""
    topics = observation["candidates"].argmax(-1)
    slates = np.array(list(combinations(range(len(topics)), 2)))
    weights = np.exp(observation["user"][topics].astype(np.float64))[slates]
    expected = ((weights * worths[topics][slates]).sum(-1) + skipped) / (weights.sum(-1) + 1.0)
    best: NDArray[np.int64] = slates[expected.argmax()]
    return best
