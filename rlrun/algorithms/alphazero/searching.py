"""Policies that act by tree search with an actor-critic's priors and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.alphazero.ranked_rewards import BAR, RankedGame
from rlrun.algorithms.alphazero.tree_search import BatchedSearch, SearchSettings
from rlrun.nn.acting import ActingNetwork, Floats, Heads
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.weights import Weights
from rlrun.worlds.array_game import ArrayGame, Flags, States

if TYPE_CHECKING:
    from rlrun.nn.observation_leaves import ObservationTree
    from rlrun.policy.action_spaces.action_space import ActionSpace
    from rlrun.policy.exploration.exploration import Exploration


class NetworkPrediction:
    """Predictions of a network for positions: prior probabilities of actions, and the tanh of its value.

    Args:
        network: Its heads are `outputs`, a logit for each action, and `value`.
        game: The game.
    """

    def __init__(self, network: ActingNetwork, game: ArrayGame) -> None:
        self.network = network
        self.game = game

    def __call__(self, states: States, legal: Flags) -> tuple[Floats, Floats]:
        """Returns probabilities of the legal actions [n, A] and values [n] to the movers."""
        heads, _ = self.network({"obs": self.game.observe(states)})
        logits = np.where(legal, heads["outputs"], -np.inf)
        logits -= logits.max(1, keepdims=True)
        probabilities = np.exp(logits)
        probabilities /= probabilities.sum(1, keepdims=True)
        return probabilities, np.tanh(heads["value"][:, 0])


class SearchingNetwork:
    """Acting network whose outputs are log visit counts of a tree search.

    So who takes the largest output takes the most visited action, and who draws by them draws by the visits. The
    positions are those that observations show; a new tree grows for each. There is no noise in it.

    Args:
        prediction: The network, and the game.
        simulations: Simulations of each search; with 0 outputs are the network's own.
        settings: How trees grow.

    Attributes:
        simulations: Simulations of each search from now on.
    """

    state_size = 0

    def __init__(self, prediction: NetworkPrediction, simulations: int, settings: SearchSettings) -> None:
        self.prediction = prediction
        self.simulations = simulations
        self.settings = settings

    def load(self, flat: Floats) -> None:
        """Takes new parameters [A]."""
        self.prediction.network.load(flat)

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Searches from observed positions; rows without legal actions keep the network's outputs."""
        heads, _ = self.prediction.network(inputs)
        if not self.simulations:
            return heads, None
        game = self.prediction.game
        positions = game.positions(inputs["obs"])
        goes_on = ~game.results(positions)[0] & game.legal(positions).any(1)
        if goes_on.any():
            search = BatchedSearch(game, self.prediction, self.settings)
            search.begin(positions[goes_on])
            search.run(self.simulations)
            heads["outputs"][goes_on] = np.log(np.maximum(search.visits, np.float32(1e-9)))
        return heads, None


class SearchingBehavior(BehaviorPolicy):
    """Behavior that acts by tree search, with the prediction for self-play.

    Args:
        network: Searches.
        action_space: Its own actions over the env's.
        exploration: How it departs from the most visited action.
        leaves: The tree of `ObservationLeaf`.

    Attributes:
        prediction: What a search asks of positions.
    """

    def __init__(
        self, network: SearchingNetwork, action_space: ActionSpace, exploration: Exploration, leaves: ObservationTree
    ) -> None:
        super().__init__(network, action_space, exploration, leaves, normalize_observations=False)
        self.prediction = network.prediction
        self._searching = network

    @override
    def search(self, simulations: int) -> None:
        self._searching.simulations = simulations

    @override
    def load(self, weights: Weights) -> None:
        """Takes over weights, and the threshold of ranked rewards."""
        super().load(weights)
        game = self.prediction.game
        if isinstance(game, RankedGame) and BAR in weights.filters:
            game.bar = float(weights.filters[BAR].mean)
