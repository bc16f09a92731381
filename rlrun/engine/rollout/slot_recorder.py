"""Recording of fragments from multi-agent envs (worlds), with a slot for each agent in its policy's batch.

The module `slot_rows` holds the arrays of a fragment and tracks the agents in the slots; `slot_fragment` fills the
rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import WORLD_STATE, SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.spaces import action_mismatch, first_bad_row
from rlrun.engine.envs.vector_env import EnvError, first_not_finite
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.rollout.action_log import ActionLog
from rlrun.engine.rollout.episode_sums import EpisodeSums
from rlrun.engine.rollout.recorder import AgentRows, Recorded
from rlrun.engine.rollout.rollout import Episode
from rlrun.engine.rollout.slot_fragment import DecisionFragment, PendingSteps, SlotFragment, StepFragment
from rlrun.engine.rollout.slot_rows import RowForm, SlotOwners
from rlrun.engine.rollout.worker_behavior import WorkerBehavior
from rlrun.engine.worlds.make import make_vector_world
from rlrun.engine.worlds.vector_world import VectorWorld, WorldRows

if TYPE_CHECKING:
    from rlrun.engine.envs.tasks import Lessons
    from rlrun.engine.rollout.worker_config import WorkerConfig
    from rlrun.engine.worlds.client_worlds import ClientWorlds

Flags = NDArray[np.bool_]
Floats = NDArray[np.float32]


class SlotRecorder:
    """Recorder that steps several multi-agent envs (worlds); each policy acts for all of its agents in one call.

    Args:
        worlds: Vectorized worlds, which are reset when the first fragment is recorded.
        behaviors: Behavior policies by name.
        seeds: Seeds of the worlds' episodes.
        name: Description for messages: the worlds and their worker.
        length: T, steps of the worlds in a fragment.
        max_replay_s: Maximum seconds that a resumed run spends on repeating the actions of the current episodes.
        names_agents: Whether fragments name the agent and the seed of each row.
        marks_logged: Whether fragments have a column `LOGGED`, for actions not chosen by the policy.

    Attributes:
        slots: Number of slots B in the batch of each policy.
    """

    def __init__(
        self,
        worlds: VectorWorld,
        behaviors: Mapping[str, WorkerBehavior],
        *,
        seeds: EpisodeSeeds,
        name: str,
        length: int,
        max_replay_s: float,
        names_agents: bool = False,
        marks_logged: bool = False,
    ) -> None:
        self.slots: Mapping[str, int] = dict(worlds.slots)
        self._worlds = worlds
        self._seeds = seeds
        self._name = name
        self._length = length
        self._max_replay_s = max_replay_s
        self._policies = {
            policy: RecordedSlots(behaviors[policy], worlds, policy, length, marks_logged) for policy in worlds.slots
        }
        self._names_agents = names_agents
        self._restarted = {policy: np.ones(slots, np.bool_) for policy, slots in worlds.slots.items()}
        self._rows: WorldRows | None = None
        self._sums = EpisodeSums(worlds.num_worlds, worlds.columns)

    def record(self, noise: Mapping[str, Floats]) -> Recorded:
        """Records one fragment of T steps of all multi-agent envs.

        Raises:
            EnvError: A world raised or returned something outside its agents' spaces.
        """
        worlds, length = self._worlds, self._length
        rows = worlds.reset() if self._rows is None else self._rows
        began = worlds.places()
        fragments = {policy: own.begin(rows.states) for policy, own in self._policies.items()}
        stepped, ended = np.empty((2, length, worlds.num_worlds), np.bool_)
        missing_finals = dropped_rewards = 0
        now, env_step_s = time.perf_counter, 0.0
        for t in range(length):
            actions = {
                policy: own.act(t, rows.policies[policy], rows.states, noise[policy][t])
                for policy, own in fragments.items()
            }
            acted = now()
            rows = worlds.step(actions)
            env_step_s += now() - acted
            for policy, taken in rows.taken.items():
                fragments[policy].replace_actions(t, taken)
            stepped[t], ended[t] = rows.stepped, rows.ended
            missing_finals += rows.missing_finals
            dropped_rewards += rows.dropped_rewards
            for policy, own in fragments.items():
                shown = rows.policies[policy]
                if own.take(t, shown):
                    ends = shown.terminateds | shown.truncateds
                    own.owners.note_ends(t, ends, worlds.owners(policy), rows.infos.get(policy, {}))
        self._rows = rows
        lengths = [place.length for place in worlds.places()]
        batches, filled, closing, agent_episodes, agent_rows = {}, {}, {}, {}, {}
        for policy, own in fragments.items():
            agent_episodes[policy] = own.owners.episodes(own.rewards, own.ends, own.acted, own.columns)
            batches[policy], filled[policy], closing[policy] = own.close(rows.policies[policy], rows.states)
            self._policies[policy].keep(own, lengths)
            self._check(policy, own, batches[policy], filled[policy], stepped, began)
            if self._names_agents:
                agent_rows[policy] = [*self._agent_rows(policy, own, batches[policy], filled[policy], stepped, began)]
        restarted = self._restarted
        self._restarted = {policy: np.zeros(slots, np.bool_) for policy, slots in self.slots.items()}
        return Recorded(
            batches=batches,
            filled=filled,
            episodes=self._episodes(fragments, stepped, ended),
            env_steps=int(np.count_nonzero(stepped)),
            agent_episodes=agent_episodes,
            closing=closing,
            missing_finals=missing_finals,
            dropped_rewards=dropped_rewards,
            began=began,
            begins=restarted,
            agent_rows=agent_rows,
            closes={policy: own.closes for policy, own in fragments.items()},
            env_step_s=env_step_s,
            inference_s=sum(own.inference_s for own in fragments.values()),
        )

    def _episodes(self, fragments: Mapping[str, SlotFragment], stepped: Flags, ended: Flags) -> list[Episode]:
        """Accumulates all agents' rewards into the worlds' returns; returns the worlds' finished episodes.

        Args:
            fragments: Fragments by policy.
            stepped: Mask [T, W] of steps; the other entries are resets.
            ended: Mask [T, W] of steps that ended a world's episode.
        """
        length, num_worlds = stepped.shape
        rewards = np.zeros((length, num_worlds))
        columns = {name: np.zeros((length, num_worlds)) for name in self._worlds.columns}
        for own in fragments.values():
            rewards += own.rewards.reshape(length, num_worlds, -1).sum(axis=2)
            for name, column in columns.items():
                column += own.columns[name].reshape(length, num_worlds, -1).sum(axis=2)
        return self._sums.add(rewards, ended, stepped, {}, columns=columns)

    def _agent_rows(
        self,
        policy: str,
        own: SlotFragment,
        batch: SampleBatch,
        filled: Flags,
        stepped: Flags,
        began: Sequence[EpisodePosition],
    ) -> Iterator[AgentRows]:
        """Yields the rows of each agent's episode in each slot; the last row holds its final observation."""
        owners, width = self._worlds.owners(policy), self.slots[policy] // self._worlds.num_worlds
        for slot in range(self.slots[policy]):
            rows = filled[:, slot].nonzero()[0]
            finals = (~batch["valid"][rows, slot]).nonzero()[0]
            for part in np.split(rows, finals + 1):
                if len(part):
                    t, world = own.step_of(int(part[0]), slot), slot // width
                    agent = own.owners.agent_in(slot, max(t - (not own.acted[t, slot]), 0))
                    place = self._seeds.position_after(world, began, ~stepped[:t])
                    yield AgentRows(slot, part, owners[slot] if agent is None else agent, place.seed)

    def _check(
        self,
        policy: str,
        own: SlotFragment,
        batch: SampleBatch,
        filled: Flags,
        stepped: Flags,
        began: Sequence[EpisodePosition],
    ) -> None:
        """Validates observations and rewards of filled rows: finite, and observations within their space.

        Args:
            policy: Name of the policy.
            own: The policy's fragment.
            batch: The fragment's batch.
            filled: Mask [T, B] of entries with an observation.
            stepped: Mask [T, W] of steps; the other entries are resets.
            began: Position of each world before the fragment.
        """
        observed = batch["obs"]
        if (not_finite := first_not_finite(own.rewards)) is not None:
            t, slot = not_finite
            reason = f"the reward must be a finite number, not {own.rewards[t, slot]}"
            self._refuse(policy, slot, own.owners.agent_in(slot, t), stepped[: t + 1], began, reason)
        space = self._worlds.spaces[policy].observation
        shown = np.concatenate([filled, own.closes[None]])
        bad = first_bad_row(space, observed if shown.all() else map_tree(lambda leaf: leaf[shown][:, None], observed))
        if not bad:
            return
        (row, slot), reason = bad
        if not shown.all():
            row, slot = np.argwhere(shown)[row].tolist()
        t = own.step_of(row, slot)
        is_final = t < len(stepped) and not own.acted[t, slot]
        self._refuse(policy, slot, own.owners.agent_in(slot, t - is_final), stepped[:t], began, reason)

    def _refuse(
        self, policy: str, slot: int, agent: str | None, stepped: Flags, began: Sequence[EpisodePosition], reason: str
    ) -> NoReturn:
        """Raises an EnvError for an invalid observation or reward, with the world, agent and step."""
        world = slot // (self.slots[policy] // self._worlds.num_worlds)
        place = self._seeds.position_after(world, began, ~stepped)
        who = self._worlds.owners(policy)[slot] if agent is None else agent
        shown = world + self._seeds.first_slot
        raise EnvError(f"{self._name}, world {shown}, {place}, agent {who!r} of policy {policy}: {reason}")

    def state(self) -> dict[str, Any]:
        """Returns the data for replaying each env's current episode (number, seed, actions), and the returns so far."""
        return self._state(tails=False)

    def place(self) -> dict[str, Any]:
        """Returns `state()` in a short form, sent after each fragment: action logs hold only the newest actions."""
        return self._state(tails=True)

    def _state(self, *, tails: bool) -> dict[str, Any]:
        if self._rows is None:
            return {}
        places = self._worlds.places()
        lengths = [place.length for place in places]
        return {
            "worlds": [
                {
                    "episode": place.episode,
                    "seed": place.seed,
                    "length": place.length,
                    "hash": shown,
                    **self._sums.of(world),
                }
                for world, (place, shown) in enumerate(zip(places, self._worlds.hashes(), strict=True))
            ],
            "policies": {policy: own.state(lengths, tails=tails) for policy, own in self._policies.items()},
        }

    def load_state(self, state: Mapping[str, Any]) -> dict[str, Flags]:
        """Restores the multi-agent envs (worlds) from the result of `state()`, by repeating their episodes' actions.

        Raises:
            ValueError: The state is malformed, or has a different number of worlds or slots.
        """
        num_worlds = self._worlds.num_worlds
        if not state:
            return {policy: np.zeros(slots, np.bool_) for policy, slots in self.slots.items()}
        saved = state["worlds"]
        if len(saved) != num_worlds:
            raise ValueError(f"the run has {num_worlds} worlds, but {len(saved)} were saved")
        places = [
            EpisodePosition(as_count(own["episode"]), as_count(own["seed"]), as_count(own["length"])) for own in saved
        ]
        taken: list[dict[str, Any]] = [{} for _ in places]
        for policy, own in self._policies.items():
            joint = own.joint_actions(state["policies"][policy], places, self._worlds.spaces[policy].action)
            for world, actions in enumerate(joint):
                taken[world][policy] = actions
        self._rows, exact = self._worlds.restore(places, taken, [own["hash"] for own in saved], self._max_replay_s)
        kept = np.array(exact, np.bool_)
        self._sums.load(saved, kept)
        restarted = {}
        for policy, own in self._policies.items():
            restarted[policy] = np.repeat(~kept, self.slots[policy] // num_worlds)
            own.load_state(state["policies"][policy], ~restarted[policy])
        self._restarted = restarted
        return restarted

    def close(self) -> None:
        """Closes the multi-agent worlds."""
        self._worlds.close()


class RecordedSlots:
    """Memory of one policy's recorder between two fragments: its agents, their past actions and unfinished steps.

    Args:
        behavior: The policy that acts.
        worlds: The multi-agent envs.
        policy: Name of the policy.
        length: T, steps in a fragment.
        marks_logged: Whether fragments have a column `LOGGED`, for actions not chosen by the policy.

    Attributes:
        behavior: The policy that acts.
        owners: Tracks the agents that act in the slots.
    """

    def __init__(
        self, behavior: WorkerBehavior, worlds: VectorWorld, policy: str, length: int, marks_logged: bool
    ) -> None:
        self.behavior = behavior
        self.owners = SlotOwners(worlds.slots[policy], worlds.columns)
        self._form = RowForm(
            behavior, worlds.spaces[policy].observation, length, worlds.slots[policy], worlds.columns, marks_logged
        )
        self._fragment = StepFragment if worlds.clock == "parallel" else DecisionFragment
        self._carried = PendingSteps.none(self._form.slots)
        self._log = ActionLog() if worlds.replays else None

    def begin(self, states: NDArray[Any] | None) -> SlotFragment:
        """Begins the next fragment; `states` are the envs' global states [W, ...] before its first step, if any."""
        return self._fragment(self._form, self.owners, states, self._carried)

    def keep(self, closed: SlotFragment, lengths: Sequence[int]) -> None:
        """Stores the steps left unfinished by a fragment, and its actions, with which a resumed run replays episodes.

        Args:
            closed: The complete fragment.
            lengths: Length so far of the episode in each of W multi-agent envs, [W].
        """
        self._carried = closed.carried
        if self._log is None:
            return
        if self._log.append(closed.actions_by_step()):
            self._log.trim(max(lengths))

    def state(self, lengths: Sequence[int], *, tails: bool) -> dict[str, Any]:
        """Returns each slot's return and length so far, unfinished step, and actions since the env's last reset."""
        state = self.owners.state()
        if self._log is not None:
            of_slots = np.repeat(lengths, self._form.slots // len(lengths)).tolist()
            state["actions"] = self._log.tails(of_slots) if tails else self._log.latest(of_slots)
        if self._fragment is DecisionFragment:
            carries = self._carried.slots
            state |= {"carries": carries.copy(), "carried": self._carried.columns if carries.any() else {}}
        return state

    def joint_actions(self, state: Mapping[str, Any], places: Sequence[EpisodePosition], space: Any) -> list[Any]:
        """Returns, for each multi-agent env, the env actions of the policy's agents since the env's last reset.

        Raises:
            ValueError: The state does not fit the slots, the episodes' lengths or the action space.
        """
        if self._log is None:
            return [{}] * len(places)
        saved = [np.asarray(own) for own in state["actions"]]
        if len(saved) != self._form.slots:
            raise ValueError(f"the run has {self._form.slots} slots, but {len(saved)} were saved")
        width, joint = self._form.slots // len(places), []
        for world, place in enumerate(places):
            own = np.stack(saved[world * width : (world + 1) * width], axis=1)
            if len(own) != place.length:
                raise ValueError(f"{len(own)} actions of world {world} were saved instead of {place.length}")
            actions = self.behavior.action_space.to_env(own.reshape(place.length * width, *own.shape[2:]))
            if reason := action_mismatch(space, actions, place.length * width):
                raise ValueError(reason)
            joint.append(map_tree(lambda leaf, n=place.length: leaf.reshape(n, width, *leaf.shape[1:]), actions))
        return joint

    def load_state(self, state: Mapping[str, Any], kept: Flags) -> None:
        """Restores the slots from the result of `state()`; drops unfinished steps in envs that could not be restored.

        Args:
            state: Result of `state()`.
            kept: Mask [B] of the slots whose env was restored; the other slots start new episodes.
        """
        self.owners.load_state(state, kept)
        if self._log is not None:
            self._log.load([np.asarray(own) for own in state["actions"]])
        if self._fragment is DecisionFragment:
            carries = np.array(state["carries"], np.bool_)
            still = kept[carries]
            columns = map_tree(lambda leaf: np.asarray(leaf)[still], state["carried"])
            self._carried = PendingSteps(carries & kept, columns)


def slot_recorder(
    config: WorkerConfig, lessons: Lessons | None, *, names_agents: bool
) -> tuple[SlotRecorder, Watched, ClientWorlds | None]:
    """Creates a worker's multi-agent envs (worlds), their recorder, and a watchdog for endless episodes.

    Also returns the worlds that are stepped by external programs (clients), if there are any.

    Args:
        config: Settings of the worker.
        lessons: Keyword arguments of the worlds that a curriculum sets; None without a curriculum.
        names_agents: Whether fragments name the agent and the seed of each row.
    """
    assert config.mapping is not None
    seeds, external = replace(config.seeds, episodes_per_seed=1), config.env.external
    worlds = make_vector_world(
        config.env,
        config.num_envs,
        seeds,
        config.mapping,
        config.slots,
        config.first_episodes,
        lessons=lessons,
        with_states=any(WORLD_STATE in behavior.collector.world_columns for behavior in config.behaviors.values()),
    )
    recorder = SlotRecorder(
        worlds,
        config.behaviors,
        seeds=seeds,
        name=config.env_name,
        length=config.fragment_length,
        max_replay_s=config.env.max_replay_s,
        names_agents=names_agents,
        marks_logged=external is not None and external.logged_actions == "mask",
    )
    clients = None if external is None else cast("ClientWorlds", worlds)
    return recorder, Watched(config.env_name, worlds.places), clients
