"""Evaluation worker of evolution strategies: runs episodes of candidates in parallel, and reports returns."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.evolution.box_mean import BoxMeanActions
from rlrun.algorithms.evolution.candidates import EvaluationWorkerConfig, Returns
from rlrun.algorithms.evolution.exact_sums import ExactSums
from rlrun.algorithms.evolution.population_network import PopulationNetwork
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env
from rlrun.engine.envs.vector_env import refuse_bad_observations
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.rollout.endless_episodes import EpisodeWatchdog
from rlrun.engine.rollout.episode_sums import numbers_in
from rlrun.engine.rollout.rollout import Episode, Rollout
from rlrun.engine.rollout.worker import Orders

SUMMED_AT_ONCE = 1024
"""Number of steps whose observations are buffered before they are added to the sums."""


class EvaluationWorker:
    """Worker that evaluates its share of the candidates; implements `rlrun.engine.rollout.worker.Worker`.

    Each of its parallel envs runs one episode of a candidate at a time, and then starts the next. Returns depend only
    on the candidate and the episode seed, not on the worker.
    """

    def __init__(self, config: EvaluationWorkerConfig) -> None:
        assert config.candidates is not None
        self.config = config
        self.candidates = config.candidates
        self.generation = config.first_fragment
        ((self.policy, behavior),) = config.behaviors.items()
        assert isinstance(behavior, BehaviorPolicy)
        self.env = make_vector_env(config.env, config.num_envs, EpisodeSeeds(config.seed, config.worker_index))
        self.networks = PopulationNetwork(behavior.unmasked_network, config.num_envs)
        self.behavior = behavior.with_network(self.networks)
        space = behavior.action_space
        self.space = space if config.measures_overshoots and isinstance(space, BoxMeanActions) else None
        self._name = f"env {config.env.id}: worker {config.worker_index}"
        self._watched = Watched(self._name, self.env.places)
        self._awaited = EpisodeWatchdog(self._name, config.env.max_episode_steps)
        self._has_begun = False

    def follow(self, orders: Orders) -> None:
        """Stores broadcast weights for the next generation."""
        if self.policy in orders.weights:
            self.weights = orders.weights[self.policy]

    def sample(self) -> Rollout:
        """Evaluates the candidates of a generation that are assigned to this worker.

        Raises:
            EnvError: The env raised an exception, or an episode does not end.
        """
        config, total = self.config, self.candidates.number
        share = range(max(config.worker_index - 1, 0), total, config.num_workers)
        self.behavior.filter.load(self.weights.filters)
        with self._watched:
            if not self._has_begun:
                self.env.reset()
                self._has_begun = True
            jobs = [(candidate, i) for candidate in share for i in range(config.episodes)]
            overshoots = _Overshoots(self.space, len(jobs), config.num_envs)
            episodes, seen = self._run(jobs, overshoots)
        returns = np.array([episode.episode_return for episode in episodes]).reshape(-1, config.episodes)
        self.generation += 1
        beyond = None if self.space is None else overshoots.of_jobs.reshape(-1, config.episodes).mean(-1)
        found = Returns(self.generation - 1, np.array(share, np.int32), returns.mean(-1), seen, beyond)
        return Rollout(
            worker_index=config.worker_index,
            fragment=self.generation - 1,
            batches={self.policy: found},
            env_steps=sum(episode.length for episode in episodes),
            episodes=episodes,
            weights_versions={self.policy: self.weights.version},
        )

    def _run(self, jobs: list[tuple[int, int]], overshoots: _Overshoots) -> tuple[list[Episode], dict[str, ExactSums]]:
        """Runs an episode per pair of candidate and episode index; returns the episodes in this order."""
        slots = self.config.num_envs
        waiting = deque(range(len(jobs)))
        job = np.full(slots, -1)
        done: list[Episode | None] = [None] * len(jobs)
        sums, steps = np.zeros(slots), np.zeros(slots, np.int64)
        columns = {name: np.zeros(slots) for name in self.env.columns}
        seen = _ObservationSums(self.behavior)
        observations: Any = None
        free = list(range(slots))
        while True:
            begun = [(slot, waiting.popleft()) for slot in free[: len(waiting)]]
            if begun:
                for slot, number in begun:
                    job[slot] = number
                    self.networks.load_one(slot, self._parameters(jobs[number][0]))
                observations = self.env.begin(*zip(*[(s, self._seed(*jobs[n])) for s, n in begun], strict=True))
                starts = np.zeros(slots, np.bool_)
                starts[[slot for slot, _ in begun]] = True
                self.behavior.begin_episodes(starts)
            lives = job >= 0
            if not lives.any():
                break
            refuse_bad_observations(self.env, observations, self._name)
            seen.add(observations, lives)
            chosen = self.behavior.chosen(observations, None)
            overshoots.add(chosen, lives)
            actions = self.behavior.action_space.to_env(chosen)
            observations, rewards, terminateds, truncateds, infos = self.env.step(actions)
            sums += np.where(lives, rewards, 0.0)
            steps += lives
            for name, latest in self.env.columns.items():
                columns[name] += np.where(lives, latest, 0.0)
            self._awaited.look(int(steps.max()))
            free = np.flatnonzero((terminateds | truncateds) & lives).tolist()
            for slot in free:
                of_columns = {name: float(own[slot]) for name, own in columns.items()}
                info = numbers_in(infos.get(slot, {}))
                done[job[slot]] = Episode(float(sums[slot]), int(steps[slot]), info, columns=of_columns)
                overshoots.end(slot, job[slot], int(steps[slot]))
                job[slot], sums[slot], steps[slot] = -1, 0.0, 0
                for own in columns.values():
                    own[slot] = 0.0
        return [episode for episode in done if episode is not None], seen.sums()

    def _parameters(self, candidate: int) -> NDArray[np.float32]:
        return self.candidates.parameters(self.weights, self.config.seed, self.generation, candidate)

    def _seed(self, candidate: int, number: int) -> int:
        shared = self.candidates.episode_of(candidate)
        return child_seed(self.config.seed, "episode", self.generation, shared, number) >> 32

    def state(self) -> dict[str, Any]:
        """State for a checkpoint: the generation's index, which determines all seeds."""
        return {"generation": self.generation, "unsaved": []}

    def place(self) -> dict[str, Any]:
        """State from which a lost worker is restarted: the generation's index."""
        return self.state()

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores the generation's index from `state()`."""
        self.generation = as_count(state["generation"])
        return 0

    def close(self) -> None:
        """Closes the envs."""
        self.env.close()


