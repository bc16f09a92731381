"""AlphaZero: a policy-value network learned from self-play with Monte Carlo tree search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge, Le
from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.alphazero.row_replay import RowReplay, RowReplayConfig
from rlrun.algorithms.alphazero.self_play import BroadcastAccepted, MoveBySymmetries, RaiseBar
from rlrun.algorithms.alphazero.self_play_worker import (
    OUTCOMES,
    VISITS,
    SelfPlayConfig,
    SelfPlaySettings,
    draw_actions,
    self_playing,
)
from rlrun.algorithms.alphazero.tree_search import BatchedSearch, Predict, SearchSettings
from rlrun.algorithms.loss_metrics import ENTROPY, GRAD_NORM
from rlrun.algorithms.settings.off_policy import OffPolicyConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.minibatches import TrainOnMinibatch
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import BroadcastWeights
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS
from rlrun.engine.flow.sources.replay_minibatches import replay_minibatches
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.functional.seeding import child_seed, generator
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.learner.optimizers import AdamW
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import WHO_EMBEDS_ACTIONS, FeedForwardModelConfig
from rlrun.engine.replay.local_replay import LocalReplay
from rlrun.engine.settings.config import (
    ConfigModel,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    defaults,
    fixed,
)
from rlrun.engine.settings.metric import Metric
from rlrun.engine.worlds.games.array_game import ArrayGame

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.alphazero.searching import SearchingBehavior
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.policy.weights import Weights
    from rlrun.engine.rollout.worker_config import WorkerConfig
    from rlrun.engine.worlds.world_view import WorldView


class GateConfig(ConfigModel):
    """Settings of the gate: a match that new weights must win before self-play uses them."""

    every: PositiveInt = 2000
    """Env steps between matches of new weights against the accepted ones."""
    games: PositiveInt = 40
    """Games per match; each side moves first in half of them."""
    share: Fraction = 0.55
    """Score, as a fraction of the points, that new weights need against the accepted ones; a draw is half a point."""


class RankedReturnsConfig(ConfigModel):
    """Settings of ranked rewards (R2): the threshold that turns returns of one-player games into wins and losses."""

    percentile: Annotated[float, Ge(0), Le(100)] = 75.0
    """Percentile of the most recent returns that a game's return must reach to count as a win."""
    newest: PositiveInt = 100
    """Number of recent returns over which the percentile is computed."""


