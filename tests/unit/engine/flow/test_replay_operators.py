import numpy as np
import pytest

from rlrun.algorithms.dqn.dqn import DQN, DQNConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import FlowStalled
from rlrun.engine.flow.nodes import Delivered
from rlrun.engine.flow.operators.minibatches import TrainedMinibatch, TrainOnMinibatch
from rlrun.engine.flow.operators.replay import StoreToReplay, UpdatePriorities
from rlrun.engine.flow.recipes.replay_updates import replay_updates
from rlrun.engine.flow.sources.items import from_items
from rlrun.engine.flow.sources.replay_minibatches import replay_minibatches
from rlrun.engine.functional.moments import Moments
from rlrun.engine.replay.local_replay import LocalReplay
from rlrun.engine.replay.replay import ReplayRatio
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig
from tests.rounding import rounding_error

EVERY_STEP = ReplayRatio(training_intensity=1.0, learning_starts=0)


@pytest.fixture
def trainee(make_trainee):
    return make_trainee(DQN(DQNConfig(model={"hiddens": [4]}, num_envs_per_worker=2, rollout_fragment_length=3)))[0]


def numbered_fragment(first, length=3):
    """Returns steps of one env slot whose observations count on from a number."""
    shape = (length, 1)
    numbers = np.arange(first, first + length + 1, dtype=np.float32)[:, None, None]
    return SampleBatch(
        obs=np.repeat(numbers, 4, axis=-1),
        actions=np.zeros(shape, np.int64),
        rewards=np.ones(shape, np.float32),
        terminateds=np.zeros(shape, bool),
        truncateds=np.zeros(shape, bool),
        valid=np.ones(shape, bool),
    )


def replay_of(workers, **settings):
    config = ReplayConfig(capacity=40, **settings)
    return LocalReplay(ReplayBuffer(config, num_workers=len(workers), n_step=1, gamma=0.9, seed=0), workers)


def test_each_workers_fragments_are_stored_as_one_stream_and_passed_on_unchanged():
    replay = replay_of((4, 7))
    first = {4: 0, 7: 100}
    pairs = [(worker, numbered_fragment(first[worker] + 3 * i)) for i in range(2) for worker in (4, 7)]
    stored = list(from_items(pairs).for_each(StoreToReplay(replay)))
    assert all(item is given for item, (_, given) in zip(stored, pairs, strict=True))
    assert replay.stored_steps == 12
    drawn = replay.sample(400, 0, EVERY_STEP)
    seen = set(zip(drawn["obs"][:, 0, 0].tolist(), drawn["next_obs"][:, 0, 0].tolist(), strict=True))
    # A step is followed by the next step of the same worker, even where a fragment ends.
    assert seen == {(n, n + 1) for start in (0, 100) for n in range(start, start + 6)}


def test_the_operator_that_fills_a_replay_buffer_saves_it_and_its_random_state():
    replay, restored = replay_of((0,)), replay_of((0,))
    store, other = StoreToReplay(replay), StoreToReplay(restored)
    store((0, numbered_fragment(0)))
    other.load_state(store.state())
    for each in (store, other):
        each((0, numbered_fragment(3)))
    assert restored.stored_steps == 6
    drawn, again = replay.sample(5, 0, EVERY_STEP), restored.sample(5, 0, EVERY_STEP)
    np.testing.assert_array_equal(again["indices"], drawn["indices"])
    np.testing.assert_array_equal(again["obs"], drawn["obs"])
    assert store.metrics() == {"replay/gigabytes": replay.experience.num_bytes / 1e9}
    assert store.pending() is None


def test_minibatches_are_drawn_in_proportion_to_the_steps_stored_after_learning_starts(trainee, wording):
    replay = replay_of((0,))
    store = StoreToReplay(replay)
    minibatches = replay_minibatches(replay, trainee, minibatch_size=5, training_intensity=0.5, learning_starts=4)
    counts = []
    for i in range(4):
        store((0, numbered_fragment(3 * i)))
        counts.append(0)
        while isinstance(polled := minibatches.node.poll(), Delivered):
            assert polled.value["rewards"].shape == (5, 1)
            counts[-1] += 1
    with wording.raised(FlowStalled):
        next(minibatches)
    assert np.cumsum(counts).tolist() == [0, 1, 2, 4]  # half of the steps after the first 4, rounded down


