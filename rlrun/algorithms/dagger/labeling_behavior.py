"""Acting in DAgger: actions of the learner or the expert, while the expert's actions are recorded (NumPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.dagger.expert import Expert, expert_at
from rlrun.algorithms.dagger.settings import EXPERT_ACTIONS
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.nn.observation_leaves import ObservationTree
from rlrun.engine.policy.action_spaces.action_space import ActionSpace
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.exploration.exploration import Exploration
from rlrun.engine.policy.fragment_collector import Recording
from rlrun.engine.policy.weights import Weights
from rlrun.engine.settings.schedules import value_at

Floats = NDArray[np.float32]


class ExpertLabels(Recording):
    """Recorder of the expert's actions, which replace the learner's actions in some of the steps.

    Args:
        action_space: Action space of the policy.
    """

    replaces_actions = True

    def __init__(self, action_space: ActionSpace) -> None:
        self.action_space = action_space

    @override
    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        space = self.action_space
        return {EXPERT_ACTIONS: np.empty((length, slots, *space.action_shape), space.action_dtype)}


class NoiseAndChoice:
    """Exploration noise with an additional uniform number, which decides whether the learner or the expert acts.

    Args:
        exploration: The learner's exploration.
    """

    def __init__(self, exploration: Exploration) -> None:
        self._exploration = exploration
        self.network_noise = exploration.network_noise
        self.network_noise_every = exploration.network_noise_every

    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Passes the indices of the worker's parallel envs on to the learner's exploration."""
        self._exploration.assign_envs(first_slot, num_slots)

    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Samples a rollout's noise: the learner's exploration noise, and a uniform number for each step and env."""
        own = self._exploration.noise(generator, length, slots)
        return np.concatenate([own, generator.random((length, slots, 1), np.float32)], -1)


class LabelingBehavior(BehaviorPolicy):
    """Behavior policy that records the expert's action at each step, and executes it with probability beta.

    The expert is loaded at the first collected step, since evaluations do not need it.

    Args:
        expert: Name of the expert; see `expert_at`. None raises an error at the first step.
        spaces: Observation and action space.
        network: The learner's network, which selects actions.
        action_space: Conversion between env actions and the policy's own actions.
        exploration: The learner's exploration while collecting.
        leaves: Entries of the observation with their encodings: a tree of `ObservationLeaf`.
        normalize_observations: Whether the learner's observations are normalized by running statistics.

    Attributes:
        beta: Probability of executing the expert's action at each step.
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
        super().__init__(
            network,
            action_space,
            exploration,
            leaves,
            normalize_observations=normalize_observations,
            recording=self.labels(action_space),
        )
        self.noise_source = NoiseAndChoice(exploration)
        self.beta = 1.0
        self._path = expert
        self._spaces = spaces
        self._expert: Expert | None = None

    def labels(self, action_space: ActionSpace) -> Recording:
        """Creates the recorder of the expert's labels; a subclass may record more than actions."""
        return ExpertLabels(action_space)

    @property
    @override
    def schedules(self) -> tuple[str, ...]:
        return (*super().schedules, "beta")

    @override
    def load(self, weights: Weights) -> None:
        """Loads weights, filter statistics and the probability of executing the expert's action."""
        super().load(weights)
        self.beta = value_at(weights.schedules["beta"], weights.env_steps)

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
        """Selects the actions of one step, and records them together with the expert's actions.

        Raises:
            UsageError: There is no expert, or it does not fit the env.
            TrainingFailed: The expert raised an exception.
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
        """Queries the expert for its env actions at step t; a subclass may also record more of the expert's output."""
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
    def state(self) -> dict[str, Any]:
        """State of the learner's behavior policy, and the expert's memory of the running episodes."""
        asked = {} if self._expert is None else self._expert.memory()
        return {**super().state(), **({"expert": asked} if asked else {})}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        if "expert" in state:
            self.expert().load_memory(state["expert"])

    def expert(self) -> Expert:
        """The expert, which is loaded on first access.

        Raises:
            UsageError: No expert is set, or it does not fit the env.
        """
        if self._expert is None:
            if self._path is None:
                raise UsageError(
                    "config.expert is missing: set it to a function or a checkpoint that supplies the expert's actions"
                )
            self._expert = expert_at(self._path, self._spaces)
        return self._expert
