"""Records fragments of worlds of many agents: each agent owns a slot of its policy's batch from birth to death.

With the clock `parallel` a row is a step of the worlds. With `per_agent` a row is an agent's own decision: each slot
has a cursor, and a step stays open until its agent is shown the next observation or ends. What it is given until then
is its reward. A step that is still open at the end of a fragment is carried into the next one, with what was recorded
of it and the version of the weights that chose it.

A fragment takes T steps of the worlds with either clock, so that no slot has more than T rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import ACTS, CLOSING_COLUMNS, EPISODE_STEPS, WORLD_STATE, SampleBatch
from rlrun.data.tree import leaves, map_tree
from rlrun.data.views import NOT_SHOWN
from rlrun.envs.episode_place import EpisodePlace, EpisodeSeeds
from rlrun.envs.spaces import action_misfit, empty_batch, first_bad_row
from rlrun.envs.vector_env import EnvError, first_not_finite
from rlrun.functional.saved_numbers import as_count
from rlrun.rollout.action_log import ActionLog
from rlrun.rollout.episode_sums import EpisodeSums
from rlrun.rollout.phases import ENV_STEP, INFERENCE, Timed
from rlrun.rollout.recorder import Recorded, record_row
from rlrun.rollout.rollout import Episode
from rlrun.rollout.worker_behavior import WorkerBehavior
from rlrun.worlds.vector_world import SlotRows, VectorWorld, WorldRows

Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]
Floats = NDArray[np.float32]

NO_ROW = -1


class SlotRecorder:
    """Steps worlds side by side, and asks each behavior policy once per step for all slots that act.

    Args:
        worlds: The worlds; they are reset when the first fragment is recorded.
        behaviors: What acts, by policy.
        seeds: Where the seeds of the worlds' episodes come from.
        name: What messages call the worlds, with their worker.
        length: T, steps of the worlds in a fragment.
        max_replay_s: Seconds that a return to saved places may take.

    Attributes:
        slots: B, slots in a batch, by policy.
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
    ) -> None:
        self.slots: Mapping[str, int] = dict(worlds.slots)
        self._worlds = worlds
        self._seeds = seeds
        self._name = name
        self._length = length
        self._max_replay_s = max_replay_s
        kind = _ParallelSlots if worlds.clock == "parallel" else _PerAgentSlots
        self._policies = {policy: kind(behaviors[policy], worlds, policy, length) for policy in worlds.slots}
        self._rows: WorldRows | None = None
        self._sums = EpisodeSums(worlds.num_worlds, worlds.columns)

    def record(self, noise: Mapping[str, Floats], timed: Timed) -> Recorded:
        """Records one fragment, as `Recorder.record` says.

        Raises:
            EnvError: A world raised or returned something outside its agents' spaces.
        """
        worlds, length, policies = self._worlds, self._length, self._policies
        rows = worlds.reset() if self._rows is None else self._rows
        began = worlds.places()
        step = timed(ENV_STEP, worlds.step)
        acts = {policy: timed(INFERENCE, own.behavior.act) for policy, own in policies.items()}
        for own in policies.values():
            own.begin(rows)
        stepped, ended = np.empty((2, length, worlds.num_worlds), np.bool_)
        missing_finals = dropped_rewards = 0
        for t in range(length):
            actions = {
                policy: own.act(t, rows.policies[policy], rows.states, acts[policy], noise[policy][t])
                for policy, own in policies.items()
            }
            rows = step(actions)
            stepped[t], ended[t] = rows.stepped, rows.ended
            missing_finals += rows.missing_finals
            dropped_rewards += rows.dropped_rewards
            for policy, own in policies.items():
                if own.take(t, rows.policies[policy]):
                    own.note_ends(t, worlds.owners(policy), rows.infos.get(policy, {}))
        self._rows = rows
        rewards = np.zeros((length, worlds.num_worlds))
        columns = {name: np.zeros((length, worlds.num_worlds)) for name in worlds.columns}
        for own in policies.values():
            rewards += own.rewards.reshape(length, worlds.num_worlds, -1).sum(axis=2)
            for name, column in columns.items():
                column += own.columns[name].reshape(length, worlds.num_worlds, -1).sum(axis=2)
        lengths = [place.length for place in worlds.places()]
        batches, filled, closing, agent_episodes = {}, {}, {}, {}
        for policy, own in policies.items():
            agent_episodes[policy] = own.episodes()
            batches[policy], filled[policy], closing[policy] = own.end(rows.policies[policy], rows.states, lengths)
            self._check(policy, batches[policy], filled[policy], stepped, began)
        return Recorded(
            batches=batches,
            filled=filled,
            episodes=self._sums.add(rewards, ended, stepped, {}, columns=columns),
            env_steps=int(np.count_nonzero(stepped)),
            agent_episodes=agent_episodes,
            closing=closing,
            missing_finals=missing_finals,
            dropped_rewards=dropped_rewards,
        )

    def _check(
        self, policy: str, batch: SampleBatch, filled: Flags, stepped: Flags, began: Sequence[EpisodePlace]
    ) -> None:
        """Refuses what cannot be learned from; slots that show nothing are not looked at.

        Args:
            policy: Whose batch.
            batch: It.
            filled: Which rows show an observation, [T, B].
            stepped: Which worlds took a step, [T, W]; the others were reset.
            began: Where each world was before the fragment.
        """
        own, observed = self._policies[policy], batch["obs"]
        if (not_finite := first_not_finite(own.rewards)) is not None:
            t, slot = not_finite
            reason = f"the reward must be a finite number, not {own.rewards[t, slot]}"
            self._refuse(policy, slot, own.agent_in(slot, t), stepped[: t + 1], began, reason)
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
        self._refuse(policy, slot, own.agent_in(slot, t - is_final), stepped[:t], began, reason)

    def _refuse(
        self, policy: str, slot: int, agent: str | None, stepped: Flags, began: Sequence[EpisodePlace], reason: str
    ) -> NoReturn:
        """Raises for what a slot of a policy was shown behind the fragment's first t steps, [t, W]."""
        world = slot // (self.slots[policy] // self._worlds.num_worlds)
        place = self._seeds.place_after(world, began[world], ~stepped[:, world])
        who = self._worlds.owners(policy)[slot] if agent is None else agent
        raise EnvError(f"{self._name}, world {world}, {place}, agent {who!r} of policy {policy}: {reason}")

    def state(self) -> dict[str, Any]:
        """Returns where each world is, as (episode, seed, joint actions since its reset), and each slot's books."""
        return self._state(tails=False)

    def place(self) -> dict[str, Any]:
        """Returns what `state` returns behind a fragment; of the actions only the fragment's, as a `LogTail`."""
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
        """Returns to where a recorder was, as `Recorder.load_state` says.

        Raises:
            ValueError: If this is no state of so many worlds and slots.
        """
        num_worlds = self._worlds.num_worlds
        if not state:
            return {policy: np.zeros(slots, np.bool_) for policy, slots in self.slots.items()}
        saved = state["worlds"]
        if len(saved) != num_worlds:
            raise ValueError(f"there are {num_worlds} worlds, not {len(saved)}")
        places = [
            EpisodePlace(as_count(own["episode"]), as_count(own["seed"]), as_count(own["length"])) for own in saved
        ]
        taken: list[dict[str, Any]] = [{} for _ in places]
        for policy, own in self._policies.items():
            joint = own.joint_actions(state["policies"][policy], places, self._worlds.spaces[policy].action)
            for world, actions in enumerate(joint):
                taken[world][policy] = actions
        self._rows, exact = self._worlds.restore(places, taken, [own["hash"] for own in saved], self._max_replay_s)
        kept = np.array(exact, np.bool_)
        self._sums.load(saved, kept)
        anew = {}
        for policy, own in self._policies.items():
            anew[policy] = np.repeat(~kept, self.slots[policy] // num_worlds)
            own.load_state(state["policies"][policy], ~anew[policy])
        return anew

    def close(self) -> None:
        """Frees what the worlds hold."""
        self._worlds.close()


class _ParallelSlots:
    """The slots of one policy, a row for each step of the worlds.

    Args:
        behavior: What acts.
        worlds: The worlds.
        policy: Name of the policy.
        length: T.

    Attributes:
        behavior: What acts.
        rewards: What each slot's agent was given in each step of this fragment, [T, B].
        columns: Numbers of its infos by name, likewise, each [T, B].
        closes: Which slots have an observation in the closing row of the last fragment, [B].
    """

    def __init__(self, behavior: WorkerBehavior, worlds: VectorWorld, policy: str, length: int) -> None:
        self.behavior = behavior
        self.num_slots = slots = worlds.slots[policy]
        self.length = length
        self.per_world = slots // worlds.num_worlds
        self.world_state: NDArray[Any] | None = None
        self.batch = SampleBatch()
        self.just_ended = np.zeros(slots, np.bool_)
        self.rewards = np.zeros((length, slots))
        self.columns = {name: np.zeros((length, slots)) for name in worlds.columns}
        self.closes = np.zeros(slots, np.bool_)
        self._space = worlds.spaces[policy].observation
        self._sums = EpisodeSums(slots, worlds.columns)
        self._log = ActionLog()
        nothing = self.batch_of_nothing()
        self._idle = behavior.env_actions(nothing["actions"][0])

    def batch_of_nothing(self) -> SampleBatch:
        """Returns the columns of a fragment in which nobody acts, all zeros but values, which are NaN."""
        batch = self.behavior.allocate_fragment(self.length, self.num_slots)
        for name, column in batch.items():
            if name not in CLOSING_COLUMNS:
                for leaf in leaves(column):
                    leaf.fill(0)
        return batch

    def begin(self, rows: WorldRows) -> None:
        """Begins a fragment."""
        length, slots = self.length, self.num_slots
        self.batch = self.batch_of_nothing()
        if WORLD_STATE in self.behavior.world_columns:
            states = rows.states
            assert states is not None  # the policy was built for a world that has states
            self.world_state = np.zeros((length + 1, slots, *states.shape[1:]), states.dtype)
            self.batch[WORLD_STATE] = self.world_state
        self.observed = map_tree(
            lambda leaf: np.zeros((length + 1, *leaf.shape), leaf.dtype), empty_batch(self._space, slots)
        )
        self.rewards = np.zeros((length, slots))
        self.columns = {name: np.zeros((length, slots)) for name in self.columns}
        self.acted, self.terminateds, self.truncateds = np.zeros((3, length, slots), np.bool_)
        self.filled = np.zeros((length, slots), np.bool_)
        self._infos: dict[tuple[int, int], dict[str, Any]] = {}
        self._agents: dict[tuple[int, int], str] = {}

    def act(self, t: int, rows: SlotRows, states: NDArray[Any] | None, act: Any, noise: Floats) -> Any:
        """Acts, and records the step; returns actions for the worlds, [B, ...].

        The policy is asked about final observations too: what it makes of them closes the steps before.
        """
        self.acted[t] = rows.acts
        shown = rows.acts | self.just_ended
        self.filled[t] = shown
        if shown.all():
            record_row(self.observed, t, rows.observations)
            if self.world_state is not None:
                self.world_state[t] = self.of_slots(states)
            return act(rows.observations, noise, self.batch, t, rows.starts)
        if not shown.any():
            return self._idle
        self.see(t, rows.observations, states, shown)
        return act(rows.observations, noise, self.batch, t, rows.starts, shown)

    def see(self, t: Any, observations: Any, states: NDArray[Any] | None, shown: Any) -> None:
        """Records what slots that show an observation see, in row t or in a row for each of them; the rest stays zeros.

        Args:
            t: The row or rows.
            observations: Leaves [B, ...].
            states: The worlds' states, [W, ...], where the policy records them.
            shown: Which slots, [B] or numbers of slots.
        """
        for leaf, observed in zip(leaves(self.observed), leaves(observations), strict=True):
            leaf[t, shown] = observed[shown]
        if self.world_state is not None:
            self.world_state[t, shown] = self.of_slots(states)[shown]

    def of_slots(self, states: NDArray[Any] | None) -> NDArray[Any]:
        """Returns the worlds' states [W, ...] for each slot, [B, ...]."""
        assert states is not None
        return np.repeat(states, self.per_world, axis=0)

    def take(self, t: int, rows: SlotRows) -> bool:
        """Takes what a step gave; returns whether it ended somebody's episode."""
        self.rewards[t], self.terminateds[t], self.truncateds[t] = rows.rewards, rows.terminateds, rows.truncateds
        for name, column in self.columns.items():
            column[t] = rows.columns[name]
        self.behavior.take_rewards(self.rewards[t])
        ended = rows.terminateds | rows.truncateds
        self.just_ended = ended & self.in_step(t)
        return bool(ended.any())

    def in_step(self, t: int) -> Flags:
        """Whether a slot's agent is in a step of its own in a step of the worlds, [B]."""
        acted: Flags = self.acted[t]
        return acted

    def note_ends(self, t: int, owners: Any, infos: Mapping[int, Mapping[str, Any]]) -> None:
        """Notes whose episodes ended in a step, and what their infos say."""
        for slot in (self.terminateds[t] | self.truncateds[t]).nonzero()[0].tolist():
            self._agents[t, slot] = owners[slot]
            if slot in infos:
                self._infos[t, slot] = dict(infos[slot])

    def step_of(self, row: int, slot: int) -> int:
        """Returns how many steps the worlds had taken in this fragment when a slot's row was shown."""
        return row

    def agent_in(self, slot: int, t: int) -> str | None:
        """Returns whose episode was the first to end in a slot from step t on; None if none did."""
        return next((agent for (end, where), agent in self._agents.items() if where == slot and end >= t), None)

    def episodes(self) -> list[Episode]:
        """Returns the agents' episodes that ended in the fragment."""
        ends = self.terminateds | self.truncateds
        return self._sums.add(self.rewards, ends, self.acted, self._infos, self._agents, self.columns)

    def end(
        self, rows: SlotRows, states: NDArray[Any] | None, lengths: list[int]
    ) -> tuple[SampleBatch, Flags, tuple[Indices, Indices]]:
        """Ends a fragment.

        Args:
            rows: What the slots show behind it.
            states: The states of the worlds behind it, [W, ...].
            lengths: Steps of each world's episode, [W].

        Returns:
            The batch, which rows are filled [T, B], and the rows and slots of final observations that stand in the
            closing row alone.
        """
        self.closes = rows.acts | self.just_ended
        self.see(self.length, rows.observations, states, self.closes)
        self.behavior.close_fragment(self.batch, rows.starts, self.closes)
        if ACTS in self.behavior.world_columns:
            self.batch[ACTS] = np.concatenate([self.acted, rows.acts[None]])
        self.batch.update(
            obs=self.observed,
            rewards=self.rewards,
            terminateds=self.terminateds,
            truncateds=self.truncateds,
            valid=self.acted,
            weights_version=np.full(self.acted.shape, self.behavior.weights_version, np.int32),
        )
        self.batch.update({name: column.astype(np.float32) for name, column in self.columns.items()})
        self.log(self.batch["actions"], lengths)
        nowhere = np.zeros(0, np.int64)
        return self.batch, self.filled, (nowhere, nowhere)

    def log(self, actions: NDArray[Any], lengths: list[int]) -> None:
        """Keeps a fragment's actions [T, B, ...] for a return to the places of its end."""
        self._log.append(actions)
        if self._log.is_full:
            self._log.trim(max(lengths))

    def state(self, lengths: list[int], *, tails: bool) -> dict[str, Any]:
        """Returns the slots' books, and their actions since their world's reset, or the newest of these."""
        of_slots = np.repeat(lengths, self.num_slots // len(lengths)).tolist()
        return {
            "actions": self._log.tails(of_slots) if tails else self._log.latest(of_slots),
            "just_ended": self.just_ended.copy(),
            "returns": self._sums.returns.copy(),
            "lengths": self._sums.lengths.copy(),
            "columns": {name: sums.copy() for name, sums in self._sums.columns.items()},
        }

    def joint_actions(self, state: Mapping[str, Any], places: list[EpisodePlace], space: Any) -> list[Any]:
        """Returns for each world the policy's actions since its reset, leaves [length, K, ...], in the world's terms.

        Raises:
            ValueError: They are none.
        """
        saved = [np.asarray(own) for own in state["actions"]]
        if len(saved) != self.num_slots:
            raise ValueError(f"there are {self.num_slots} slots, not {len(saved)}")
        width, joint = self.num_slots // len(places), []
        for world, place in enumerate(places):
            own = np.stack(saved[world * width : (world + 1) * width], axis=1)
            if len(own) != place.length:
                raise ValueError(f"of world {world} {len(own)} actions were saved, not {place.length}")
            actions = self.behavior.env_actions(own.reshape(place.length * width, *own.shape[2:]))
            if reason := action_misfit(space, actions, place.length * width):
                raise ValueError(reason)
            joint.append(map_tree(lambda leaf, n=place.length: leaf.reshape(n, width, *leaf.shape[1:]), actions))
        return joint

    def load_state(self, state: Mapping[str, Any], kept: Flags) -> None:
        """Goes on with what `state` returned.

        Args:
            state: It.
            kept: Which slots' worlds were brought back, [B]; of the others everything begins anew.
        """
        self.just_ended = np.array(state["just_ended"], np.bool_) & kept
        self._sums.returns = np.where(kept, np.array(state["returns"], np.float64), 0.0)
        self._sums.lengths = np.where(kept, np.array(state["lengths"], np.int64), 0)
        for name, sums in self._sums.columns.items():  # of a column that was not recorded then nothing is known
            sums[:] = np.where(kept, np.array(state.get("columns", {}).get(name, sums), np.float64), 0.0)
        self._log.load([np.asarray(own) for own in state["actions"]])


class _PerAgentSlots(_ParallelSlots):
    """The slots of one policy, a row for each decision of a slot's agent.

    A slot's cursor says which row it fills next, and which of its rows is the step that is still open, if one is.
    """

    def __init__(self, behavior: WorkerBehavior, worlds: VectorWorld, policy: str, length: int) -> None:
        super().__init__(behavior, worlds, policy, length)
        self._next = np.zeros(self.num_slots, np.int64)
        self._open = np.full(self.num_slots, NO_ROW, np.int64)
        self._carried: dict[str, Any] = {}
        self._carries = np.zeros(self.num_slots, np.bool_)

    def begin(self, rows: WorldRows) -> None:
        """Begins a fragment with the steps that the last one left open."""
        super().begin(rows)
        shape = self.rewards.shape
        self._next, self._open = np.zeros(self.num_slots, np.int64), np.full(self.num_slots, NO_ROW, np.int64)
        self._open_at = np.full(shape, NO_ROW, np.int64)
        self._row_rewards = np.zeros(shape)
        self._row_columns = {name: np.zeros(shape) for name in self.columns}
        self._valid = np.zeros(shape, np.bool_)
        self._versions = np.full(shape, self.behavior.weights_version, np.int32)
        self._rows_filled = np.zeros(shape, np.bool_)
        if self._carries.any():
            self._put_carried()

    def _put_carried(self) -> None:
        """Puts the steps that were carried into row 0 of their slots."""
        slots = self._carries.nonzero()[0]
        self._next[slots], self._open[slots] = 1, 0
        self._valid[0, slots] = self._rows_filled[0, slots] = True
        for name, column in self._columns().items():
            for leaf, kept in zip(leaves(column), leaves(self._carried[name]), strict=True):
                leaf[0, slots] = kept
        self._carries = np.zeros(self.num_slots, np.bool_)

    def _columns(self) -> dict[str, Any]:
        """Returns all that is recorded of a step, by name."""
        return {
            **self.batch,
            "obs": self.observed,
            "rewards": self._row_rewards,
            "weights_version": self._versions,
            **self._row_columns,
        }

    def act(self, t: int, rows: SlotRows, states: NDArray[Any] | None, act: Any, noise: Floats) -> Any:
        """Acts, and records each step in its slot's next row; returns actions for the worlds, [B, ...]."""
        self.acted[t] = rows.acts
        self._open[self.just_ended] = NO_ROW
        shown = rows.acts | self.just_ended
        slots = shown.nonzero()[0]
        if not len(slots):
            self._open_at[t] = self._open
            return self._idle
        own = self._next[slots]
        actions = act(rows.observations, noise, self.batch, t, rows.starts, shown, own)
        self.see(own, rows.observations, states, slots)
        self._rows_filled[own, slots] = True
        self._next[slots] += 1
        acting = rows.acts.nonzero()[0]
        self._open[acting] = self._next[acting] - 1
        self._valid[self._open[acting], acting] = True
        self._open_at[t] = self._open
        return actions

    def step_of(self, row: int, slot: int) -> int:
        """Returns how many steps the worlds had taken in this fragment when a slot's row was shown.

        A row in which nobody acts holds a final observation: it was shown one step behind the end. A step that is
        carried stands in the closing row, and was shown when its agent last acted.
        """
        if row == self.length and not self._carries[slot]:
            return row
        own = self._open[slot] if row == self.length else row
        at: list[int] = (self.acted[:, slot] & (self._open_at[:, slot] == own)).nonzero()[0].tolist()
        if at:
            return at[0]
        began = self.step_of(row - 1, slot) if row else NO_ROW
        ends = self.terminateds[:, slot] | self.truncateds[:, slot]
        return next((t + 1 for t in range(max(began, 0), len(ends)) if row and ends[t]), 0)

    def in_step(self, t: int) -> Flags:
        """Whether a slot's agent is in a step of its own, which may have begun before, [B]."""
        goes_on: Flags = self._open != NO_ROW
        return goes_on

    def end(
        self, rows: SlotRows, states: NDArray[Any] | None, lengths: list[int]
    ) -> tuple[SampleBatch, Flags, tuple[Indices, Indices]]:
        """Ends a fragment, and carries what is open; see the class."""
        at, slots = (self._open_at != NO_ROW).nonzero()
        own = self._open_at[at, slots]
        np.add.at(self._row_rewards, (own, slots), self.rewards[at, slots])
        for name, column in self._row_columns.items():
            np.add.at(column, (own, slots), self.columns[name][at, slots])
        terminateds, truncateds = np.zeros((2, *self.rewards.shape), np.bool_)
        np.logical_or.at(terminateds, (own, slots), self.terminateds[at, slots])
        np.logical_or.at(truncateds, (own, slots), self.truncateds[at, slots])
        self.log(self._actions_by_step(), lengths)
        self.see(self.length, rows.observations, states, rows.acts | self.just_ended)
        self.behavior.close_fragment(self.batch, rows.starts, rows.acts | self.just_ended)
        self._carry(rows.acts)
        self.closes = rows.acts | self.just_ended | self._carries
        self.batch.update(
            obs=self.observed,
            rewards=self._row_rewards,
            terminateds=terminateds,
            truncateds=truncateds,
            valid=self._valid,
            weights_version=self._versions,
        )
        self.batch.update({name: column.astype(np.float32) for name, column in self._row_columns.items()})
        finals = (self.just_ended & (self._next < self.length)).nonzero()[0]
        return self.batch, self._rows_filled, (self._next[finals], finals)

    def _actions_by_step(self) -> NDArray[Any]:
        """Returns the actions by the steps of the worlds in which they were taken; zeros where nobody acted."""
        actions: NDArray[Any] = np.zeros_like(self.batch["actions"])
        at, slots = self.acted.nonzero()
        actions[at, slots] = self.batch["actions"][self._open_at[at, slots], slots]
        return actions

    def _carry(self, acts: Flags) -> None:
        """Takes the steps that are open out of the fragment; what they saw closes it in their slots."""
        self._carries = (self._open != NO_ROW) & ~self.just_ended & ~acts
        slots = self._carries.nonzero()[0]
        if not len(slots):
            return
        own = self._open[slots]
        columns = self._columns()
        self._carried = {name: map_tree(lambda leaf: leaf[own, slots], column) for name, column in columns.items()}
        self._valid[own, slots] = self._rows_filled[own, slots] = False
        for name in CLOSING_COLUMNS:
            if name in columns:
                for leaf, kept in zip(leaves(columns[name]), leaves(self._carried[name]), strict=True):
                    leaf[-1, slots] = kept
        if EPISODE_STEPS in self.batch:
            self.batch[EPISODE_STEPS][own, slots] = NOT_SHOWN

    def state(self, lengths: list[int], *, tails: bool) -> dict[str, Any]:
        """Returns the slots' books, their actions, and the steps that are open."""
        return {
            **super().state(lengths, tails=tails),
            "carries": self._carries.copy(),
            "carried": self._carried if self._carries.any() else {},
        }

    def load_state(self, state: Mapping[str, Any], kept: Flags) -> None:
        """Goes on with what `state` returned; open steps of worlds that were not brought back are dropped."""
        super().load_state(state, kept)
        carries = np.array(state["carries"], np.bool_)
        still = kept[carries]
        self._carries = carries & kept
        self._carried = map_tree(lambda leaf: np.asarray(leaf)[still], state["carried"])
