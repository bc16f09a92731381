import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlrun.algorithms.pg import complete_episodes
from rlrun.algorithms.pg.complete_episodes import CompleteEpisodes
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import TrainingFailed
from tests.rounding import rounding_error

T, B = 4, 3


def fragments_of(lengths, cut, fragments):
    """Makes fragments of a world whose column b repeats episodes of the given lengths.

    An observation is (column, episode, step); the reward of a step is its number in the episode plus 1; the value of an
    observation is 100 times its step.
    """
    total = fragments * T + 1
    columns = []
    for b in range(B):
        column, episode = [], 0
        while len(column) < total:
            length = lengths[b][episode % len(lengths[b])]
            is_cut = cut[b][episode % len(cut[b])]
            column += [
                ((b, episode, step), step + 1, step == length - 1 and not is_cut, step == length - 1 and is_cut, True)
                for step in range(length)
            ]
            column.append(((b, episode, length), 0, False, False, False))
            episode += 1
        columns.append(column[:total])

    def part(index, kind, first, last):
        return np.array([[columns[b][t][index] for b in range(B)] for t in range(first, last)], kind)

    for i in range(fragments):
        first, last = i * T, (i + 1) * T
        obs = part(0, np.float32, first, last + 1)
        yield SampleBatch(
            obs=obs,
            values=100 * obs[..., 2],
            actions=obs[:-1, :, 2].astype(np.int64),
            rewards=part(1, np.float32, first, last),
            terminateds=part(2, bool, first, last),
            truncateds=part(3, bool, first, last),
            valid=part(4, bool, first, last),
        )


def test_an_episode_that_is_both_terminated_and_truncated_is_not_bootstrapped():
    item = next(fragments_of([[2], [2], [2]], [[True], [True], [False]], 1))
    item["terminateds"][1, 0] = True  # in addition to the truncation
    batch = CompleteEpisodes(0.5, use_baseline=True)(item)
    assert batch["value_targets"].tolist() == [[2.0, 2.0, 2.0 + 0.25 * 200, 2.0 + 0.5 * 200, 2.0, 2.0]]


def test_an_endless_episode_stops_training_with_an_error_before_memory_runs_out(monkeypatch, wording):
    monkeypatch.setattr(complete_episodes, "LONGEST_EPISODE", 9)
    operator, endless = CompleteEpisodes(0.9, use_baseline=True), fragments_of([[100]] * 3, [[False]] * 3, 3)
    operator(next(endless))
    operator(next(endless))
    with wording.raised(TrainingFailed, "env.max_episode_steps"):
        operator(next(endless))


lengths = st.lists(st.lists(st.integers(1, 11), min_size=1, max_size=3), min_size=B, max_size=B)
cuts = st.lists(st.lists(st.booleans(), min_size=1, max_size=3), min_size=B, max_size=B)


@given(lengths=lengths, cut=cuts, use_baseline=st.booleans())
def test_every_step_of_a_finished_episode_is_emitted_once_with_its_return(lengths, cut, use_baseline):
    gamma = 0.5
    operator = CompleteEpisodes(gamma, use_baseline)
    found, finished = {}, set()
    for item in fragments_of(lengths, cut, 8):
        batch = operator(item)
        assert batch["valid"].all()
        for b, episode, step in item["obs"][:-1][item["terminateds"] | item["truncateds"]].astype(int):
            finished.update((b, episode, earlier) for earlier in range(step + 1))
        for key, *numbers in zip(
            map(tuple, batch["obs"][0].astype(int)),
            batch["value_targets"][0],
            batch["advantages"][0],
            batch["actions"][0],
            strict=True,
        ):
            assert key not in found
            found[key] = numbers
    assert found.keys() == finished
    for (b, episode, step), (target, advantage, action) in found.items():
        length = lengths[b][episode % len(lengths[b])]
        final = 100.0 * length if use_baseline and cut[b][episode % len(cut[b])] else 0.0
        expected = sum(gamma ** (i - step) * (i + 1) for i in range(step, length)) + gamma ** (length - step) * final
        assert target == pytest.approx(expected, rel=rounding_error(8))
        assert advantage == pytest.approx(
            expected - (100.0 * step if use_baseline else 0.0),
            rel=rounding_error(8),
            abs=rounding_error(8, size=1000.0),
        )
        assert action == step


def test_steps_of_unfinished_episodes_survive_saving_and_loading_the_state():
    items = list(fragments_of([[9], [3], [11]], [[False], [True], [False]], 6))
    straight, first, second = (CompleteEpisodes(0.9, True) for _ in range(3))
    expected = [straight(item) for item in items]
    for item in items[:3]:
        first(item)
    second.load_state(first.state())
    for item, wanted in zip(items[3:], expected[3:], strict=True):
        got = second(item)
        assert got.keys() == wanted.keys()
        for name in wanted:
            np.testing.assert_array_equal(got[name], wanted[name])