@fixed("a search sees only the current position", views={})
@fixed("an action in a game is a single choice", autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("actions are not drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
class SearchModelConfig(FeedForwardModelConfig):
    """Settings of the network for tree search, which predicts prior probabilities of actions and a position's value."""


@fixed("the value of a game is its undiscounted result", gamma=1.0, reward_scale=1.0, clip_rewards=None)
@fixed("rows hold the result of the game, not rewards", n_step=1, target_update_interval=1, tau=1.0)
@fixed("boards are used unscaled", normalize_observations=False)
@defaults(num_envs_per_worker=32, rollout_fragment_length=8, lr=1e-3, max_grad_norm=None, training_intensity=0.25)
@defaults(model={"shared_value": True, "activation": "relu"}, learning_starts=1000, minibatch_size=128)
class AlphaZeroConfig(OffPolicyConfig):
    """Settings of AlphaZero (Silver et al., arXiv:1712.01815, and Nature 550, 2017).

    `num_envs_per_worker` is the number of games that a worker plays in parallel, and `rollout_fragment_length` the
    number of moves in each of these games between two updates. An env step is a move.
    """

    model: SearchModelConfig = SearchModelConfig()
    """Network architecture."""
    replay: RowReplayConfig = RowReplayConfig(capacity=50_000)
    """The replay buffer of positions."""
    simulations: PositiveInt = 50
    """Number of tree search simulations before each move of self-play."""
    evaluation_simulations: NonNegativeInt = 50
    """Number of tree search simulations before each move when evaluating or otherwise acting; 0 acts with the network
    alone, without search."""
    exploration: PositiveFloat = 1.25
    """Exploration constant of PUCT, the papers' c_puct."""
    first_play_reduction: NonNegativeFloat = 0.2
    """First-play urgency reduction: an unvisited action's Q value is the position's predicted value minus this
    number."""
    root_noise: Fraction = 0.25
    """Weight of Dirichlet noise in the root's prior probabilities, in self-play only."""
    root_noise_alpha: PositiveFloat = 0.3
    """Concentration of the Dirichlet noise; usually about 10 divided by the number of legal actions."""
    temperature: PositiveFloat = 1.0
    """Temperature for the first moves of a self-play game, which are sampled in proportion to visits ** (1 /
    temperature)."""
    exploring_moves: NonNegativeInt = 30
    """Number of initial moves of a self-play game that are sampled; later moves are the most visited actions."""
    symmetries: bool = True
    """Data augmentation: whether training positions are transformed by random symmetries of the board."""
    value_coeff: NonNegativeFloat = 1.0
    """Weight of the value loss (squared error)."""
    weight_decay: NonNegativeFloat = 1e-4
    """Decoupled weight decay (AdamW)."""
    gate: GateConfig | None = None
    """Gate of new weights, as in AlphaGo Zero: a match that they must win before self-play uses them; null always uses
    the latest weights."""
    ranked_returns: RankedReturnsConfig | None = None
    """Ranked rewards for one-player games (R2, Laterre et al., arXiv:1807.01672): a game counts as won if its return
    reaches a percentile of recent returns, else as lost. null for games with results between -1 and 1."""

    @model_validator(mode="after")
    def _one_player_or_two(self) -> AlphaZeroConfig:
        if self.gate is not None and self.ranked_returns is not None:
            raise ValueError("gate needs a two-player game and ranked_returns a one-player game; leave one out")
        return self

    @property
    def search(self) -> SearchSettings:
        """Settings of the tree search."""
        return SearchSettings(self.exploration, self.first_play_reduction, self.root_noise, self.root_noise_alpha)


class AlphaZero(Algorithm[AlphaZeroConfig]):
    """AlphaZero: self-play with Monte Carlo tree search guided by a policy-value network (arXiv:1712.01815).

    The env must be a game whose positions can be searched; see `rlrun.engine.worlds.world.World.array_game`.
    """

    Config: ClassVar[type[AlphaZeroConfig]] = AlphaZeroConfig
    acts_in = ("Discrete",)
    policy_family = "rlrun.algorithms.alphazero.policy:SearchingPolicy"
    worker_factory = "rlrun.algorithms.alphazero.self_play_worker:SelfPlayWorker"
    learner_metrics = (
        Metric("policy_loss", "nats", "Cross-entropy between the policy and the search's visit counts", mode="min"),
        Metric("value_loss", "", "Mean squared error between values and game results", mode="min"),
        ENTROPY,
        Metric("visits_entropy", "nats", "Mean entropy of the visit counts, a lower bound of the cross-entropy"),
        GRAD_NORM,
    )

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        gate = () if self.config.gate is None else BroadcastAccepted.declared_metrics
        ranked = () if self.config.ranked_returns is None else RaiseBar.declared_metrics
        return (*REPLAY_METRICS, *gate, *ranked)

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Raises a UsageError: AlphaZero does not support single-agent envs.

        Raises:
            UsageError: Always.
        """
        raise UsageError(_NEEDS_A_GAME)

    @override
    def policy_in_world(self, spaces: Spaces, world: WorldView, seed: int) -> Policy:
        """Creates the policy-value network, which acts by tree search.

        Raises:
            UsageError: The env does not provide a searchable game.
        """
        if world.game is None:
            raise UsageError(_NEEDS_A_GAME)
        if self.config.ranked_returns is not None and world.slots != 1:
            raise UsageError("ranked_returns needs a one-player game, but this world has several players; leave it out")
        return self.family_policy(spaces, seed, world)

    @override
    def worker_config(self, config: WorkerConfig) -> SelfPlayConfig:
        own = self.config
        return self_playing(config, SelfPlaySettings(own.simulations, own.search, own.temperature, own.exploring_moves))

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objective of the learner: AlphaZero's loss, minimized by AdamW."""
        config = self.config
        decayed = AdamW(config.weight_decay)
        return [Objective("loss", self.loss, max_grad_norm=config.max_grad_norm, optimizer=decayed, is_main=True)]

    @override
    def loss(self, outputs: ActorCriticOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """AlphaZero's loss over S positions: cross-entropy to visit counts plus squared value error.

        The loss is (z - v)^2 - pi^T log p, with the game's result z, the predicted value v (the tanh of the value
        head), the visit counts as fractions pi, and the predicted probabilities p (Silver et al., Nature 550, 2017, eq.
        1). The equation's weight decay is applied by the optimizer.
        """
        valid, visits = batch["valid"].float(), batch[VISITS]
        log_probs = outputs.distribution.outputs.log_softmax(-1)
        policy_loss = masked_mean(-(visits * log_probs).sum(-1), valid)
        value_loss = masked_mean((batch[OUTCOMES] - outputs.values.tanh()).square(), valid)
        statistics = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": masked_mean(outputs.distribution.entropy(), valid),
            "visits_entropy": masked_mean(-(visits * visits.clamp(min=1e-9).log()).sum(-1), valid),
        }
        return Loss(policy_loss + self.config.value_coeff * value_loss, statistics)

    @override
    def learn(self, items: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that stores finished games and trains on minibatches of their positions.

        The dataflow trains on `training_intensity` minibatches per position, and sends the weights to the self-play
        workers.
        """
        config = self.config
        replay = LocalReplay(RowReplay(config.replay, child_seed(trainee.seed, "replay")), trainee.workers.indices)
        minibatches = replay_minibatches(
            replay,
            trainee,
            minibatch_size=config.minibatch_size,
            training_intensity=config.training_intensity,
            learning_starts=config.learning_starts,
        )
        if config.symmetries:
            minibatches = minibatches.for_each(MoveBySymmetries(trainee))
        broadcast: BroadcastWeights | BroadcastAccepted = BroadcastWeights(trainee)
        if config.gate is not None:
            play, gate = partial(self._match, trainee, config.gate.games), config.gate
            broadcast = BroadcastAccepted(trainee, play, every=gate.every, share=gate.share)
        if config.ranked_returns is not None:
            ranks = config.ranked_returns
            items = items.for_each(RaiseBar(trainee, percentile=ranks.percentile, newest=ranks.newest))
        return (
            items.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(minibatches.for_each(TrainOnMinibatch(trainee)))
            .for_each(broadcast)
        )

    def _match(self, trainee: Trainee, games: int, new: Weights, accepted: Weights, number: int) -> float:
        """Plays a match without root noise; returns the score of the new weights against the accepted ones."""
        config = self.config
        behaviors: list[SearchingBehavior] = []
        for weights in (new, accepted):
            behavior = trainee.policy.behavior()
            behavior.load(weights)
            behaviors.append(behavior)  # type: ignore[arg-type]
        mine, theirs = (behavior.prediction for behavior in behaviors)
        return points_of(
            mine,
            theirs,
            mine.game,
            games,
            simulations=config.simulations,
            settings=config.search,
            temperature=config.temperature,
            exploring_moves=config.exploring_moves,
            generator=generator(trainee.seed, "gate", number),
        )


_NEEDS_A_GAME = (
    "alphazero needs a game that it can search: a world with array_game() and without wrappers, such as env: "
    "{world: rlrun.toys:TicTacToe}"
)


def points_of(
    mine: Predict,
    theirs: Predict,
    game: ArrayGame,
    games: int,
    *,
    simulations: int,
    settings: SearchSettings,
    temperature: float,
    exploring_moves: int,
    generator: np.random.Generator,
) -> float:
    """Fraction of games that one policy-value network wins against another, with draws counted as half a win.

    Each side moves first in every other game. Both sides use equal search settings, without root noise.

    Args:
        mine: Leaf evaluation (priors and values of positions) by the network that is scored.
        theirs: Leaf evaluation by the opponent.
        game: A game of two players.
        games: Number of games.
        simulations: Number of simulations before each move.
        settings: Settings of the tree search.
        temperature: Temperature for the first moves; see `draw_actions`.
        exploring_moves: Number of initial moves that are sampled; in later moves the most visited action is chosen.
        generator: Random generator for sampling moves.
    """
    states, points, move = game.first(games), 0.0, 0
    side = np.where(np.arange(games) % 2, -1.0, 1.0)  # 1 if `mine` plays first in the game, else -1
    searches = {1: BatchedSearch(game, mine, settings), -1: BatchedSearch(game, theirs, settings)}
    while len(states):
        turns = side * game.movers(states)
        actions = np.zeros(len(states), np.int64)
        heat = temperature if move < exploring_moves else 0.0
        for who, search in searches.items():
            rows = (turns == who).nonzero()[0]
            if len(rows):
                search.begin(states[rows])
                search.run(simulations)
                actions[rows] = draw_actions(search.visits, np.full(len(rows), heat), generator)
        states, move = game.play(states, actions), move + 1
        ended, outcomes = game.results(states)
        points += float(((1 + side * game.movers(states) * outcomes)[ended] / 2).sum())
        states, side = states[~ended], side[~ended]
    return points / games
