from dataclasses import replace

import numpy as np
import pytest

from rlrun.algorithms.a2c import A2C
from rlrun.algorithms.ddppo.all_reduce_sgd import standardized_together
from rlrun.algorithms.impala.impala import Impala
from rlrun.engine.checkpoint.state_codec import decode, encode
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import WorkerOperator
from rlrun.engine.flow.operators.advantages import ComputeAdvantages
from rlrun.engine.flow.operators.gradients import ApplyGradients, ComputeGradients
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.policy_workers import OperatorChain
from rlrun.engine.functional.masked import standardized
from rlrun.engine.rollout.worker import Orders
from tests.rounding import rounding_error

SMALL = {"num_envs_per_worker": 3, "rollout_fragment_length": 4, "model": {"hiddens": [8]}, "lr": 0.01}


def learning(make_trainee, algorithm=A2C):
    """Returns a trainee whose weights include everything that the workers need to learn, and its workers."""
    trainee, workers = make_trainee(algorithm(algorithm.Config(**SMALL)))
    trainee.workers.learns_on_workers = True
    workers.started.order(Orders({"default": trainee.weights()}))
    return trainee, workers


def saved_and_loaded(state):
    """Returns a state after a round trip through a checkpoint."""
    arrays = []
    return decode(encode(state, arrays), arrays)


def fragment_with_advantages(workers):
    """Returns a fragment [T, B] with advantages that the local worker has just collected."""
    workers.started.request(0)
    (rollout,) = workers.started.arrived()
    return ComputeAdvantages(0.9, 0.9)(rollout.batches["default"])


@pytest.mark.parametrize("algorithm", [A2C, Impala])
def test_applying_gradients_from_a_worker_equals_one_local_sgd_step(make_trainee, algorithm):
    trainee, workers = learning(make_trainee, algorithm)
    whole_fragments = algorithm is Impala
    compute = ComputeGradients(trainee.learner_factory, whole_fragments=whole_fragments)
    compute.set_weights(trainee.weights())
    batch = fragment_with_advantages(workers)
    batch["valid"][2, 1] = False
    gradients = compute(batch)
    assert (gradients["steps"], gradients["weights_version"]) == (11, 0)
    assert compute(batch)["sums"].tolist() == gradients["sums"].tolist()
    travelled = saved_and_loaded(dict(gradients))
    assert ApplyGradients(trainee)((0, travelled)) is travelled
    other = trainee.learner_factory()
    versions = np.zeros(batch["valid"].shape, np.int32)
    train = TrainOnBatch(replace(trainee, start_learner=lambda: other), whole_fragments=whole_fragments)
    train(SampleBatch(batch, weights_version=versions))
    assert trainee.learner.sgd_steps == other.sgd_steps == 1
    np.testing.assert_allclose(trainee.learner.flat(), other.flat(), atol=rounding_error(12))
    own, expected = trainee.learner.take_statistics(), other.take_statistics()
    assert own == pytest.approx(expected, rel=rounding_error(12), abs=rounding_error(12))


def test_gradients_are_computed_with_the_weights_that_were_last_received(make_trainee, wording):
    trainee, workers = learning(make_trainee)
    compute = ComputeGradients(trainee.learner_factory)
    batch = fragment_with_advantages(workers)
    with wording.raised(RuntimeError):
        compute(batch)
    compute.set_weights(trainee.weights())
    first = compute(batch)["sums"]
    trainee.learner.load_flat(trainee.learner.flat() + np.float32(0.1))
    assert compute(batch)["sums"].tolist() == first.tolist()
    compute.set_weights(trainee.weights())
    assert np.abs(compute(batch)["sums"] - first).max() > 1e-3


def test_the_workers_shares_of_gradients_and_the_lag_of_each_gradient_are_counted(make_trainee):
    trainee, workers = learning(make_trainee)
    workers.indices = (1, 2, 3)
    compute, applied = ComputeGradients(trainee.learner_factory), ApplyGradients(trainee)
    compute.set_weights(trainee.weights())
    gradients = compute(fragment_with_advantages(workers))
    for worker in (1, 2, 1, 1):
        applied((worker, gradients))
    assert applied.metrics() == {
        "gradient_share/worker_1": 0.75,
        "gradient_share/worker_2": 0.25,
        "gradient_share/worker_3": 0.0,
    }
    assert set(applied.metrics().values()) == {0.0}
    assert trainee.lag.take() == {"policy_lag_mean": 1.5, "policy_lag_max": 3}
    assert trainee.learner.sgd_steps == 4


def test_a_gradient_that_waits_in_the_source_survives_a_checkpoint(make_trainee):
    states = []
    for restores in (False, True):
        trainee, workers = make_trainee(A2C(A2C.Config(**SMALL)))
        flow = trainee.workers.rollouts(ComputeAdvantages(0.9, 0.9), ComputeGradients(trainee.learner_factory))
        trainee.workers.send(trainee.weights())
        if restores:
            workers.load_state(states[0]["workers"])
            flow.load_state(states[0]["flow"])
        else:
            workers.started.request(0)
            (rollout,) = workers.started.arrived()
            flow.node.receive(rollout)
            states.append(saved_and_loaded({"workers": workers.state(), "flow": flow.state()}))
        states.append([gradients["sums"].tolist() for gradients in flow.take(3)])
    assert states[1] == states[2]


class Told(WorkerOperator):
    """Records what it is told."""

    def __init__(self, notes, worker=None):
        self.notes = notes
        self.worker = worker

    def for_worker(self, worker):
        return Told(self.notes, worker)

    def begin(self):
        self.notes.append((self.worker, "begins"))

    def set_weights(self, weights):
        self.notes.append((self.worker, weights.version))

    def close(self):
        self.notes.append((self.worker, "closed"))

    def __call__(self, item):
        return item


def test_operators_on_a_worker_are_told_its_index_and_each_new_policy_version(make_trainee):
    trainee, workers = make_trainee(A2C(A2C.Config(**SMALL)))
    notes = []
    flow = trainee.workers.rollouts(Told(notes), dict)
    for _ in range(2):
        trainee.workers.send(trainee.weights())
        trainee.learner.weights_version += 1
    flow.take(1)
    workers.close()
    assert notes == [(0, "begins"), (0, 0), (0, 1), (0, "closed"), (None, "closed")]
    assert OperatorChain([Told(notes), dict]).for_worker(3).operators[0].worker == 3


def test_standardizing_across_processes_equals_standardizing_their_data_in_one_process():
    generator = np.random.default_rng(0)
    x = generator.normal(3.0, 2.0, (5, 4)).astype(np.float32)
    valid = generator.random((5, 4)) < 0.7
    deviations = (x - x[valid].mean(dtype=np.float64))[valid]
    totals = [[valid.sum(), x[valid].sum(dtype=np.float64)], [np.square(deviations).sum()]]
    for part in (slice(0, 3), slice(3, 4)):
        asked = []

        def added_up(numbers, asked=asked):
            asked.append(list(numbers))
            return np.array(totals[len(asked) - 1], np.float64)

        own, steps = standardized_together(x[:, part], valid[:, part], added_up)
        np.testing.assert_allclose(own, standardized(x, valid)[:, part], atol=rounding_error(x.size))
        assert steps == valid.sum()
        assert asked[0] == [valid[:, part].sum(), pytest.approx(x[:, part][valid[:, part]].sum())]