def test_the_buffer_keeps_raw_observations_and_minibatches_use_current_statistics(make_trainee):
    config = DQNConfig(
        model={"hiddens": [4]}, num_envs_per_worker=2, rollout_fragment_length=3, normalize_observations=True
    )
    trainee, *_ = make_trainee(DQN(config))
    replay = replay_of((0,))
    StoreToReplay(replay)((0, numbered_fragment(0)))
    settings = {"minibatch_size": 3, "training_intensity": 1.0, "learning_starts": 0}
    raw = replay_minibatches(replay, trainee, **settings)
    normalized = replay_minibatches(replay, trainee, **settings, normalize_observations=True)
    trainee.filters.merge({"observations/": Moments(100.0, np.full(4, 1.0), np.full(4, 400.0))})
    assert set(next(raw)["obs"].ravel()) <= {0.0, 1.0, 2.0}
    batch = next(normalized)
    assert set(batch["obs"].ravel().round(4)) <= {-0.5, 0.0, 0.5}
    np.testing.assert_allclose(batch["next_obs"], batch["obs"] + 0.5, atol=rounding_error(4))


def test_updated_priorities_determine_what_is_sampled_next(trainee):
    replay = replay_of((0,), sampling="prioritized", priority_alpha=1.0, priority_epsilon=1e-9)
    StoreToReplay(replay)((0, numbered_fragment(0)))
    item = TrainedMinibatch(np.array([0, 1, 2]), np.array([0.0, 2.0, 0.0], np.float32))
    assert UpdatePriorities(replay)(item) is item
    assert set(replay.sample(50, 0, EVERY_STEP)["obs"][..., 0].ravel()) == {1.0}
    assert UpdatePriorities(replay)(TrainedMinibatch(np.array([0, 1, 2]), np.zeros(0, np.float32)))  # no new priorities
    assert set(replay.sample(50, 0, EVERY_STEP)["obs"][..., 0].ravel()) == {1.0}


def test_training_on_a_minibatch_takes_one_sgd_step_and_returns_one_priority_per_row(trainee):
    config = ReplayConfig(capacity=100)
    replay = trainee.make_replay(config, n_step=1, gamma=0.9)
    train = TrainOnMinibatch(trainee)
    store = trainee.workers.rollouts().zip_with_worker().for_each(StoreToReplay(replay))
    settings = {"minibatch_size": 7, "training_intensity": 0.5, "learning_starts": 0}
    flow = store.followed_by(replay_minibatches(replay, trainee, **settings).for_each(train))
    trainee.workers.send(trainee.weights())
    trainee.clock.begin_iteration()
    before = trainee.learner.flat()
    flow.take(4)
    steps = trainee.clock.env_steps
    assert trainee.learner.sgd_steps == steps // 2
    assert (trainee.learner.flat() != before).any()
    assert flow.metrics()["minibatches_per_env_step"] == pytest.approx((steps // 2) / steps)
    assert flow.metrics()["minibatches_per_env_step"] == 0.0
    minibatch = replay.experience.sample(7, 0)
    trained = train(minibatch)
    np.testing.assert_array_equal(trained.indices, minibatch["indices"])
    assert trained.priorities.shape == (7,)


def learned_with(make_trainee, most_together, **settings):
    """Returns the number of minibatches of each item, and the trainee after two fragments."""
    config = DQNConfig(
        model={"hiddens": [4]},
        num_envs_per_worker=2,
        rollout_fragment_length=4,
        minibatch_size=3,
        training_intensity=1.0,
        learning_starts=0,
        target_update_interval=5,
        **settings,
    )
    trainee, _ = make_trainee(DQN(config))
    replay, numbers = trainee.make_replay(config.replay, n_step=1, gamma=0.9), []
    updates = replay_updates(replay, trainee, config, most_together)
    updates = updates.for_each(lambda item: numbers.append(item.number) or item)
    trainee.workers.send(trainee.weights())
    store = trainee.workers.rollouts().zip_with_worker().for_each(StoreToReplay(replay))
    store.followed_by(updates).take(2)
    return numbers, trainee


def test_minibatches_due_together_form_one_item_and_update_the_target_as_separate_ones_do(make_trainee):
    numbers, together = learned_with(make_trainee, 16)
    assert numbers == [8, 8]  # after 8 and 16 env steps
    numbers, one_by_one = learned_with(make_trainee, 1)
    assert numbers == [1] * 16
    assert together.learner.sgd_steps == together.learner.weights_version == 16
    np.testing.assert_array_equal(together.learner.flat(), one_by_one.learner.flat())
    np.testing.assert_array_equal(together.learner.target(), one_by_one.learner.target())
    assert together.learner.take_statistics() == one_by_one.learner.take_statistics()


def test_prioritized_minibatches_are_separate_items_as_each_needs_the_previous_priorities(make_trainee):
    numbers, _ = learned_with(make_trainee, 16, replay={"sampling": "prioritized"})
    assert numbers == [1] * 16
