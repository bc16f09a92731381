"""Learning side of a policy that acts by tree search (torch)."""

from __future__ import annotations

from typing_extensions import override

from rlrun.algorithms.alphazero.ranked_rewards import RankedGame
from rlrun.algorithms.alphazero.searching import NetworkPrediction, SearchingBehavior, SearchingNetwork
from rlrun.algorithms.alphazero.tree_search import SearchSettings
from rlrun.envs.spaces import Spaces
from rlrun.nn.model_config import ModelConfig
from rlrun.policy.acting_network import acting_network
from rlrun.policy.actor_critic import ActorCriticPolicy
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.worlds.array_game import ArrayGame


class SearchingPolicy(ActorCriticPolicy):
    """Actor-critic of a game with known rules.

    Args:
        spaces: Observation and action space.
        model: The network's settings.
        game: The game.
        simulations: Simulations of each search outside of training; 0 acts by the network alone.
        search: How trees grow.
        ranks_returns: Whether results are returns of one player, which a bar makes wins and losses.
        seed: Seed of the first parameters.
    """

    def __init__(
        self,
        spaces: Spaces,
        model: ModelConfig,
        game: ArrayGame,
        *,
        simulations: int,
        search: SearchSettings,
        ranks_returns: bool,
        seed: int,
    ) -> None:
        super().__init__(spaces.observation, spaces.action, model, normalize_observations=False, seed=seed)
        self.game = game
        self._simulations = simulations
        self._search = search
        self._ranks_returns = ranks_returns

    @override
    def behavior(self) -> BehaviorPolicy:
        network = acting_network(self.network, self.parameters, heads=("outputs", "value"))
        game = RankedGame(self.game) if self._ranks_returns else self.game
        prediction = NetworkPrediction(network, game)
        searching = SearchingNetwork(prediction, self._simulations, self._search)
        return SearchingBehavior(searching, self.action_space, self._exploration(), self.leaves)
