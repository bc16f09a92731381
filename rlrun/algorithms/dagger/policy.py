"""Policy of DAgger: a stochastic actor whose behavior asks the expert while it collects (torch)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import override

from rlrun.algorithms.dagger.asking_behavior import AskingBehavior
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.stochastic_actor import StochasticActorPolicy

if TYPE_CHECKING:
    from rlrun.algorithms.dagger.settings import DAggerConfig


class DAggerPolicy(StochasticActorPolicy):
    """Stochastic actor whose workers record the expert's action at each step.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed of the initial parameters.
    """

    def __init__(self, spaces: Spaces, config: DAggerConfig, seed: int) -> None:
        super().__init__(spaces, config, seed)
        self.spaces = spaces
        self.expert = config.expert

    @override
    def behavior(self) -> BehaviorPolicy:
        return self.behaving(partial(AskingBehavior, self.expert, self.spaces))
