"""Acting by Monte Carlo tree search, with priors and values from an actor-critic network (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.alphazero.ranked_rewards import BAR, RankedGame
from rlrun.algorithms.alphazero.tree_search import BatchedSearch, SearchSettings
from rlrun.engine.nn.acting import ActingNetwork, Floats, Heads
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.worlds.games.array_game import ArrayGame, Flags, States

if TYPE_CHECKING:
    from rlrun.engine.nn.observation_leaves import ObservationTree
    from rlrun.engine.policy.action_spaces.action_space import ActionSpace
    from rlrun.engine.policy.exploration.exploration import Exploration


class NetworkPrediction:
    """Leaf evaluation by a policy-value network: prior probabilities of the actions, and tanh of the value head.

    Args:
        network: Network with the heads `outputs` (logits of the actions) and `value`.
        game: Rules of the game, which also turn positions into observations.
    """

    def __init__(self, network: ActingNetwork, game: ArrayGame) -> None:
        self.network = network
        self.game = game

    def __call__(self, states: States, legal: Flags) -> tuple[Floats, Floats]:
        """Evaluates positions [n]: prior probabilities over legal actions [n, A], and values [n] for the mover."""
        heads, _ = self.network({"obs": self.game.observe(states)})
        logits = np.where(legal, heads["outputs"], -np.inf)
        logits -= logits.max(1, keepdims=True)
        probabilities = np.exp(logits)
        probabilities /= probabilities.sum(1, keepdims=True)
        return probabilities, np.tanh(heads["value"][:, 0])


class SearchingNetwork:
    """Network for action selection whose outputs are the log visit counts of a tree search.

    The greedy action is then the most visited one, and sampling is proportional to the visits. Positions are
    reconstructed from observations; each search begins with an empty tree and has no root noise.

    Args:
        prediction: Policy-value network and game.
        simulations: Number of simulations in each search; with 0, the outputs are the network's logits.
        settings: Settings of the tree search.

    Attributes:
        simulations: Number of simulations in subsequent searches.
    """

    state_size = 0

    def __init__(self, prediction: NetworkPrediction, simulations: int, settings: SearchSettings) -> None:
        self.prediction = prediction
        self.simulations = simulations
        self.settings = settings

    def load(self, flat: Floats) -> None:
        """Loads the flat parameters [num_parameters] of the policy-value network."""
        self.prediction.network.load(flat)

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Log visit counts [B, A] of searches from the observed positions.

        Slots with finished games, or without legal actions, keep the network's logits.
        """
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
    """Behavior policy that acts by Monte Carlo tree search.

    Args:
        network: Network for action selection, which runs the searches.
        action_space: Conversion between policy actions and env actions.
        exploration: Rule that selects actions from log visit counts.
        leaves: Entries of the observation with their encodings: a tree of `ObservationLeaf`.

    Attributes:
        prediction: Leaf evaluation, also used by self-play workers.
    """

    def __init__(
        self, network: SearchingNetwork, action_space: ActionSpace, exploration: Exploration, leaves: ObservationTree
    ) -> None:
        super().__init__(network, action_space, exploration, leaves, normalize_observations=False)
        self.prediction = network.prediction
        self._searching = network

    @property
    @override
    def samples_policy(self) -> bool:
        return False  # actions are sampled from the visit counts of a search

    @override
    def search(self, simulations: int) -> None:
        self._searching.simulations = simulations

    @override
    def load(self, weights: Weights) -> None:
        """Loads weights, and the win threshold of ranked rewards."""
        super().load(weights)
        game = self.prediction.game
        if isinstance(game, RankedGame) and BAR in weights.filters:
            game.bar = float(weights.filters[BAR].mean)
