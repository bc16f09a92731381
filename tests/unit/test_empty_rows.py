"""Garbage in empty rows changes nothing: results equal those of slots cut to their nonempty rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlrun.algorithms.ddppo.all_reduce_sgd import standardized_together
from rlrun.algorithms.dqn.apex import InitialPriorities
from rlrun.algorithms.pg.complete_episodes import CompleteEpisodes
from rlrun.engine.data.learning_rows import sequence_rows, whole_fragment_rows
from rlrun.engine.data.packing import Packing, filled_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves
from rlrun.engine.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.functional.masked import standardized
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.functional.vtrace import vtrace
from rlrun.engine.nn.observation_leaves import observation_leaves
from rlrun.engine.policy.observation_filter import ObservationFilter
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig, SequenceReplayConfig
from rlrun.engine.replay.sequences import SequenceReplay
from rlrun.engine.rollout.episode_sums import EpisodeSums
from rlrun.engine.rollout.rewards import RewardSettings, RewardTransform
from tests.rounding import rounding_error

EMPTY, STEP, TERMINATED, TRUNCATED, FINAL = range(5)
GAMMA = 0.9
FRAMES = 3
SLOWLY = settings(deadline=None, max_examples=80)


class World(NamedTuple):
    """The experience of a policy's slots, and how it is cut into fragments."""

    seed: int
    length: int
    slots: int
    fragments: int
    empty_share: float
    end_share: float


worlds = st.builds(
    World,
    seed=st.integers(0, 2**32 - 1),
    length=st.integers(1, 7),
    slots=st.integers(1, 3),
    fragments=st.integers(1, 6),
    empty_share=st.sampled_from([0.0, 0.1, 0.5, 0.8]),
    end_share=st.sampled_from([0.1, 0.4]),
)


def kinds_of(world: World, rng: np.random.Generator) -> np.ndarray:
    """Draws the kind of each row of each slot: a final observation after each end, and anything elsewhere."""
    kinds = np.full((world.fragments * world.length + 1, world.slots), EMPTY)
    for slot in range(world.slots):
        before = EMPTY
        for t in range(len(kinds)):
            if before in (TERMINATED, TRUNCATED):
                before = FINAL
            elif rng.random() < world.empty_share:
                before = EMPTY
            elif rng.random() < world.end_share:
                before = int(rng.integers(TERMINATED, TRUNCATED + 1))
            else:
                before = STEP
            kinds[t, slot] = before
    return kinds


def numbers(rng: np.random.Generator, kinds: np.ndarray) -> dict[str, np.ndarray]:
    """Draws the columns of all rows; a step's frames are the previous step's and a new one."""
    shape = kinds.shape
    frames = rng.integers(1, 2**31, (*shape, FRAMES)).astype(np.float64)
    starts = np.zeros(shape, np.bool_)
    for slot in range(shape[1]):
        before, begins = None, True
        for t in np.flatnonzero(kinds[:, slot]):
            if not begins:
                frames[t, slot, :-1] = frames[before, slot, 1:]
            starts[t, slot], before, begins = begins, t, kinds[t, slot] == FINAL
    return {
        "obs": frames[..., None, None],
        "values": rng.normal(size=shape).astype(np.float32),
        "q_values": rng.normal(size=(*shape, 4)).astype(np.float32),
        "actions": rng.integers(0, 4, shape),
        "rewards": np.where(kinds == FINAL, 0, rng.normal(size=shape)).astype(np.float32),
        "logp": rng.normal(size=shape).astype(np.float32),
        "episode_starts": starts,
        "state": rng.normal(size=(*shape, 2)).astype(np.float32),
        "terminateds": kinds == TERMINATED,
        "truncateds": kinds == TRUNCATED,
        "valid": np.isin(kinds, (STEP, TERMINATED, TRUNCATED)),
    }


