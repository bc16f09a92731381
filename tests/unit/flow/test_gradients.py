from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from rlrun.algorithms.a2c import A2C
from rlrun.algorithms.impala import Impala
from rlrun.checkpoint.state_codec import decode, encode
from rlrun.flow.decentralized import standardized_together
from rlrun.flow.flow import WorkerOperator
from rlrun.flow.gradients import ApplyGradients, ComputeGradients, parallel_gradients
from rlrun.flow.operators import ComputeAdvantages, TrainOneStep
from rlrun.flow.sources import OperatorChain, parallel_rollouts
from rlrun.functional.masked import standardized

SMALL = {"num_envs_per_worker": 3, "rollout_fragment_length": 4, "model": {"hiddens": [8]}, "lr": 0.01}


def started(algorithm_class):
    algorithm = algorithm_class("CartPole-v1", SMALL, seed=1)
    algorithm.start()
    return algorithm, partial(algorithm.make_learner, compile_updates=False)


def saved_and_loaded(state):
    """Returns what a checkpoint makes of a state."""
    arrays = []
    return decode(encode(state, arrays), arrays)


def fragment(algorithm):
    """Returns a fragment [T, B] that the algorithm's local worker has just collected."""
    return algorithm.workers.local.sample().batches["default"]


@pytest.mark.parametrize("algorithm_class", [A2C, Impala])
def test_a_gradient_that_travels_moves_the_parameters_as_one_step_of_sgd_does(algorithm_class):
    algorithm, make_learner = started(algorithm_class)
    whole_fragments = algorithm_class is Impala
    compute = ComputeGradients(make_learner, whole_fragments=whole_fragments)
    compute.set_weights(algorithm.trainee.learning_weights())
    batch = ComputeAdvantages(0.9, 0.9)(fragment(algorithm))
    batch["valid"][2, 1] = False
    gradients = compute(batch)
    assert (gradients["steps"], gradients["weights_version"]) == (11, 0)
    assert compute(batch)["sums"].tolist() == gradients["sums"].tolist()
    travelled = saved_and_loaded(dict(gradients))
    result = ApplyGradients(algorithm.trainee)((0, travelled))
    assert result.batch_steps == 11
    other = make_learner()
    versions = np.zeros(batch["valid"].shape, np.int32)
    train = TrainOneStep(replace(algorithm.trainee, learner=other), whole_fragments=whole_fragments)
    train({**batch, "weights_version": versions})
    np.testing.assert_allclose(algorithm.learner.flat(), other.flat(), rtol=1e-6, atol=1e-6)
    own, expected = algorithm.learner.take_statistics(), other.take_statistics()
    assert own == pytest.approx(expected, rel=1e-5)
    algorithm.close()


def test_gradients_are_those_at_the_weights_that_acted():
    algorithm, make_learner = started(A2C)
    compute = ComputeGradients(make_learner)
    batch = ComputeAdvantages(0.9, 0.9)(fragment(algorithm))
    with pytest.raises(RuntimeError, match="computed at weights, and none have arrived"):
        compute(batch)
    compute.set_weights(algorithm.trainee.learning_weights())
    first = compute(batch)["sums"]
    algorithm.learner.load_flat(algorithm.learner.flat() + np.float32(0.1))
    assert compute(batch)["sums"].tolist() == first.tolist()
    compute.set_weights(algorithm.trainee.learning_weights())
    assert np.abs(compute(batch)["sums"] - first).max() > 1e-3
    algorithm.close()


def test_shares_and_lag_are_counted_per_gradient():
    algorithm, make_learner = started(A2C)
    algorithm.workers.indices = (1, 2, 3)
    compute, applied = ComputeGradients(make_learner), ApplyGradients(algorithm.trainee)
    compute.set_weights(algorithm.trainee.learning_weights())
    gradients = compute(ComputeAdvantages(0.9, 0.9)(fragment(algorithm)))
    for worker in (1, 2, 1, 1):
        applied((worker, gradients))
    assert applied.take_shares() == {
        "gradient_share/worker_1": 0.75,
        "gradient_share/worker_2": 0.25,
        "gradient_share/worker_3": 0.0,
    }
    assert set(applied.take_shares().values()) == {0.0}
    assert algorithm.trainee.lag.take() == {"policy_lag_mean": 1.5, "policy_lag_max": 3}
    assert algorithm.learner.sgd_steps == 4
    algorithm.workers.indices = (0,)
    algorithm.close()


def test_a_gradient_that_waits_in_the_source_survives_a_checkpoint():
    states = []
    for restores in (False, True):
        algorithm, make_learner = started(A2C)
        algorithm.close()
        workers = algorithm._worker_set({"default": algorithm.learner.policy.behavior()})
        flow = parallel_gradients(workers, make_learner, ComputeAdvantages(0.9, 0.9))
        workers.set_weights({"default": algorithm.trainee.learning_weights()})
        if restores:
            workers.load_state(states[0]["workers"])
            flow.load_state(states[0]["flow"])
        else:
            workers.request(0)
            (rollout,) = workers.arrived()
            flow.node.receive(rollout)
            states.append(saved_and_loaded({"workers": workers.state(), "flow": flow.state()}))
        states.append([gradients["sums"].tolist() for gradients in flow.take(3)])
        workers.close()
    assert states[1] == states[2]


class Told(WorkerOperator):
    """Writes down what it is told."""

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


def test_operators_on_a_worker_learn_which_one_it_is_and_what_acts_there():
    algorithm, _ = started(A2C)
    algorithm.close()
    notes = []
    workers = algorithm._worker_set({"default": algorithm.learner.policy.behavior()})
    flow = parallel_rollouts(workers, Told(notes), dict)
    for _ in range(2):
        workers.set_weights({"default": algorithm.trainee.learning_weights()})
        algorithm.learner.weights_version += 1
    flow.take(1)
    workers.close()
    assert notes == [(0, "begins"), (0, 0), (0, 1), (0, "closed"), (None, "closed")]
    assert OperatorChain([Told(notes), dict]).for_worker(3).operators[0].worker == 3


def test_standardising_over_several_processes_is_standardising_all_that_they_have():
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
        np.testing.assert_allclose(own, standardized(x, valid)[:, part], atol=1e-6)
        assert steps == valid.sum()
        assert asked[0] == [valid[:, part].sum(), pytest.approx(x[:, part][valid[:, part]].sum())]
