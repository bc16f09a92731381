import numpy as np
import pytest

from rlrun.algorithms.a2c import A2C, A2CConfig
from rlrun.engine.flow.operators.gradients import ComputeGradients
from rlrun.engine.flow.plan import plan_text
from rlrun.engine.messages.errors import UsageError

SMALL = {"num_envs_per_worker": 2, "rollout_fragment_length": 3, "model": {"hiddens": [4]}}


@pytest.fixture
def collecting(make_trainee):
    return make_trainee(A2C(A2CConfig(**SMALL)))


def test_a_second_stream_of_the_same_policys_fragments_is_refused_with_advice(collecting, wording):
    workers = collecting[0].workers
    first = workers.rollouts()
    with wording.raised(UsageError, "default"):
        workers.rollouts(mode="async")
    left, right = first.duplicate(2)
    assert plan_text(left.describe()) == wording("parallel_rollouts")
    assert right.describe()[-1].settings == {"index": 1}


def test_copies_of_a_policys_stream_deliver_the_same_fragments(collecting):
    trainee, workers = collecting
    left, right = trainee.workers.rollouts().duplicate(2)
    trainee.workers.send(trainee.weights())
    (first,), (second,) = left.take(1), right.take(1)
    assert first is second
    assert workers.counts.env_steps == np.count_nonzero(first["valid"])


def test_weights_contain_all_parameters_only_if_workers_compute_gradients(make_trainee):
    algorithm = A2C(A2CConfig(**SMALL))
    acting, learning = make_trainee(algorithm)[0], make_trainee(algorithm)[0]
    acting.workers.rollouts()
    learning.workers.rollouts(ComputeGradients(learning.learner_factory))
    assert (acting.workers.learns_on_workers, learning.workers.learns_on_workers) == (False, True)
    assert acting.weights().learning is None
    sent = learning.weights(optimizer=True).learning
    np.testing.assert_array_equal(sent.flat, learning.learner.flat())
    assert sent.target is None
    assert sent.optimizer.keys() == learning.learner.optimizer_state().keys()
    assert learning.weights().learning.optimizer == {}


def test_the_local_worker_delivers_fragments_and_never_references(collecting):
    trainee, _ = collecting
    flow = trainee.workers.rollouts(mode="async", deliver="references")
    trainee.workers.send(trainee.weights())
    assert plan_text(flow.describe()) == "parallel_rollouts(workers=local, mode=async, in_flight=2)"
    assert next(flow)["rewards"].shape == (3, 2)