class _Overshoots:
    """Mean squared overshoot of the actions over the bounds, per episode.

    Args:
        space: Action space that measures overshoots; None for no measurement.
        jobs: Number of episodes.
        slots: Number of env slots.

    Attributes:
        of_jobs: Mean squared overshoot of each episode, [jobs].
    """

    def __init__(self, space: BoxMeanActions | None, jobs: int, slots: int) -> None:
        self.of_jobs = np.zeros(jobs)
        self._space = space
        self._sums = np.zeros(slots)

    def add(self, chosen: Any, lives: NDArray[np.bool_]) -> None:
        """Accumulates the overshoots of one step's actions [envs, action_size] in running episodes."""
        if self._space is not None:
            self._sums += np.where(lives, self._space.overshoots(chosen), 0.0)

    def end(self, slot: int, job: int, steps: int) -> None:
        """Stores the mean overshoot of a finished episode, and resets the slot."""
        self.of_jobs[job] = self._sums[slot] / steps
        self._sums[slot] = 0.0


class _ObservationSums:
    """Sums of raw observations and their squares, for the observation filter."""

    def __init__(self, behavior: BehaviorPolicy) -> None:
        self._filter = behavior.filter
        self._kept: dict[str, list[NDArray[Any]]] = {}
        self._steps = 0
        self._sums: dict[str, ExactSums] = {}

    def add(self, observations: Any, lives: NDArray[np.bool_]) -> None:
        """Accumulates one step's observations of running episodes, [envs, ...]."""
        if not self._filter.is_on:
            return
        for name, column in self._filter.columns(observations).items():
            self._kept.setdefault(name, []).append(column[lives])
        self._steps += 1
        if self._steps == SUMMED_AT_ONCE:
            self._sum_up()

    def sums(self) -> dict[str, ExactSums]:
        """Accumulated sums, by the column names of the observation filter."""
        self._sum_up()
        return self._sums

    def _sum_up(self) -> None:
        for name, rows in self._kept.items():
            own = ExactSums.of(np.concatenate(rows))
            self._sums[name] = self._sums[name].merged(own) if name in self._sums else own
        self._kept, self._steps = {}, 0
