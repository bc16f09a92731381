"""Policy and behavior for distillation: the student acts, and the teacher's distributions are recorded (torch)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.dagger.expert import Expert, SavedExpert
from rlrun.algorithms.dagger.labeling_behavior import ExpertLabels, LabelingBehavior
from rlrun.algorithms.dagger.settings import EXPERT_OUTPUTS, DAggerConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.action_spaces.action_space import ActionSpace, Floats
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.exploration.sampling import SampleActions
from rlrun.engine.policy.exploration.state_dependent_noise import StateDependentNoise
from rlrun.engine.policy.exploration.uniform_until import UniformUntil
from rlrun.engine.policy.fragment_collector import FragmentCollector, Recording
from rlrun.engine.policy.stochastic_actor import StochasticActorPolicy


class ExpertDistributions(ExpertLabels):
    """Recorder of the teacher's actions and action distribution parameters; it also normalizes the observations."""

    @override
    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        outputs = np.empty((length, slots, self.action_space.num_outputs), np.float32)
        return {**super().allocate(length, slots), EXPERT_OUTPUTS: outputs}

    @override
    def postprocess(self, batch: SampleBatch, collector: FragmentCollector) -> None:
        """Normalizes a rollout fragment's observations by the statistics at the time of collection."""
        collector.filter.filter_fragment(batch)


class DistillingBehavior(LabelingBehavior):
    """Behavior policy that records the parameters of the teacher's action distribution at each step."""

    @override
    def labels(self, action_space: ActionSpace) -> Recording:
        return ExpertDistributions(action_space)

    @override
    def asked(
        self, observations: Any, record: SampleBatch, t: int, episode_starts: NDArray[np.bool_], draws: Floats
    ) -> Any:
        expert = self.expert()
        assert isinstance(expert, SavedExpert)
        record[EXPERT_OUTPUTS][t], actions = expert.distribution(observations, episode_starts)
        return actions

    @override
    def expert(self) -> Expert:
        expert = super().expert()
        if not isinstance(expert, SavedExpert):
            raise UsageError(
                "distill needs a teacher with action distributions: name a checkpoint. To learn from a function, "
                "use dagger"
            )
        space, drawn = expert.behavior.action_space, expert.behavior.exploration
        drawn = drawn.inner if isinstance(drawn, UniformUntil) else drawn
        if type(space) is not type(self.action_space) or not isinstance(drawn, SampleActions | StateDependentNoise):
            raise UsageError(
                "distill needs a teacher that samples from an action distribution, as ppo does, not "
                f"{type(space).__name__} with {type(drawn).__name__}; to imitate the teacher's greedy "
                "actions, use dagger"
            )
        return expert


class DAggerPolicy(StochasticActorPolicy):
    """Stochastic actor for DAgger; while it acts on a worker, the expert's action is recorded at each step.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed for the initial parameters.
    """

    acts_on_device = False

    def __init__(self, spaces: Spaces, config: DAggerConfig, seed: int) -> None:
        super().__init__(spaces, config, seed)
        self.spaces = spaces
        self.expert = config.expert

    @override
    def behavior(self) -> BehaviorPolicy:
        return self.behaving(partial(LabelingBehavior, self.expert, self.spaces))


class DistillPolicy(DAggerPolicy):
    """Stochastic actor (the student); while it acts, the teacher's action distribution is recorded at each step."""

    @override
    def behavior(self) -> BehaviorPolicy:
        return self.behaving(partial(DistillingBehavior, self.expert, self.spaces))
