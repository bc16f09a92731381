import numpy as np

from rlrun.algorithms.dqn.apex import InitialPriorities
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.replay.local_replay import LocalReplay
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig
from tests.rounding import rounding_error


def oracle(batch, n_step, gamma):
    length, columns = batch["valid"].shape
    found = np.zeros((length, columns))
    for t, b in np.ndindex(length, columns):
        if not batch["valid"][t, b]:
            continue
        total, discount, at = 0.0, 1.0, t
        while at < length and at < t + n_step:
            total, discount, at = total + discount * batch["rewards"][at, b], discount * gamma, at + 1
            if batch["terminateds"][at - 1, b]:
                discount = 0.0
            if batch["terminateds"][at - 1, b] or batch["truncateds"][at - 1, b]:
                break
        ahead = batch["q_values"][at, b].max()
        found[t, b] = abs(total + discount * ahead - batch["q_values"][t, b, batch["actions"][t, b]])
    return found


def test_initial_priorities_are_td_errors_over_n_steps_or_until_the_end_of_the_episode():
    generator = np.random.default_rng(1)
    length, columns = 40, 3
    ends = generator.random((length, columns)) < 0.15
    valid = np.ones((length, columns), np.bool_)
    for t, b in zip(*ends.nonzero(), strict=True):
        if valid[t, b] and t + 1 < length:
            valid[t + 1, b] = False
    ends &= valid
    terminal = generator.random((length, columns)) < 0.5
    batch = SampleBatch(
        q_values=generator.normal(size=(length + 1, columns, 4)).astype(np.float32),
        actions=generator.integers(4, size=(length, columns)),
        rewards=generator.normal(size=(length, columns)).astype(np.float32),
        terminateds=ends & terminal,
        truncateds=ends & ~terminal,
        valid=valid,
    )
    for n_step in (1, 3, 50):
        added = InitialPriorities(n_step, 0.9)(batch)
        near = rounding_error(length)
        np.testing.assert_allclose(added["priorities"], oracle(batch, n_step, 0.9), rtol=near, atol=near)
        assert added["priorities"].dtype == np.float32
        assert "q_values" not in added
    assert "priorities" not in batch


def test_the_replay_buffer_samples_by_the_workers_initial_priorities():
    config = ReplayConfig(capacity=100, sampling="prioritized", priority_alpha=1.0)
    replay = ReplayBuffer(config, num_workers=1, n_step=1, gamma=0.9, seed=0)

    no_end = np.zeros((6, 2), np.bool_)
    errors = np.zeros((6, 2), np.float32)
    errors[4, 1] = 5.0
    fragment = SampleBatch(
        obs=np.arange(14, dtype=np.float32).reshape(7, 2, 1),
        actions=np.zeros((6, 2), np.int64),
        rewards=np.zeros((6, 2), np.float32),
        terminateds=no_end,
        truncateds=no_end,
        valid=~no_end,
        priorities=errors,
    )
    assert StoreToReplay(LocalReplay(replay, (0,)))((0, fragment)) is fragment
    assert replay.stored_steps == 12
    assert (replay.sample(50, 0)["obs"] == fragment["obs"][4, 1]).all()


def test_a_final_observation_without_allowed_actions_has_value_0():
    truncated = np.array([[False], [True], [False]])
    masked = np.full((4, 1, 2), -1e9, np.float32)
    masked[0], masked[1], masked[3] = [[1.0, 2.0]], [[3.0, -1e9]], [[5.0, 6.0]]
    batch = SampleBatch(
        q_values=masked,
        actions=np.array([[1], [0], [0]]),
        rewards=np.array([[0.5], [0.25], [0.0]], np.float32),
        terminateds=np.zeros((3, 1), np.bool_),
        truncateds=truncated,
        valid=np.array([[True], [True], [False]]),
    )
    added = InitialPriorities(1, 0.5)(batch)
    np.testing.assert_allclose(added["priorities"], [[2.0 - 0.5 - 0.5 * 3.0], [3.0 - 0.25], [0.0]])
