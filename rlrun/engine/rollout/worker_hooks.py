"""Calls of users' hooks (callbacks) by a rollout worker, made after each fragment for all its steps and episodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlrun.engine.data.tree import map_tree
from rlrun.engine.hook import EPISODE_EVENTS, WORKER_EVENTS, EpisodeStep, Fragment, RunningEpisode
from rlrun.engine.rollout.hook_answers import HookAnswers, HookInstances

if TYPE_CHECKING:
    from rlrun.engine.rollout.raw_rows import RawRows, Stream
    from rlrun.engine.rollout.recorder import Recorded
    from rlrun.engine.rollout.worker_config import WorkerConfig


class WorkerHooks:
    """Calls users' hooks for the steps, episodes and fragments of a rollout worker.

    After each fragment, hooks are called for the steps of one env slot after another, each slot's in chronological
    order.

    Args:
        config: Settings of the worker.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self._columns = config.env.columns
        self._worker = config.worker_index
        self._name = f"env {config.env.id}: worker {config.worker_index}"
        stream = (config.worker_index, config.first_fragment)
        self._hooks = HookInstances(config.hooks, WORKER_EVENTS, config.seed, *stream)
        self._running: dict[str, RunningEpisode] = {}

    @property
    def needs_rows(self) -> bool:
        """Whether a hook subscribes to events of steps or episodes, for which the fragment's raw rows are needed."""
        return not self._hooks.events.isdisjoint(EPISODE_EVENTS)

    def take(self, fragment: int, recorded: Recorded, raw: Mapping[str, RawRows]) -> HookAnswers:
        """Calls the hooks for all steps and episodes of a fragment, and returns their metrics and stop reasons.

        Args:
            fragment: Index of the fragment among the worker's fragments.
            recorded: The fragment.
            raw: Raw rows of each policy; empty if no hook subscribes to events of episodes.

        Raises:
            TrainingFailed: A hook raises, or returns neither metrics nor a stop reason.
        """
        answers = HookAnswers()
        for policy, rows in raw.items():
            for stream in rows.streams():
                self._take_rows(answers, policy, stream)
        if "on_fragment" in self._hooks.events:
            counts = Fragment(self._worker, fragment, recorded.env_steps, len(recorded.episodes))
            self._hooks.deliver(answers, "on_fragment", lambda: f"{self._name}, fragment {fragment}", counts)
        return answers

    def _take_rows(self, answers: HookAnswers, policy: str, stream: Stream) -> None:
        """Delivers the events of a slot's next rows to the hooks."""
        slot, rows, agent, begins = stream
        key = f"{policy}/{slot}"
        if begins:
            self._running.pop(key, None)
        rows = {name: map_tree(_read_only, column) for name, column in rows.items()}
        ends = rows["terminateds"] | rows["truncateds"]
        for part in _steps_of_episodes(rows["valid"], ends):
            first, last = int(part[0]), int(part[-1])
            if key not in self._running:
                episode = self._running[key] = RunningEpisode(slot, int(rows["seed"][first]), policy, agent)
                self._deliver(answers, "on_episode_start", episode, _row(rows["obs"], first))
            self._take_steps(answers, self._running[key], rows, part)
            if ends[last]:
                self._deliver(answers, "on_episode_end", self._running.pop(key))

    def _take_steps(
        self, answers: HookAnswers, episode: RunningEpisode, rows: Mapping[str, Any], part: Sequence[int]
    ) -> None:
        """Counts an episode's next steps, and delivers their events to the hooks."""
        for t in part:
            episode.length += 1
            episode.episode_return += float(rows["rewards"][t])
            if "on_episode_step" in self._hooks.events:
                step = EpisodeStep(
                    observation=_row(rows["obs"], t),
                    action=_row(rows["actions"], t),
                    reward=float(rows["rewards"][t]),
                    next_observation=_row(rows["obs"], t + 1),
                    terminated=bool(rows["terminateds"][t]),
                    truncated=bool(rows["truncateds"][t]),
                    columns={name: float(rows[name][t]) for name in self._columns},
                )
                self._deliver(answers, "on_episode_step", episode, step)

    def _deliver(self, answers: HookAnswers, event: str, episode: RunningEpisode, *arguments: Any) -> None:
        if event in self._hooks.events:
            self._hooks.deliver(answers, event, self._place_of(episode), episode, *arguments)

    def _place_of(self, episode: RunningEpisode) -> Callable[[], str]:
        def place() -> str:
            agent = f", agent {episode.agent!r} of policy {episode.policy}" if episode.agent else ""
            where = f"{self._name}, {'slot' if agent else 'env'} {episode.slot}{agent}"
            return f"{where}, seed {episode.seed}, step {episode.length}"

        return place

    def state(self) -> dict[str, Any]:
        """Returns the state of the hooks and of the episodes in progress, for checkpoints."""
        running = {key: dataclasses.asdict(episode) for key, episode in self._running.items()}
        return {"hooks": self._hooks.state(), "running": running}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the hooks and the episodes in progress from the result of `state()`."""
        self._hooks.load_state(state["hooks"])
        self._running = {str(key): RunningEpisode(**episode) for key, episode in state["running"].items()}


def _steps_of_episodes(valid: Any, ends: Any) -> Iterator[list[int]]:
    """Yields, for each episode, the indices of the rows that hold its steps.

    Args:
        valid: Mask [N] of the rows with a step.
        ends: Mask [N] of the rows whose step ended an episode.
    """
    steps = np.flatnonzero(valid)
    for part in np.split(steps, np.flatnonzero(ends[steps]) + 1):
        if len(part):
            yield part.tolist()


def _read_only(leaf: Any) -> Any:
    view = leaf.view()
    view.flags.writeable = False
    return view


def _row(tree: Any, t: int) -> Any:
    """Returns row t of a tree of arrays [N, ...]."""
    return map_tree(lambda leaf: leaf[t], tree)
