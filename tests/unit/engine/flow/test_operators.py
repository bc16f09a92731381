from dataclasses import replace

import numpy as np
import pytest

from rlrun.algorithms.impala.appo import AddTargetOutputs
from rlrun.engine.algorithm import Algorithm, AlgorithmConfig
from rlrun.engine.checkpoint.state_codec import decode, encode
from rlrun.engine.data.learning_rows import sequence_rows, whole_fragment_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.clock import Clock
from rlrun.engine.flow.flow import WorkerOperator
from rlrun.engine.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.minibatches import UpdateTargetNetwork
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters, SendWeights
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.flow.sources.items import from_items
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.counts import RolloutCounts
from rlrun.engine.rollout.worker import Orders
from tests.rounding import rounding_error


def constant_fragment(time=4, columns=2, reward=1.0):
    return SampleBatch(
        obs=np.zeros((time + 1, columns, 4), np.float32),
        values=np.zeros((time + 1, columns), np.float32),
        rewards=np.full((time, columns), reward, np.float32),
        terminateds=np.zeros((time, columns), bool),
        truncateds=np.zeros((time, columns), bool),
        valid=np.ones((time, columns), bool),
    )


def test_advantages_are_added_to_a_copy_of_the_fragment():
    item = constant_fragment(time=2, columns=1)
    item["values"][:] = 1.0
    done = ComputeAdvantages(gamma=0.5, gae_lambda=1.0)(item)
    assert done["advantages"][:, 0].tolist() == [0.75, 0.5]
    assert done["value_targets"][:, 0].tolist() == [1.75, 1.5]
    assert "advantages" not in item


def test_fragments_are_gathered_until_they_fill_a_batch():
    sizes = [batch.num_rows for batch in from_items([constant_fragment()] * 7).combine(ConcatBatches(20))]
    assert sizes == [24, 24]


def test_a_half_full_batch_survives_a_round_trip_through_its_state():
    first, second = ConcatBatches(16), ConcatBatches(16)
    assert list(first(constant_fragment(reward=1.0))) == []
    second.load_state(first.state())
    (batch,) = second(constant_fragment(reward=2.0))
    assert batch["rewards"][0].tolist() == [1.0, 1.0, 2.0, 2.0]
    assert second.state() == {"waiting": []}


def test_standardize_uses_only_valid_steps():
    item = constant_fragment()
    item["advantages"] = np.arange(8, dtype=np.float32).reshape(4, 2)
    item["valid"][3] = False
    done = Standardize("advantages")(item)["advantages"]
    assert done[:3].mean() == pytest.approx(0.0, abs=rounding_error(6))
    assert done[:3].std() == pytest.approx(1.0, abs=rounding_error(6))
    assert done[3].tolist() == [0.0, 0.0]


def test_an_exact_batch_has_the_requested_size_and_excess_steps_wait_for_the_next_batch():
    def column(first, number):
        return SampleBatch(number=np.arange(first, first + number)[None], valid=np.ones((1, number), bool))

    operator = ConcatBatches(5, exact=True)
    found = list(from_items([column(0, 3), column(3, 4), column(7, 0), column(7, 10)]).combine(operator))
    assert [batch["number"][0].tolist() for batch in found] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
        [10, 11, 12, 13, 14],
    ]
    assert operator.state()["waiting"][0]["number"].tolist() == [[15, 16]]


def test_a_row_of_a_whole_fragment_ends_with_an_invalid_cell_for_the_closing_observation():
    item = constant_fragment(time=3, columns=2)
    item["obs"][:] = np.arange(4)[:, None, None]
    item["terminateds"][0, 0], item["valid"][1, 0] = True, False
    rows = whole_fragment_rows(item)
    assert rows["obs"][..., 0].tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert rows["valid"].tolist() == [[True, False, True, False], [True, True, True, False]]
    assert rows["rewards"].tolist() == [[1, 0, 1, 0], [1, 1, 1, 0]]


class ValueOfRewards(Algorithm[AlgorithmConfig]):
    """Fits values to rewards; the tests call the operators directly."""

    Config = AlgorithmConfig

    def loss(self, outputs, batch, scheduled):
        return Loss(masked_mean((outputs.values - batch["rewards"]).square(), batch["valid"].float()), {})


class WithTarget(ValueOfRewards):
    has_target_network = True


@pytest.fixture
def trainee(make_trainee):
    return small(make_trainee)[0]


def small(make_trainee, algorithm=ValueOfRewards, **more):
    return make_trainee(algorithm(AlgorithmConfig(model={"hiddens": [4]}, lr=0.1, **more)))


class SentWeights:
    """Stand-in for remote workers that keeps what was sent to them."""

    def __init__(self):
        self.sent = []
        self.started = self
        self.counts = RolloutCounts()
        self.counts.env_steps = 70

    def order(self, orders, only=None):
        self.sent.append((only, orders))


def sent_by(workers):
    return [(only, orders.weights["default"]) for only, orders in workers.sent]


def test_a_worker_that_delivers_gets_new_weights_once_its_own_are_old_enough(trainee):
    workers = SentWeights()
    clock = Clock({"lr": 0.1}, workers.counts, trainee.start_learner)
    trainee = replace(trainee, workers=PolicyWorkers(workers, "default"), clock=clock)
    send = SendWeights(trainee, every=2)
    for worker, version in ((1, 0), (2, 0), (1, 1), (1, 2), (2, 3), (1, 3), (1, 1)):
        trainee.learner.weights_version = version
        assert send((worker, "batch")) == "batch"
    assert [(only, latest.version, latest.env_steps) for only, latest in sent_by(workers)] == [
        (1, 0, 70),
        (2, 0, 70),
        (1, 2, 70),
        (2, 3, 70),
        (1, 1, 70),  # after an older checkpoint was loaded
    ]
    assert workers.sent[0][1] is workers.sent[1][1]  # the same object, so that the object store holds it once


