"""MAPPO and IPPO: what the value sees, how it is normalised, and what its errors cost."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlrun.algorithms.ippo import IPPO, IPPOConfig
from rlrun.algorithms.mappo import MAPPO, MAPPOConfig
from rlrun.data.sample_batch import WORLD_STATE, SampleBatch
from rlrun.envs.spaces import Spaces
from rlrun.errors import UsageError
from rlrun.policy.recordings import denormalized
from rlrun.policy.state_value import MOMENTS
from rlrun.policy.value_norm import DECAY, normalized, updated
from rlrun.policy.weights import Weights
from rlrun.training.training import Training
from rlrun.worlds.world import WorldView
from rlrun.worlds.world_config import WorldConfig
from tests.rounding import rounding_error

SPACES = Spaces(Box(-1, 1, (2,)), Discrete(3))
MASKED = Spaces(Dict({"action_mask": MultiBinary(3), "seen": Box(-1, 1, (2,))}), Discrete(3))
WORLD = WorldView(Box(-1, 1, (4,)), 2, "parallel")
SCHEDULED = {"clip_param": torch.tensor(0.2), "entropy_coeff": torch.tensor(0.0), "lr": torch.tensor(1e-3)}
TARGETS = torch.tensor([[4.0], [-2.0], [10.0], [0.0]])
VALID = torch.tensor([[1.0], [1.0], [1.0], [0.0]])


def test_moments_are_those_of_the_first_minibatch_whatever_they_began_with() -> None:
    moments = updated(torch.zeros(3), TARGETS, VALID)
    mean, square = moments[0] / moments[2], moments[1] / moments[2]
    assert mean.item() == pytest.approx(4.0)
    assert square.item() == pytest.approx(40.0)


def test_later_minibatches_weigh_more_by_the_decay() -> None:
    moments = updated(updated(torch.zeros(3), TARGETS, VALID), torch.full((4, 1), 7.0), VALID)
    expected = (DECAY * 4.0 + 7.0) / (DECAY + 1)
    assert (moments[0] / moments[2]).item() == pytest.approx(expected, rel=rounding_error(2 * 4))


def test_before_the_first_targets_values_stay_as_they_are() -> None:
    values = np.array([-3.0, 5.0], np.float32)
    np.testing.assert_array_equal(denormalized(values, np.zeros(3, np.float32)), values)
    np.testing.assert_array_equal(normalized(torch.from_numpy(values), torch.zeros(3)), values)


@settings(max_examples=20, deadline=None)
@given(
    values=arrays(np.float32, 5, elements=st.floats(-100, 100, width=32)),
    targets=arrays(np.float32, (6, 1), elements=st.floats(-100, 100, width=32)),
)
def test_what_acts_undoes_the_normalisation_of_what_learns(values: np.ndarray, targets: np.ndarray) -> None:
    moments = updated(torch.zeros(3), torch.from_numpy(targets), torch.ones(6, 1))
    back = denormalized(normalized(torch.from_numpy(values), moments).numpy(), moments.numpy())
    np.testing.assert_allclose(back, values, atol=rounding_error(6, size=100.0**2))


def batch_for(policy_spaces: Spaces, state: torch.Tensor) -> SampleBatch:
    seen = torch.zeros(4, 1, 2)
    masked = {"action_mask": torch.ones(4, 1, 3, dtype=torch.int8), "seen": seen}
    return SampleBatch(
        obs=masked if policy_spaces is MASKED else seen,
        actions=torch.zeros(4, 1, dtype=torch.int64),
        logp=torch.full((4, 1), float(np.log(1 / 3))),
        advantages=torch.zeros(4, 1),
        values=torch.zeros(4, 1),
        value_targets=TARGETS,
        valid=VALID.bool(),
        **{WORLD_STATE: state},
    )


@pytest.mark.parametrize("spaces", [SPACES, MASKED])
@pytest.mark.parametrize("sees_observation", [True, False])
def test_the_value_sees_the_state_and_the_policy_does_not(spaces: Spaces, sees_observation: bool) -> None:
    algorithm = MAPPO(MAPPOConfig(value_sees_observation=sees_observation))
    policy = algorithm.policy_in_world(spaces, WORLD, seed=0)
    views = policy.parameters.views(policy.parameters.gather(policy.module))
    states = torch.rand(4, 1, 4, generator=torch.Generator().manual_seed(0))
    one, other = (policy.outputs(views, batch_for(spaces, state)) for state in (states, states.roll(1, 0)))
    torch.testing.assert_close(one.values.roll(1, 0), other.values)
    assert len(one.values.unique()) == 4
    torch.testing.assert_close(one.distribution.entropy(), other.distribution.entropy())


def loss_of(**config: float | None) -> torch.Tensor:
    algorithm = MAPPO(MAPPOConfig(**config))
    policy = algorithm.policy_in_world(SPACES, WORLD, seed=0)
    flat = policy.parameters.gather(policy.module)
    outputs = policy.outputs(policy.parameters.views(torch.zeros_like(flat)), batch_for(SPACES, torch.zeros(4, 1, 4)))
    loss = algorithm.loss(outputs, batch_for(SPACES, torch.zeros(4, 1, 4)), SCHEDULED)
    torch.testing.assert_close(loss.assign[MOMENTS], updated(torch.zeros(3), TARGETS, VALID))
    return loss.statistics["value_loss"]


def test_values_are_compared_with_normalised_targets_by_half_the_square() -> None:
    # Targets 4, -2, 10 have mean 4 and variance 24; the network says 0 of all.
    assert loss_of(vf_clip_param=None).item() == pytest.approx(0.5 * (0 + 36 + 36) / 24 / 3, rel=rounding_error(2 * 4))


def test_large_errors_of_values_cost_linearly() -> None:
    error = 6 / 24**0.5
    assert loss_of(vf_clip_param=None, huber_delta=0.5).item() == pytest.approx(
        2 * 0.5 * (error - 0.25) / 3, rel=rounding_error(2 * 4)
    )


def test_a_bounded_value_costs_the_larger_of_both_errors() -> None:
    # The former value 0 is -4 / sd in units of the network, which now says 0: moved up by more than its bound.
    sd, bound = 24**0.5, 0.2
    clipped = np.array([-4 / sd + bound - target for target in (0.0, -6 / sd, 6 / sd)])
    free = np.array([0.0, 6 / sd, 6 / sd])
    expected = np.maximum(clipped**2, free**2).sum() / 2 / 3
    assert loss_of(vf_clip_param=bound).item() == pytest.approx(expected, rel=rounding_error(2 * 4))


def test_worlds_without_a_state_and_envs_are_told_what_to_use_instead() -> None:
    algorithm = MAPPO(MAPPOConfig())
    with pytest.raises(UsageError, match="use ippo, or set centralised_value: false"):
        algorithm.policy_in_world(SPACES, WorldView(None, 2, "parallel"), seed=0)
    with pytest.raises(UsageError, match="use ppo"):
        algorithm.policy(SPACES, seed=0)


GAME = WorldConfig(world="rlrun.worlds.matrix_games:TwoStepGame")
SMALL = {"train_batch_size": 60, "minibatch_size": 30, "num_epochs": 2, "num_envs_per_worker": 3}


def test_workers_compute_the_values_that_the_learner_does_of_each_row_and_of_the_closing_one() -> None:
    with Training(GAME, MAPPO(MAPPOConfig(**SMALL)), seed=1) as training:
        training.step()
        trainee = training.trainee
        policy, flat = trainee.policy, torch.from_numpy(trainee.learner.flat())
        own = policy.behavior()
        own.load(Weights(0, flat.numpy()))
        fragment = own.allocate_fragment(3, 2)
        rng = np.random.default_rng(0)
        fragment["obs"], fragment["actions"] = rng.random((4, 2, 3), np.float32), np.zeros((3, 2), np.int64)
        fragment["outputs"] = np.zeros((3, 2, 2), np.float32)
        fragment[WORLD_STATE] = rng.random((4, 2, 3), np.float32)
        own.postprocess(fragment)
        rows = SampleBatch({name: torch.from_numpy(fragment[name]) for name in ("obs", WORLD_STATE)})
        outputs = policy.outputs(policy.parameters.views(flat), rows)
    expected = denormalized(outputs.values.detach().numpy(), outputs.moments.numpy())
    np.testing.assert_allclose(fragment["values"], expected, rtol=rounding_error(3 + 64 + 64))
    assert outputs.moments[2] > 0


def test_ippo_sees_no_state_and_learns_where_there_is_none() -> None:
    with Training(GAME, IPPO(IPPOConfig(**SMALL)), seed=1) as training:
        result = training.step()
        assert training.trainee.policy.behavior().world_columns == ()
    assert np.isfinite(result["policies/default/learner/value_loss"])
