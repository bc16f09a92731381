"""Self-play worker of AlphaZero: selects each move by tree search, and returns finished games."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.alphazero.ranked_rewards import RankedGame
from rlrun.algorithms.alphazero.searching import SearchingBehavior
from rlrun.algorithms.alphazero.tree_search import BatchedSearch, SearchSettings
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.vector_env import close_or_warn
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.functional.seeding import child_seed, generator
from rlrun.engine.rollout.rollout import Episode, Rollout
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.worlds.games.array_game import Floats, Indices, States
from rlrun.engine.worlds.make_worlds import make_world

VISITS, OUTCOMES = "visits", "outcomes"
"""Columns of a fragment: normalized visit counts of actions, [N, 1, A], and the mover's result, [N, 1].
"""

RETURNS = "returns"
"""Column of a fragment with ranked rewards, [N, 1]: unranked return in a game's last row, NaN in other rows."""


@dataclass(frozen=True)
class SelfPlaySettings:
    """Settings of self-play.

    Attributes:
        simulations: Number of simulations before each move.
        search: Settings of the tree search.
        temperature: Temperature of sampled moves, with probabilities proportional to visits ** (1 / temperature).
        exploring_moves: Number of initial moves that are sampled; in later moves the most visited action is chosen.
    """

    simulations: int
    search: SearchSettings
    temperature: float
    exploring_moves: int


@dataclass(frozen=True, kw_only=True)
class SelfPlayConfig(WorkerConfig):
    """Config of a self-play worker; picklable.

    Attributes:
        play: Settings of self-play, such as the number of simulations before each move.
    """

    play: SelfPlaySettings


def self_playing(config: WorkerConfig, play: SelfPlaySettings) -> SelfPlayConfig:
    """Creates the config of a self-play worker from a rollout worker's config and the self-play settings."""
    fields = {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}
    return SelfPlayConfig(**fields, play=play)


@dataclass
class _Game:
    """Record of a self-play game: positions, actions and normalized visit counts [A] of each move.

    Attributes:
        number: Index among the worker's games, which determines the initial position.
        returned: Unranked return of the finished game, with ranked rewards.
    """

    number: int
    states: list[States] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    visits: list[NDArray[np.float32]] = field(default_factory=list)
    returned: float = 0.0