def test_weights_that_were_sent_before_a_restore_are_not_sent_again(trainee):
    workers = SentWeights()
    trainee = replace(trainee, workers=PolicyWorkers(workers, "default"))
    send, restored = SendWeights(trainee, every=2), SendWeights(trainee, every=2)
    trainee.learner.weights_version = 3
    send((1, "batch"))
    restored.load_state(decode(encode(send.state(), []), []))
    for version in (4, 5):
        trainee.learner.weights_version = version
        restored((1, "batch"))
    assert [(only, weights.version) for only, weights in sent_by(workers)] == [(1, 3), (1, 5)]


class NoteFilters(WorkerOperator):
    """Records how many observations the filters in its worker's weights have seen."""

    def __init__(self, counts):
        self.counts = counts

    def set_weights(self, weights):
        self.counts.append({name: moments.count for name, moments in weights.filters.items()})

    def __call__(self, item):
        return item


def test_filter_updates_of_workers_are_merged_once_and_sent_with_the_next_weights(make_trainee):
    trainee, workers = small(make_trainee, normalize_observations=True)
    sent = []
    flow = trainee.workers.rollouts(NoteFilters(sent)).for_each(MergeFilters(trainee))
    flow = flow.for_each(BroadcastWeights(trainee))
    workers.started.order(Orders({"default": trainee.weights()}))
    next(flow)
    assert workers.counts.take_filter_deltas("default") == {}
    next(flow)
    assert sent[0] == {}
    assert sent[2] == {"observations/": trainee.filters.moments["observations/"].count}
    assert 0 < sent[1]["observations/"] < sent[2]["observations/"]


def test_policy_lag_is_measured_in_batches(trainee):
    train = TrainOnBatch(trainee)
    trainee.learner.weights_version = 5
    item = constant_fragment()
    item["weights_version"] = np.broadcast_to(np.int32([[5, 2]]), (4, 2))
    assert train(item) is item
    assert trainee.learner.weights_version == 6
    assert trainee.lag.take() == {"policy_lag_mean": 1.5, "policy_lag_max": 3}
    assert trainee.lag.take() == {"policy_lag_mean": None, "policy_lag_max": None}


def test_rows_without_a_step_are_ignored_in_the_policy_lag(trainee):
    train = TrainOnBatch(trainee)
    trainee.learner.weights_version = 5
    item = constant_fragment()
    item["weights_version"] = np.broadcast_to(np.int32([[4, -100]]), (4, 2))
    item["valid"][:, 1] = False
    train(item)
    assert trainee.lag.take() == {"policy_lag_mean": 1.0, "policy_lag_max": 1}


@pytest.mark.parametrize("whole_fragments", [False, True])
def test_minibatches_are_sized_in_steps_but_never_split_whole_fragments(trainee, whole_fragments):
    train = TrainOnBatch(trainee, num_epochs=2, minibatch_size=8, whole_fragments=whole_fragments)
    item = constant_fragment(time=4, columns=6)
    item["weights_version"] = np.zeros((4, 6), np.int32)
    train(item)
    assert trainee.learner.sgd_steps == 2 * 3
    assert trainee.learner.last_batch["valid"].shape == ((6, 5) if whole_fragments else (24, 1))


def test_sequence_rows_are_packed_with_steps_and_start_with_the_preceding_state():
    """Slot 0 ends its episode at step 1: row 2 holds the final observation. Five rows do not divide by two."""
    item = SampleBatch(
        obs=np.arange(10.0).reshape(5, 2),
        episode_starts=np.array([[0, 1], [0, 0], [0, 0], [1, 0], [0, 0]], bool),
        state=np.arange(20.0).reshape(5, 2, 2),
        valid=np.array([[1, 1], [1, 1], [0, 1], [1, 1], [1, 1]], bool),
    )
    rows = sequence_rows(item, 2)
    assert rows["obs"].tolist() == [[0, 2], [1, 3], [6, 8], [5, 7], [0, 0], [9, 0]]
    assert rows["valid"].sum(1).tolist() == [2, 2, 2, 2, 0, 1]
    assert rows["episode_starts"].tolist() == [[0, 0], [1, 0], [1, 0], [0, 0], [0, 0], [0, 0]]
    assert rows["state"].tolist() == [[0, 1], [2, 3], [12, 13], [10, 11], [0, 0], [18, 19]]


def test_a_recurrent_network_does_not_learn_from_single_steps(trainee, wording):
    item = constant_fragment()
    item.update(weights_version=np.zeros((4, 2), np.int32), state=np.zeros((4, 2, 6), np.float32))
    with wording.raised(UsageError):
        TrainOnBatch(trainee)(item)


def test_the_target_network_changes_only_when_an_update_is_due(make_trainee):
    trainee, _ = small(make_trainee, WithTarget)
    learner = trainee.learner
    update = UpdateTargetNetwork(trainee, every=2)
    item = constant_fragment()
    item["weights_version"] = np.zeros((4, 2), np.int32)
    first = AddTargetOutputs(trainee)(item)["target_outputs"]
    assert first.shape == (4, 2, 2)
    train = TrainOnBatch(trainee)
    start = learner.flat()
    update(train(item))
    np.testing.assert_array_equal(learner.target(), start)
    restored = UpdateTargetNetwork(trainee, every=2)
    restored.load_state(update.state())
    restored(train(item))
    np.testing.assert_array_equal(learner.target(), learner.flat())
    assert (learner.target() != start).any()
