"""Policy-value network of AlphaZero, with a behavior policy that acts by tree search (torch)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from rlrun.algorithms.alphazero.ranked_rewards import RankedGame
from rlrun.algorithms.alphazero.searching import NetworkPrediction, SearchingBehavior, SearchingNetwork
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.policy.acting_network import acting_network
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.worlds.world_view import WorldView

if TYPE_CHECKING:
    from rlrun.algorithms.alphazero.alphazero import AlphaZeroConfig


class SearchingPolicy(ActorCriticPolicy):
    """Policy-value network for a game with known rules, which acts by Monte Carlo tree search.

    Args:
        spaces: Observation and action space.
        config: Settings of AlphaZero.
        seed: Seed for the initial parameters.
        world: Description of the multi-agent env, with the rules of its game.
    """

    def __init__(self, spaces: Spaces, config: AlphaZeroConfig, seed: int, world: WorldView) -> None:
        super().__init__(spaces, config, seed)
        assert world.game is not None
        self.game = world.game
        self._simulations = config.evaluation_simulations
        self._search = config.search
        self._ranks_returns = config.ranked_returns is not None

    @override
    def behavior(self) -> BehaviorPolicy:
        network = acting_network(self.network, self.parameters, heads=("outputs", "value"))
        game = RankedGame(self.game) if self._ranks_returns else self.game
        prediction = NetworkPrediction(network, game)
        searching = SearchingNetwork(prediction, self._simulations, self._search)
        return SearchingBehavior(searching, self.action_space, self._exploration(), self.leaves)
