import gymnasium
import numpy as np
import pytest

from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.clock import Clock
from rlrun.flow.operators import (
    AddTargetOutputs,
    ComputeAdvantages,
    ConcatBatches,
    SendWeights,
    Standardize,
    TrainOneStep,
    UpdateTargetNetwork,
    whole_fragment_rows,
)
from rlrun.flow.sources import from_items
from rlrun.flow.trainee import Trainee
from rlrun.functional.masked import masked_mean
from rlrun.learner.local_learner import LocalLearner
from rlrun.learner.objective import Loss, Objective
from rlrun.nn.model_config import ModelConfig
from rlrun.policy.actor_critic import ActorCriticPolicy


def fragment(time=4, columns=2, reward=1.0):
    return SampleBatch(
        obs=np.zeros((time + 1, columns, 3), np.float32),
        values=np.zeros((time + 1, columns), np.float32),
        rewards=np.full((time, columns), reward, np.float32),
        terminateds=np.zeros((time, columns), bool),
        truncateds=np.zeros((time, columns), bool),
        valid=np.ones((time, columns), bool),
    )


def test_advantages_are_added_and_the_fragment_stays_as_it_was():
    item = fragment(time=2, columns=1)
    done = ComputeAdvantages(gamma=0.5, gae_lambda=1.0)(item)
    assert done["advantages"][:, 0].tolist() == [1.5, 1.0]
    assert done["value_targets"][:, 0].tolist() == [1.5, 1.0]
    assert "advantages" not in item


def test_fragments_are_gathered_until_they_fill_a_batch():
    sizes = [batch.num_rows for batch in from_items([fragment()] * 7).combine(ConcatBatches(20))]
    assert sizes == [24, 24]


def test_a_half_full_batch_survives_a_round_trip_through_its_state():
    first, second = ConcatBatches(16), ConcatBatches(16)
    assert list(first(fragment(reward=1.0))) == []
    second.load_state(first.state())
    (batch,) = second(fragment(reward=2.0))
    assert batch["rewards"][0].tolist() == [1.0, 1.0, 2.0, 2.0]
    assert second.state() == {"waiting": []}


def test_standardising_counts_valid_steps_only():
    item = fragment()
    item["advantages"] = np.arange(8, dtype=np.float32).reshape(4, 2)
    item["valid"][3] = False
    done = Standardize("advantages")(item)["advantages"]
    assert done[:3].mean() == pytest.approx(0.0, abs=1e-6)
    assert done[:3].std() == pytest.approx(1.0, abs=1e-6)
    assert done[3].tolist() == [0.0, 0.0]


def test_an_exact_batch_holds_so_many_steps_and_the_rest_waits_for_the_next():
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


def test_a_row_of_a_whole_fragment_ends_with_an_empty_cell_that_keeps_its_observation():
    item = fragment(time=3, columns=2)
    item["obs"][:] = np.arange(4)[:, None, None]
    item["valid"][1, 0] = False
    rows = whole_fragment_rows(item)
    assert rows["obs"][..., 0].tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert rows["valid"].tolist() == [[True, False, True, False], [True, True, True, False]]
    assert rows["rewards"].tolist() == [[1, 0, 1, 0], [1, 1, 1, 0]]


class Told:
    """Stands where the workers stand, and keeps what it was told."""

    def __init__(self):
        self.env_steps = 70
        self.sent = []

    def set_weights(self, weights, only=None):
        self.sent.append((only, weights["default"]))


def small_learner(**more):
    policy = ActorCriticPolicy(
        gymnasium.spaces.Box(-1, 1, (3,)),
        gymnasium.spaces.Discrete(2),
        ModelConfig(hiddens=(4,)),
        normalize_observations=False,
        seed=1,
    )

    def loss(outputs, batch, scheduled):
        valid = batch["valid"].float()
        return Loss(masked_mean((outputs.values - batch["rewards"]).square(), valid), {})

    settings = {"device": "cpu", "compile_updates": False, "identity": None, "seed": 0, **more}
    return LocalLearner(policy, [Objective("loss", loss)], **settings)


def trainee_of(learner, workers):
    return Trainee(learner, workers, Clock({"lr": 0.1}, workers))


def test_weights_go_to_the_worker_that_delivered_once_its_own_are_old_enough():
    learner, workers = small_learner(), Told()
    send = SendWeights(trainee_of(learner, workers), every=2)
    for worker, version in ((1, 0), (2, 0), (1, 1), (1, 2), (2, 3), (1, 3), (1, 1)):
        learner.weights_version = version
        assert send((worker, "batch")) == "batch"
    assert [(only, weights.version, weights.env_steps) for only, weights in workers.sent] == [
        (1, 0, 70),
        (2, 0, 70),
        (1, 2, 70),
        (2, 3, 70),
        (1, 1, 70),  # after an older checkpoint was loaded
    ]
    assert workers.sent[0][1] is workers.sent[1][1]  # one object for the object store


def test_the_age_of_the_weights_that_acted_is_measured_in_batches():
    learner, workers = small_learner(), Told()
    trainee = trainee_of(learner, workers)
    train = TrainOneStep(trainee)
    learner.weights_version = 5
    item = fragment()
    item["weights_version"] = np.broadcast_to(np.int32([[5, 2]]), (4, 2))
    train(item)
    assert learner.weights_version == 6
    assert trainee.lag.take() == {"policy_lag_mean": 1.5, "policy_lag_max": 3}
    assert trainee.lag.take() == {"policy_lag_mean": None, "policy_lag_max": None}


@pytest.mark.parametrize("whole_fragments", [False, True])
def test_a_minibatch_counts_steps_and_whole_fragments_are_not_cut(whole_fragments):
    learner = small_learner()
    passes = {"num_epochs": 2, "minibatch_size": 8, "whole_fragments": whole_fragments}
    train = TrainOneStep(trainee_of(learner, Told()), **passes)
    item = fragment(time=4, columns=6)
    item["weights_version"] = np.zeros((4, 6), np.int32)
    train(item)
    assert learner.sgd_steps == 2 * 3
    assert learner.last_batch["valid"].shape == ((6, 5) if whole_fragments else (24, 1))


def test_the_target_network_stays_behind_until_it_is_due():
    learner, workers = small_learner(has_target=True), Told()
    update = UpdateTargetNetwork(learner, every=2)
    item = fragment()
    item["weights_version"] = np.zeros((4, 2), np.int32)
    first = AddTargetOutputs(learner)(item)["target_outputs"]
    assert first.shape == (4, 2, 2)
    train = TrainOneStep(trainee_of(learner, workers))
    start = learner.flat()
    update(train(item))
    np.testing.assert_array_equal(learner.target(), start)
    restored = UpdateTargetNetwork(learner, every=2)
    restored.load_state(update.state())
    restored(train(item))
    np.testing.assert_array_equal(learner.target(), learner.flat())
    assert (learner.target() != start).any()
