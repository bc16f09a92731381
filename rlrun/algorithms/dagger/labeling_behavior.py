"""Acting in DAgger: the learner's actions, or the expert's, while the expert's are recorded (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.dagger.columns import EXPERT_ACTIONS
from rlrun.algorithms.dagger.expert import Expert, expert_at
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.schedules import value_at
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.nn.observation_leaves import ObservationTree
from rlrun.engine.policy.action_spaces.action_space import ActionSpace
from rlrun.engine.policy.behavior import BehaviorPolicy, LogProbs
from rlrun.engine.policy.exploration.exploration import Exploration
from rlrun.engine.policy.weights import Weights

Floats = NDArray[np.float32]


class LabelingBehavior(BehaviorPolicy):
    """Behavior policy that records the expert's action at each step, and takes it with the probability beta.

    The expert is loaded at the first step that is collected: evaluations need none.

    Args:
        expert: Name of the expert; see `expert_at`. None raises an error at the first step.
        spaces: Observation and action space.
        network: The learner's acting network.
        action_space: Conversion between env actions and the policy's own actions.
        exploration: The learner's exploration while collecting.
        leaves: The tree of `ObservationLeaf`.
        normalize_observations: Whether the learner's observations are normalised by running statistics.

    Attributes:
        beta: Probability of the expert's action at each step.
    """

    def __init__(
        self,
        expert: str | None,
        spaces: Spaces,
        network: ActingNetwork,
        action_space: ActionSpace,
        exploration: Exploration,
        leaves: ObservationTree,
        *,
        normalize_observations: bool,
    ) -> None:
        super().__init__(network, action_space, exploration, leaves, normalize_observations=normalize_observations)
        self.beta = 1.0
        self._path = expert
        self._spaces = spaces
        self._expert: Expert | None = None

    @property
    @override
    def schedules(self) -> tuple[str, ...]:
        return (*super().schedules, "beta")

    @override
    def load(self, weights: Weights) -> None:
        """Loads weights, filter statistics and the probability of the expert's action."""
        super().load(weights)
        self.beta = value_at(weights.schedules["beta"], weights.env_steps)

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Samples the exploration noise, and last a uniform number for the choice between learner and expert."""
        own = super().noise(generator, length, slots)
        return np.concatenate([own, generator.random((length, slots, 1), np.float32)], -1)

    @override
    def allocate_fragment(self, length: int, slots: int) -> SampleBatch:
        batch = super().allocate_fragment(length, slots)
        batch[EXPERT_ACTIONS] = np.empty_like(batch["actions"])
        return batch

    @override
    def record_log_probs(self, log_probs: LogProbs) -> None:
        return  # nothing is known of the probabilities of an expert's actions

    @override
    def act(
        self,
        observations: Any,
        noise: Floats,
        record: SampleBatch,
        t: int,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> Any:
        """Selects the actions of one step; records them and the expert's.

        Raises:
            UsageError: There is no expert, or it does not fit the env.
            TrainingFailed: The expert raises.
        """
        super().act(observations, np.ascontiguousarray(noise[:, :-1]), record, t, episode_starts, acts, rows)
        labels = self.action_space.from_env(self.asked(observations, record, t, episode_starts, noise[:, -1]))
        by_expert = noise[:, -1] < self.beta
        record[EXPERT_ACTIONS][t] = labels
        record["actions"][t][by_expert] = labels[by_expert]
        taken = self.action_space.to_env(record["actions"][t])
        self.take_actions(taken)
        return taken

    def asked(
        self, observations: Any, record: SampleBatch, t: int, episode_starts: NDArray[np.bool_], draws: Floats
    ) -> Any:
        """Actions of the env that the expert would take; a subclass may record more of it in row t."""
        return self.expert()(observations, episode_starts, draws)

    @override
    def take_actions(self, actions: Any) -> None:
        super().take_actions(actions)
        if self._expert is not None:
            self._expert.take_actions(actions)

    @override
    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        super().take_rewards(rewards)
        if self._expert is not None:
            self._expert.take_rewards(rewards)

    @override
    def memory(self) -> dict[str, Any]:
        """Memory of the running episodes: the learner's own, and the expert's."""
        asked = {} if self._expert is None else self._expert.memory()
        return {**super().memory(), **({"expert": asked} if asked else {})}

    @override
    def load_memory(self, memory: Mapping[str, Any]) -> None:
        super().load_memory(memory)
        if "expert" in memory:
            self.expert().load_memory(memory["expert"])

    def expert(self) -> Expert:
        """The expert, which is loaded by the first call.

        Raises:
            UsageError: There is none, or it does not fit the env.
        """
        if self._expert is None:
            if self._path is None:
                raise UsageError("an expert is asked for actions: set config.expert to a function or a checkpoint")
            self._expert = expert_at(self._path, self._spaces)
        return self._expert
