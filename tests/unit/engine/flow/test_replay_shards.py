from functools import partial

import numpy as np
import pytest

from rlrun import Apex, Training
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.operators.batch_refs import LeaveOnWorker
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.replay.replay_shards import ReplayShard, ReplayShards

SMALL = {
    "num_envs_per_worker": 2,
    "model": {"hiddens": [8]},
    "minibatch_size": 8,
    "learning_starts": 40,
    "rollout_fragment_length": 5,
    "min_env_steps_per_iteration": 100,
    "target_update_interval": 10,
    "replay": {"capacity": 400, "sampling": "prioritized"},
    "compile": False,
}


def fragments(number):
    generator = np.random.default_rng(0)
    last = generator.normal(size=(2, 3)).astype(np.float32)
    for _ in range(number):
        obs = generator.normal(size=(6, 2, 3)).astype(np.float32)
        obs[0], last = last, obs[-1]
        no_end = np.zeros((5, 2), np.bool_)
        yield SampleBatch(
            obs=obs,
            actions=generator.integers(2, size=(5, 2)),
            rewards=generator.normal(size=(5, 2)).astype(np.float32),
            terminateds=no_end,
            truncateds=no_end,
            valid=~no_end,
        )


@pytest.mark.parametrize("sampling", ["uniform", "prioritized"])
def test_a_shard_draws_the_same_samples_as_a_replay_buffer_with_equal_seed_and_fragments(sampling):
    settings = {"n_step": 3, "gamma": 0.9, "seed": 5}
    config = ReplayConfig(capacity=60, sampling=sampling)
    shard = ReplayShard(partial(ReplayBuffer, config, num_workers=2, **settings))
    replay = ReplayBuffer(config, num_workers=2, **settings)
    new = np.array([3, 4]), np.ones(2, np.float32)
    assert shard.sample(2, 4, 0, new) is None  # these priorities are for steps of a previous shard
    new, new_of_each = None, []
    for number, fragment in enumerate(fragments(12)):
        fragment["priorities"] = np.abs(fragment["rewards"])
        assert shard.add(number % 2, fragment) == (replay.add(number % 2, fragment), replay.num_bytes)
        for new_of_one in new_of_each:
            replay.update_priorities(*new_of_one)
        portion = shard.sample(3, 16, 10 * number, new)
        expected = [replay.sample(16, 10 * number) for _ in range(3)]
        for index, minibatch in enumerate(expected):
            assert portion.keys() == minibatch.keys()
            for name in minibatch:
                np.testing.assert_array_equal(portion[name][index], minibatch[name])
        new_of_each = [(one["indices"], np.arange(i, i + 16, dtype=np.float32)) for i, one in enumerate(expected)]
        new = tuple(np.concatenate(parts) for parts in zip(*new_of_each, strict=True))
    shard.update_priorities(*new)
    for new_of_one in new_of_each:
        replay.update_priorities(*new_of_one)
    another = ReplayShard(partial(ReplayBuffer, config, num_workers=2, **{**settings, "seed": 6}))
    another.load_state(shard.state())
    np.testing.assert_array_equal(another.sample(1, 9, 0, None)["indices"][0], replay.sample(9, 0)["indices"])


def test_a_small_fragment_is_sent_directly_instead_of_as_a_reference():
    (fragment,) = fragments(1)
    assert LeaveOnWorker()(fragment) is fragment


def test_workers_and_capacity_are_divided_among_the_shards():
    settings = {
        "n_step": 1,
        "gamma": 0.9,
        "seed": 1,
        "minibatches_in_flight": 4,
        "minibatches_per_fragment": 1,
        "timeout_s": 10.0,
        "max_restarts": 1,
    }
    shards = ReplayShards(ReplayConfig(capacity=100), 2, (1, 2, 3), **settings)
    assert shards._places == {1: (0, 0), 2: (0, 1), 3: (1, 0)}
    new_shard, _ = shards._start.args
    buffers = [new_shard(shard)()._buffer for shard in range(2)]
    assert [(own._ring.num_workers, own.config.capacity) for own in buffers] == [(2, 50), (1, 50)]
    assert len({own._generator.integers(2**60) for own in buffers}) == 2
    assert ReplayShards(ReplayConfig(), 5, (1, 2), **settings).num_shards == 2


def test_in_one_process_a_fixed_number_of_minibatches_follows_each_fragment_once_learning_starts():
    for minibatches in (1, 3):
        config = {**SMALL, "asynchrony": {"minibatches_per_fragment": minibatches, "weights_age": 5}}
        with Training("CartPole-v1", Apex(**config), seed=2) as training:
            learner, stored = training.running.trainee.learner, 0
            while stored < 200:
                before = learner.sgd_steps
                stored += int(next(training.running.flow)["valid"].sum())
                learned = learner.sgd_steps - before
                # The flow returns a fragment before it trains on the minibatches that this fragment makes due.
                assert learned in ((0,) if stored < 40 else (0, minibatches) if stored < 60 else (minibatches,))


def test_training_intensity_limits_the_minibatches_per_env_step():
    with Training("CartPole-v1", Apex(**SMALL, training_intensity=0.05), seed=2) as training:
        for _ in range(4):
            result = training.step()
            assert result["sgd_steps"] in {int(0.05 * (result["env_steps"] - 40)) - i for i in (0, 1)}
        assert result["minibatches_per_env_step"] < 0.06


def test_a_restored_single_process_run_with_always_fresh_weights_continues_bit_for_bit(tmp_path):
    with Training("CartPole-v1", Apex(**SMALL, asynchrony={"weights_age": 1}), seed=4) as training:
        for _ in range(2):
            training.step()
        training.save(tmp_path / "checkpoint")
        expected = training.step()
        flat = training.running.trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        result = restored.step()
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), flat)
    for name in ("env_steps", "sgd_steps", "episode_return_mean", "learner/grad_norm"):
        assert result[name] == expected[name]


def test_the_plan_shows_which_branches_run_concurrently():
    config = {"num_workers": 3, "asynchrony": {"replay_shards": 2}}
    (joined,) = Training("CartPole-v1", Apex(**config)).description.plan().describe()
    collecting, learning = joined.branches
    assert [info.name for info in collecting] == [
        "parallel_rollouts",
        "zip_with_worker",
        "StoreToReplay",
        "MergeFilters",
        "zip_with_worker",
        "SendWeights",
    ]
    assert [name for name, _ in collecting[0].on_workers] == [
        "InitialPriorities",
        "LowerProcessPriority",
        "LeaveOnWorker",
    ]
    assert collecting[2].settings == {"shards": 2, "capacity": 2_000_000}
    assert [info.name for info in learning] == [
        "replay_minibatches",
        "TrainOnMinibatch",
        "UpdatePriorities",
    ]
    assert learning[0].settings == {"minibatch_size": 512, "training_intensity": 1000.0, "learning_starts": 50_000}