class SelfPlayWorker:
    """Worker that plays `num_envs` games in parallel against itself; implements `rlrun.engine.rollout.worker.Worker`.

    For each fragment, the worker plays a fixed number of moves in each of its games, and returns training rows [N, 1]
    of the games that have finished. A row holds the mover's observation, the visit counts and the game's result. Trees
    are reused between moves of a fragment, but not between fragments, since weights may differ. Random numbers are
    seeded by the fragment's index.

    Attributes:
        config: Config of the worker.
    """

    def __init__(self, config: SelfPlayConfig) -> None:
        ((self.policy, behavior),) = config.behaviors.items()
        assert isinstance(behavior, SearchingBehavior)
        self.config = config
        self._behavior = behavior
        self._game = behavior.prediction.game
        world = make_world(config.env)
        self._agents = tuple(world.possible_agents)
        close_or_warn(world.close, config.env.id, "before any episode")
        self._fragment = config.first_fragment
        self._begun = 0
        self._games = [self._begin() for _ in range(config.num_envs)]

    def follow(self, orders: Orders) -> None:
        """Loads broadcast weights for the next fragment."""
        if self.policy in orders.weights:
            self._behavior.load(orders.weights[self.policy])

    def sample(self) -> Rollout:
        """Plays `fragment_length` moves in each parallel game, and returns the finished games."""
        began, config, play = time.perf_counter(), self.config, self.config.play
        draws = generator(config.seed, "self-play", config.worker_index, self._fragment)
        search = BatchedSearch(self._game, self._behavior.prediction, play.search)
        search.begin(np.concatenate([self._position(game) for game in self._games]))
        ended: list[tuple[_Game, float, float]] = []
        for _ in range(config.fragment_length):
            search.run(play.simulations, draws)
            ended += self._move(search, draws)
        self._fragment += 1
        steps = config.fragment_length * config.num_envs
        episodes = [self._episodes(game, outcome * mover) for game, outcome, mover in ended]
        return Rollout(
            worker_index=config.worker_index,
            fragment=self._fragment - 1,
            batches={self.policy: self._rows(ended)},
            env_steps=steps,
            episodes=[
                Episode(sum(own.episode_return for own in players), sum(own.length for own in players))
                for players in episodes
            ],
            agent_steps={self.policy: steps},
            agent_episodes={self.policy: [own for players in episodes for own in players]},
            weights_versions={self.policy: self._behavior.weights_version},
            sample_s=time.perf_counter() - began,
        )

    def _begin(self) -> _Game:
        """Starts the worker's next self-play game."""
        self._begun += 1
        return _Game(self._begun)

    def _first(self, game: _Game) -> States:
        """Initial position of a game by its index, [1, ...]."""
        return self._game.first(1, child_seed(self.config.seed, "game", self.config.worker_index, game.number))

    def _position(self, game: _Game) -> States:
        """Current position of a game, [1, ...]."""
        if not game.actions:
            return self._first(game)
        return self._game.play(np.stack(game.states[-1:]), np.array(game.actions[-1:]))

    def _move(self, search: BatchedSearch, draws: np.random.Generator) -> list[tuple[_Game, float, float]]:
        """Plays a searched move in each game, and replaces finished games with new ones.

        Returns:
            Finished games, each with the result for the player to move, and whether that is the first player (1 or -1).
        """
        visits, states = search.visits, search.states
        shares = visits / visits.sum(1, keepdims=True)
        moves = np.array([len(game.actions) for game in self._games])
        explores = moves < self.config.play.exploring_moves
        actions = draw_actions(visits, np.where(explores, self.config.play.temperature, 0.0), draws)
        for slot, game in enumerate(self._games):
            game.states.append(states[slot])
            game.actions.append(int(actions[slot]))
            game.visits.append(shares[slot])
        search.advance(actions)
        over = search.ended.nonzero()[0]
        if not len(over):
            return []
        outcomes, movers = search.values[over], self._game.movers(search.states[over])
        if isinstance(self._game, RankedGame):
            for slot, returned in zip(over.tolist(), self._game.returns(search.states[over]).tolist(), strict=True):
                self._games[slot].returned = returned
        ended = [
            (self._games[slot], float(outcome), float(mover))
            for slot, outcome, mover in zip(over.tolist(), outcomes, movers, strict=True)
        ]
        for slot in over.tolist():
            self._games[slot] = self._begin()
        search.restart(over, np.concatenate([self._position(self._games[slot]) for slot in over.tolist()]))
        return ended

    def _rows(self, ended: Sequence[tuple[_Game, float, float]]) -> SampleBatch:
        """Training rows of finished games, [N, 1]."""
        positions = [state for game, _, _ in ended for state in game.states]
        states = np.stack(positions) if positions else self._game.first(1)[:0]
        visits = np.array([shares for game, _, _ in ended for shares in game.visits], np.float32)
        seen = self._game.observe(states)
        last = np.array([outcome * mover for game, outcome, mover in ended for _ in game.states], np.float32)
        rows = SampleBatch(
            # The loss expects masks as booleans.
            obs=map_tree(lambda leaf: (leaf != 0 if leaf.dtype == np.int8 else leaf)[:, None], seen),
            visits=visits.reshape(-1, 1, self._game.num_actions),
            outcomes=(last * self._game.movers(states))[:, None],
            valid=np.ones((len(states), 1), np.bool_),
        )
        if isinstance(self._game, RankedGame):
            returns = np.full((len(states), 1), np.nan, np.float32)
            returns[np.cumsum([len(game.states) for game, _, _ in ended], dtype=np.int64) - 1, 0] = [
                game.returned for game, _, _ in ended
            ]
            rows[RETURNS] = returns
        return rows

    def _episodes(self, game: _Game, outcome: float) -> list[Episode]:
        """Episode records of a finished game, one per player."""
        length = len(game.actions)
        if len(self._agents) == 1:
            returned = game.returned if isinstance(self._game, RankedGame) else outcome
            return [Episode(returned, length, agent=self._agents[0])]
        returns = (outcome, -outcome)
        steps = ((length + 1) // 2, length // 2)
        return [
            Episode(own, number, agent=agent) for own, number, agent in zip(returns, steps, self._agents, strict=True)
        ]

    def state(self) -> dict[str, Any]:
        """State for a checkpoint: the fragment's index, and each game's index, actions and visit counts."""
        actions = [np.array(game.actions, np.int64) for game in self._games]
        empty = np.zeros((0, self._game.num_actions), np.float32)
        visits = [np.array(game.visits) if game.visits else empty for game in self._games]
        return {
            "fragment": self._fragment,
            "begun": self._begun,
            "numbers": [game.number for game in self._games],
            "actions": actions,
            "visits": visits,
        }

    def place(self) -> dict[str, Any]:
        """Returns the same state as `state()`, from which a replacement for a lost worker starts."""
        return self.state()

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores the worker from `state()` by replaying the games' moves."""
        self._fragment, self._begun = as_count(state["fragment"]), as_count(state["begun"])
        self._games = []
        for number, actions, visits in zip(state["numbers"], state["actions"], state["visits"], strict=True):
            if visits.shape != (len(actions), self._game.num_actions):
                raise ValueError(f"visits {visits.shape} of {len(actions)} moves")
            game = _Game(as_count(number), visits=list(visits))
            position = self._first(game)
            for action in actions:
                game.states.append(position[0])
                game.actions.append(int(action))
                position = self._game.play(position, np.array([action]))
            self._games.append(game)
        return 0

    def close(self) -> None:
        """Does nothing: there are no envs to close."""


def draw_actions(visits: Floats, temperatures: NDArray[np.float64], generator: np.random.Generator) -> Indices:
    """Samples actions with probabilities proportional to visits ** (1 / temperature); greedy at temperature 0.

    Args:
        visits: Root visit counts, [n, A]; at least one in each row is not 0.
        temperatures: Temperatures, [n].
        generator: Random generator, which advances by the same amount at any temperature.

    Returns:
        Actions, [n], each with at least one visit.
    """
    fractions = generator.random(len(visits))
    warm = temperatures > 0
    exponents = 1.0 / np.where(warm, temperatures, 1.0)
    sums = np.cumsum((visits / visits.max(1, keepdims=True)) ** exponents[:, None], axis=1)
    drawn = (sums > (fractions * sums[:, -1])[:, None]).argmax(1)
    actions: Indices = np.where(warm, drawn, visits.argmax(1))
    return actions
