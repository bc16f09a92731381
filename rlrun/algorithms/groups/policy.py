"""Policy of algorithms that learn from groups of episodes: an actor without a critic (torch)."""

from __future__ import annotations

from functools import partial

from typing_extensions import override

from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.recordings import LogProbsAndValues
from rlrun.engine.policy.stochastic_actor import StochasticActorPolicy


class LoggedActorPolicy(StochasticActorPolicy):
    """Stochastic policy without a value network, which records the log-probabilities of its actions."""

    @override
    def behavior(self) -> BehaviorPolicy:
        return self.behaving(partial(BehaviorPolicy, recording=LogProbsAndValues(self.action_space, None, {})))