def with_garbage(column: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns a column with garbage in some of its rows."""
    column = column.copy()
    if column.dtype == np.bool_:
        column[rows] = rng.random(column[rows].shape) < 0.5
    elif column.dtype == np.int64:
        column[rows] = 2**62
    else:
        largest = np.finfo(column.dtype).max
        column[rows] = rng.choice([np.nan, np.inf, -np.inf, largest, -largest], column[rows].shape)
    return column


CLOSING = ("obs", "values", "q_values")


def fragments_of(
    world: World, *, is_one_clock: bool = False
) -> Iterator[tuple[SampleBatch, list[SampleBatch | None], list[np.ndarray]]]:
    """Yields each fragment with garbage in its empty rows, and for each slot the fragment of its nonempty rows.

    Each slot's fragment comes with the numbers of its rows in the whole fragment. If a slot's last step goes on, the
    observation of its next row closes it, however far off. A slot without rows has no fragment. After a final
    observation, garbage closes a slot; with one clock for all slots, only if the next fragment's first row is empty.
    """
    rng = np.random.default_rng(world.seed)
    kinds = kinds_of(world, rng)
    if is_one_clock:
        kinds[0] = STEP
        kinds[1] = np.where(kinds[1] == FINAL, STEP, kinds[1])
    columns = numbers(rng, kinds)
    for first in range(0, len(kinds) - 1, world.length):
        rows = slice(first, first + world.length)
        batch: dict[str, np.ndarray] = {}
        for name, column in columns.items():
            hidden = kinds[rows] == EMPTY if name in CLOSING else ~columns["valid"][rows]
            if name in ("rewards", "terminateds", "truncateds"):
                hidden = kinds[rows] == EMPTY
            batch[name] = column[rows] if name == "valid" else with_garbage(column[rows], hidden, rng)
        cuts: list[SampleBatch | None] = []
        where = []
        for name in CLOSING:
            closing = with_garbage(columns[name][:1], np.ones((1, world.slots), np.bool_), rng)
            batch[name] = np.concatenate([batch[name], closing])
        for slot in range(world.slots):
            own = first + np.flatnonzero(kinds[rows, slot])
            behind = first + world.length + np.flatnonzero(kinds[first + world.length :, slot])
            where.append(own - first)
            if not len(own):
                cuts.append(None)
                continue
            cut = {name: column[own, slot][:, None] for name, column in columns.items()}
            for name in CLOSING:
                closing = columns[name][behind[0], slot] if len(behind) else np.full_like(columns[name][0, 0], 7)
                if kinds[own[-1], slot] != FINAL or (is_one_clock and kinds[first + world.length, slot] != EMPTY):
                    batch[name][-1, slot] = closing
                cut[name] = np.concatenate([cut[name], closing[None, None]])
            cuts.append(SampleBatch(cut))
        yield SampleBatch(batch), cuts, where


def assert_equal_to_the_cuts(
    result: np.ndarray, of_cuts: list[np.ndarray | None], cuts: list[SampleBatch | None], where: list[np.ndarray]
) -> None:
    """Checks that the results of steps equal those of the same steps in the slots' own fragments, bit for bit."""
    for slot, (cut, rows) in enumerate(zip(cuts, where, strict=True)):
        if cut is not None:
            steps = cut["valid"][:, 0]
            np.testing.assert_array_equal(result[rows[steps], slot], of_cuts[slot][steps, 0])


@SLOWLY
@given(world=worlds)
def test_rows_count_as_filled_if_they_hold_a_step_a_final_observation_or_a_closing_row(world: World) -> None:
    rng = np.random.default_rng(world.seed)
    kinds = kinds_of(world, rng)
    for first in range(0, len(kinds) - 1, world.length):
        own = kinds[first : first + world.length]
        valid = np.isin(own, (STEP, TERMINATED, TRUNCATED))
        ends = np.isin(own, (TERMINATED, TRUNCATED)) | (~valid & (rng.random(own.shape) < 0.5))
        before = np.isin(kinds[first - 1], (TERMINATED, TRUNCATED)) if first else np.zeros(world.slots, np.bool_)
        filled = filled_rows(valid, ends, before)
        np.testing.assert_array_equal(filled[:-1], own != EMPTY)
        for slot in range(world.slots):
            kept = [kind for kind in own[:, slot] if kind != EMPTY]
            assert filled[-1, slot] == (bool(kept) and kept[-1] != FINAL)


@SLOWLY
@given(world=worlds)
def test_unpacking_returns_packed_rows_to_their_positions(world: World) -> None:
    for batch, _, _ in fragments_of(world):
        rows = Packing(batch["valid"], batch["terminateds"], batch["truncateds"])
        packed = rows.pack(batch["values"][:-1])
        assert np.isfinite(packed).all()
        valid = batch["valid"]
        np.testing.assert_array_equal(rows.unpack(packed)[valid], batch["values"][:-1][valid])


def test_packing_a_fragment_without_empty_rows_returns_its_columns_themselves() -> None:
    valid = np.array([[True], [False], [True]])
    ends = np.array([[True], [False], [False]])
    column = np.arange(4.0)[:, None]
    assert Packing(valid, ends, ~valid & valid).pack(column) is column


def test_empty_rows_after_the_end_of_an_episode_do_not_move_other_rows() -> None:
    valid = np.array([[True], [False], [False], [True]])
    ends = np.array([[True], [False], [True], [False]])
    column = np.array([[1.0], [2.0], [np.nan], [4.0], [5.0]])
    assert Packing(valid, ends, ends).pack(column).ravel().tolist() == [1, 2, 0, 4, 5]


@SLOWLY
@given(world=worlds, gae_lambda=st.floats(0, 1))
def test_advantages_ignore_empty_rows(world: World, gae_lambda: float) -> None:
    compute = ComputeAdvantages(GAMMA, gae_lambda)
    for batch, cuts, where in fragments_of(world):
        found, alone = compute(batch), [cut and compute(cut) for cut in cuts]
        for name in ("advantages", "value_targets"):
            assert_equal_to_the_cuts(found[name], [own and own[name] for own in alone], cuts, where)


def test_the_advantage_of_a_step_before_a_gap_uses_the_next_filled_row() -> None:
    nan = np.nan
    column = lambda *numbers: np.array(numbers, np.float32)[:, None]  # noqa: E731
    never = np.zeros((4, 1), np.bool_)
    batch = SampleBatch(
        valid=column(1, 0, 0, 1).astype(np.bool_),
        rewards=column(1, nan, nan, 2),
        values=column(10, nan, nan, 20, 30),
        terminateds=never,
        truncateds=never,
    )
    found = ComputeAdvantages(0.5, 0.5)(batch)["advantages"][:, 0]
    assert found[3] == 2 + 0.5 * 30 - 20
    assert found[0] == 1 + 0.5 * 20 - 10 + 0.25 * found[3]


@SLOWLY
@given(world=worlds)
def test_vtrace_over_whole_fragments_ignores_empty_rows(world: World) -> None:
    def traced(rows: SampleBatch) -> list[np.ndarray]:
        columns = (rows["logp"], rows["values"], rows["rewards"], rows["terminateds"], rows["valid"])
        return [found.numpy() for found in vtrace(*(torch.from_numpy(column) for column in columns), gamma=GAMMA)]

    for batch, cuts, _ in fragments_of(world):
        rows = whole_fragment_rows(batch)
        assert all(np.isfinite(leaf).all() for leaf in leaves(dict(rows)))
        found = traced(with_values(rows, batch))
        for slot, cut in enumerate(cuts):
            if cut is not None:
                alone = whole_fragment_rows(cut)
                for own, expected in zip(found, traced(with_values(alone, cut)), strict=True):
                    steps = rows["valid"][slot]
                    np.testing.assert_array_equal(own[slot][steps], expected[alone["valid"]])
                if cut["valid"].any():
                    first = int(cut["valid"][:, 0].argmax())
                    np.testing.assert_array_equal(rows["state"][slot], cut["state"][first, 0])
                    assert rows["valid"][slot, 0]
                np.testing.assert_array_equal(rows["obs"][slot][steps], alone["obs"][alone["valid"]])


@SLOWLY
@given(world=worlds, length=st.integers(1, 5))
def test_sequence_rows_hold_the_steps_of_a_slot_without_gaps(world: World, length: int) -> None:
    for batch, cuts, _ in fragments_of(world):
        rows = sequence_rows(batch.steps(), length)
        assert all(np.isfinite(leaf).all() for leaf in leaves(dict(rows)))
        assert not any(leaf[~rows["valid"]].any() for name, leaf in rows.items() if name != "state")
        for slot, cut in enumerate(cuts):
            own = rows.map(lambda leaf, slot=slot: leaf[slot :: world.slots])
            steps = np.zeros(0, np.int64) if cut is None else np.flatnonzero(cut["valid"][:, 0])
            filled = np.arange(own["valid"].size).reshape(own["valid"].shape) < len(steps)
            np.testing.assert_array_equal(own["valid"], filled)
            if cut is not None:
                for name, column in cut.steps().items():
                    if name != "state":
                        np.testing.assert_array_equal(own[name][filled], column[steps, 0], err_msg=name)
                np.testing.assert_array_equal(own["state"][filled[:, 0]], cut["state"][steps[::length], 0])
            assert not own["state"][~filled[:, 0]].any()


def with_values(rows: SampleBatch, batch: SampleBatch) -> SampleBatch:
    """Returns rows with a value for each observation, which depends on the observation's frames, as in a network."""
    known = {
        obs.tobytes(): value for obs, value in zip(batch["obs"].reshape(-1, FRAMES), batch["values"].flat, strict=True)
    }
    found = [known.get(obs.tobytes(), np.float32(0.0)) for obs in rows["obs"].reshape(-1, FRAMES)]
    return SampleBatch(rows, values=np.array(found, np.float32).reshape(rows["valid"].shape))


@SLOWLY
@given(world=worlds, n_step=st.integers(1, 4), from_values=st.booleans())
def test_initial_priorities_ignore_empty_rows(world: World, n_step: int, from_values: bool) -> None:
    operator = InitialPriorities(n_step, GAMMA)
    for batch, cuts, where in fragments_of(world):
        items = [batch, *cuts]
        if from_values:
            items = [item and without(SampleBatch(item, taken_values=item["logp"]), "q_values") for item in items]
        found, *alone = (item and operator(item)["priorities"] for item in items)
        assert_equal_to_the_cuts(found, alone, cuts, where)
        assert not found[~batch["valid"]].any()


def without(batch: SampleBatch, name: str) -> SampleBatch:
    return SampleBatch({key: column for key, column in batch.items() if key != name})


@SLOWLY
@given(world=worlds, use_baseline=st.booleans())
def test_complete_episodes_ignore_empty_rows(world: World, use_baseline: bool) -> None:
    whole, near = CompleteEpisodes(GAMMA, use_baseline), rounding_error(world.length)
    alone = [CompleteEpisodes(GAMMA, use_baseline) for _ in range(world.slots)]
    for batch, cuts, _ in fragments_of(world):
        found = whole(batch)
        expected = [operator(cut) for operator, cut in zip(alone, cuts, strict=True) if cut is not None]
        for name in ("obs", "actions", "rewards", "logp", "value_targets", "advantages"):
            parts = [part[name] for part in expected] or [found[name][:, :0]]
            np.testing.assert_allclose(found[name], np.concatenate(parts, axis=1), rtol=near, atol=near)


def test_slots_without_an_agent_do_not_make_complete_episodes_hold_back_rows() -> None:
    operator = CompleteEpisodes(GAMMA, use_baseline=False)
    never = np.zeros((50, 1), np.bool_)
    rewards, values = np.full((50, 1), np.nan, np.float32), np.full((51, 1), np.nan, np.float32)
    for _ in range(3):
        operator(
            SampleBatch(obs=values, values=values, rewards=rewards, terminateds=never, truncateds=never, valid=never)
        )
    assert operator.state() == {"held": None}


@SLOWLY
@given(world=worlds, clip=st.sampled_from([None, 1.0]), scale=st.booleans())
def test_transformed_rewards_and_return_statistics_ignore_empty_rows(
    world: World, clip: float | None, scale: bool
) -> None:
    def transform(slots: int) -> RewardTransform:
        return RewardTransform(slots, RewardSettings(GAMMA, RewardScale(clip=clip), scale))

    whole, alone = transform(world.slots), [transform(1) for _ in range(world.slots)]
    for batch, cuts, where in fragments_of(world):
        found, statistics = transformed(whole, batch)
        deltas, own = [Moments.empty(())], []
        for operator, cut in zip(alone, cuts, strict=True):
            operator.moments = Moments(1e9, np.zeros(()), np.array(1e9))  # rewards are scaled by all slots together
            rewards, delta = (None, {}) if cut is None else transformed(operator, cut)
            own.append(rewards)
            deltas += delta.values()
        merged = deltas[0]
        for delta in deltas[1:]:
            merged = merged.merged(delta)
        assert np.isfinite(found).all()
        if scale:
            returns = statistics["returns"]
            assert returns.count == merged.count
            np.testing.assert_allclose([returns.mean, returns.squares], [merged.mean, merged.squares], atol=1e-9)
            rows = [row for row in zip(own, cuts, where, range(world.slots), strict=True) if row[1] is not None]
            by = float(np.sqrt(merged.variance + 1e-8))
            for _, cut, at, slot in rows:
                raw = cut["rewards"][:, 0] if clip is None else cut["rewards"][:, 0].clip(-clip, clip)
                near = rounding_error(4)
                np.testing.assert_allclose(found[at, slot], (raw / by).clip(-10, 10), rtol=near, atol=near)
        else:
            assert_equal_to_the_cuts(found, own, cuts, where)


def transformed(transform: RewardTransform, batch: SampleBatch) -> tuple[np.ndarray, dict[str, Moments]]:
    rewards, delta = transform.measured(batch["rewards"].astype(np.float64), *ends_and_valid(batch))
    return transform.normalized(rewards, delta), delta


def ends_and_valid(batch: SampleBatch) -> tuple[np.ndarray, np.ndarray]:
    return batch["terminateds"] | batch["truncateds"], batch["valid"]


def rewards_ends_and_steps(batch: SampleBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    steps = batch["valid"]
    ends = (batch["terminateds"] | batch["truncateds"]) & steps
    return np.where(steps, batch["rewards"].astype(float), 0.0), ends, steps


@SLOWLY
@given(world=worlds)
def test_episode_returns_and_lengths_ignore_empty_rows(world: World) -> None:
    whole, alone = EpisodeSums(world.slots), [EpisodeSums(1) for _ in range(world.slots)]
    for batch, cuts, _ in fragments_of(world):
        found = whole.add(*rewards_ends_and_steps(batch), {})
        expected = [
            episode
            for sums, cut in zip(alone, cuts, strict=True)
            if cut is not None
            for episode in sums.add(*rewards_ends_and_steps(cut), {})
        ]
        assert sorted(episode.length for episode in found) == sorted(episode.length for episode in expected)
        np.testing.assert_allclose(
            sorted(episode.episode_return for episode in found),
            sorted(episode.episode_return for episode in expected),
            atol=1e-9,
        )


@SLOWLY
@given(world=worlds)
def test_moments_of_observations_ignore_empty_rows(world: World) -> None:
    space = gymnasium.spaces.Box(-np.inf, np.inf, (FRAMES,), np.float32)
    observation_filter = ObservationFilter(observation_leaves(space, {}, normalize=True))
    for batch, cuts, where in fragments_of(world):
        filled = np.zeros(batch["valid"].shape, np.bool_)
        for slot, rows in enumerate(where):
            filled[rows, slot] = True
        (found,) = observation_filter.moments(batch["obs"][:-1, ..., 0, 0], filled).values()
        seen = [cut["obs"][:-1, 0, :, 0, 0] for cut in cuts if cut is not None] or [np.zeros((0, FRAMES))]
        expected = Moments.of(np.concatenate(seen), 1)
        assert found.count == expected.count
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-9)
        np.testing.assert_allclose(found.squares, expected.squares, rtol=1e-9)


@SLOWLY
@given(world=worlds)
def test_batches_of_single_steps_ignore_empty_rows(world: World) -> None:
    items = list(fragments_of(world))
    concat = ConcatBatches(world.slots * world.length * len(items))
    learned = Standardize("values")
    (batch,) = [full for item, _, _ in items for full in concat(without(item, "q_values").steps())]
    rows = learned(batch).zero_invalid().rows(1)
    assert all(np.isfinite(leaf).all() for leaf in leaves(dict(rows)))
    parts = [cut for _, cuts, _ in items for cut in cuts if cut is not None]
    cells = [cut["values"][:-1][cut["valid"]] for cut in parts]
    alone = np.concatenate(cells) if cells else np.zeros(0, np.float32)
    expected = standardized(alone, np.ones(len(alone), np.bool_))
    near = rounding_error(max(len(alone), 1))
    np.testing.assert_allclose(np.sort(rows["values"][rows["valid"]]), np.sort(expected), rtol=near, atol=near)
    together, steps = standardized_together(batch["values"], batch["valid"], lambda addends: np.array(list(addends)))
    assert steps == len(alone)
    np.testing.assert_allclose(np.sort(together[batch["valid"]]), np.sort(expected), rtol=near, atol=near)


def transitions(replay: ReplayBuffer) -> dict[bytes, list[Any]]:
    """Returns all transitions that can be drawn, by their observation."""
    ring = replay._ring
    batch = ring.gather(np.flatnonzero(ring.ready.flags)) if ring.rows else SampleBatch(obs=())
    names = ("actions", "rewards", "discounts", "next_obs")
    return {obs.tobytes(): [batch[name][i].tobytes() for name in names] for i, obs in enumerate(batch["obs"])}


@SLOWLY
@given(world=worlds, n_step=st.integers(1, 4), frame_stack=st.sampled_from([None, FRAMES]))
@example(
    world=World(seed=3, length=7, slots=1, fragments=1, empty_share=0.1, end_share=0.4), n_step=3, frame_stack=None
)
def test_transitions_from_a_replay_ignore_empty_rows(world: World, n_step: int, frame_stack: int | None) -> None:
    def replay(num_workers: int, rows: int) -> ReplayBuffer:
        config = ReplayConfig(capacity=world.slots * rows, frame_stack=frame_stack)
        return ReplayBuffer(config, num_workers=num_workers, n_step=n_step, gamma=GAMMA, seed=0)

    rows = world.length * world.fragments + 30
    whole, alone, short = replay(1, rows), replay(world.slots, rows), replay(1, world.length + n_step + 5)
    for batch, cuts, _ in fragments_of(world):
        for each in (whole, short):
            each.add(0, batch)
        for slot, cut in enumerate(cuts):
            if cut is not None:
                alone.add(slot, cut)
    expected = transitions(alone)
    assert transitions(whole) == expected
    assert whole.stored_steps == alone.stored_steps
    kept = transitions(short)
    assert kept.items() <= expected.items()
    assert short.num_ready == len(kept)
    resumed = replay(1, world.length + n_step + 5)
    resumed.load_state(short.state())
    for each in (short, resumed):
        each.add(0, batch)
    assert transitions(resumed) == transitions(short)


@SLOWLY
@given(world=worlds)
def test_steps_added_to_a_replay_keep_the_priorities_they_were_given(world: World) -> None:
    config = ReplayConfig(capacity=10_000, sampling="prioritized", priority_alpha=1.0, priority_epsilon=1e-6)
    replay = ReplayBuffer(config, num_workers=1, n_step=2, gamma=GAMMA, seed=0)
    told = {}
    for batch, _, _ in fragments_of(world):
        item = InitialPriorities(2, GAMMA)(batch)
        replay.add(0, item)
        told |= {
            obs.tobytes(): error
            for obs, error in zip(batch["obs"][:-1][batch["valid"]], item["priorities"][batch["valid"]], strict=True)
        }
    if replay.num_ready:
        cells = np.flatnonzero(replay._ring.ready.flags)
        expected = [told[obs.tobytes()] for obs in replay._ring.gather(cells)["obs"]]
        values = replay.state()["kept"]["sampler"]["values"]
        np.testing.assert_array_equal(values[cells], np.array(expected, np.float64) + 1e-6)
        assert np.count_nonzero(values) <= len(cells)


def sequences_of(world: World, num_workers: int, **config: Any) -> SequenceReplay:
    rows = world.length * world.fragments + 60
    config = {"burn_in": 1, "length": 3, "stride": 1, **config}
    n_step = config.pop("n_step", 2)
    settings = SequenceReplayConfig(capacity=world.slots * rows, **config)
    return SequenceReplay(settings, num_workers=num_workers, n_step=n_step, gamma=GAMMA, seed=0)


def learned_sequences(replay: SequenceReplay, lane: int, column: int) -> dict[int, SampleBatch]:
    """Returns the sequences of one slot that contain something to learn from, by their beginnings."""
    _, places, columns = replay._ready.shape
    found = {}
    for place in np.flatnonzero(replay._ready[lane, :, column]).tolist():
        sequence = replay.gather(np.array([(lane * places + place) * columns + column]))
        if sequence["valid"].any():
            found[place] = sequence
    return found


@SLOWLY
@given(world=worlds, burn_in=st.integers(0, 2), n_step=st.integers(1, 3), stride=st.integers(1, 3))
def test_sequences_from_a_replay_ignore_empty_rows(world: World, burn_in: int, n_step: int, stride: int) -> None:
    config = {"burn_in": burn_in, "n_step": n_step, "stride": stride}
    whole, alone = sequences_of(world, 1, **config), sequences_of(world, world.slots, **config)
    for batch, cuts, _ in fragments_of(world, is_one_clock=True):
        whole.add(0, batch)
        for slot, cut in enumerate(cuts):
            if cut is not None:
                alone.add(slot, cut)
    whole.finish(0)
    for slot in range(world.slots):
        alone.finish(slot)
        own, expected = learned_sequences(whole, 0, slot), learned_sequences(alone, slot, 0)
        assert own.keys() == expected.keys()
        for place, sequence in expected.items():
            for name, column in sequence.items():
                np.testing.assert_array_equal(own[place][name], column)


@SLOWLY
@given(world=worlds)
def test_sequences_from_a_replay_hold_only_recorded_steps_and_finite_numbers(world: World) -> None:
    replay, steps = sequences_of(world, 1), {}
    for batch, _, _ in fragments_of(world):
        replay.add(0, batch)
        for t, slot in zip(*batch["valid"].nonzero(), strict=True):
            steps[batch["obs"][t, slot].tobytes()] = (batch["actions"][t, slot], batch["state"][t, slot].tobytes())
    if not replay.num_ready:
        return
    found = replay.gather(np.flatnonzero(replay._ready))
    assert all(np.isfinite(leaf).all() for leaf in leaves(dict(found)))
    for row, step in zip(*found["valid"].nonzero(), strict=True):
        action, _ = steps[found["obs"][row, 1 + step].tobytes()]
        assert found["actions"][row, step] == action
    for obs, state in zip(found["obs"][:, 0], found["state"], strict=True):
        assert not state.any() or steps[obs.tobytes()][1] == state.tobytes()
