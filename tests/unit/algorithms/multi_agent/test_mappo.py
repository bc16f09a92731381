"""MAPPO and IPPO: what the value sees, how it is normalized, and what its errors cost."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlrun.algorithms.multi_agent.ippo import IPPO, IPPOConfig
from rlrun.algorithms.multi_agent.mappo import MAPPO, MAPPOConfig
from rlrun.algorithms.multi_agent.normalized_values import assigned_moments
from rlrun.algorithms.multi_agent.state_value_policy import MOMENTS
from rlrun.algorithms.multi_agent.state_value_recording import denormalized
from rlrun.algorithms.multi_agent.value_norm import DECAY, normalized, updated
from rlrun.engine.data.sample_batch import WORLD_STATE, SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.weights import Weights
from rlrun.engine.training.training import Training
from rlrun.engine.worlds.world_view import WorldView
from tests.rounding import rounding_error
from tests.sum_of_two import SumOfTwo

SPACES = Spaces(Box(-1, 1, (2,)), Discrete(3))
MASKED = Spaces(Dict({"action_mask": MultiBinary(3), "seen": Box(-1, 1, (2,))}), Discrete(3))
WORLD = WorldView(Box(-1, 1, (4,)), 2, "parallel")
SCHEDULED = {"clip_param": torch.tensor(0.2), "entropy_coeff": torch.tensor(0.0), "lr": torch.tensor(1e-3)}
TARGETS = torch.tensor([[4.0], [-2.0], [10.0], [0.0]])
VALID = torch.tensor([[1.0], [1.0], [1.0], [0.0]])


def test_the_first_minibatch_alone_determines_the_initial_moments() -> None:
    moments = updated(torch.zeros(3), TARGETS, VALID)
    mean, square = moments[0] / moments[2], moments[1] / moments[2]
    assert mean.item() == pytest.approx(4.0)
    assert square.item() == pytest.approx(40.0)


def test_earlier_minibatches_are_weighted_down_by_the_decay() -> None:
    moments = updated(updated(torch.zeros(3), TARGETS, VALID), torch.full((4, 1), 7.0), VALID)
    expected = (DECAY * 4.0 + 7.0) / (DECAY + 1)
    assert (moments[0] / moments[2]).item() == pytest.approx(expected, rel=rounding_error(2 * 4))


def test_values_are_not_rescaled_before_the_first_targets_are_seen() -> None:
    values = np.array([-3.0, 5.0], np.float32)
    np.testing.assert_array_equal(denormalized(values, np.zeros(3, np.float32)), values)
    np.testing.assert_array_equal(normalized(torch.from_numpy(values), torch.zeros(3)), values)


@settings(max_examples=20, deadline=None)
@given(
    values=arrays(np.float32, 5, elements=st.floats(-100, 100, width=32)),
    targets=arrays(np.float32, (6, 1), elements=st.floats(-100, 100, width=32)),
)
def test_denormalization_in_acting_inverts_normalization_in_learning(values: np.ndarray, targets: np.ndarray) -> None:
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
def test_the_value_depends_on_the_world_state_and_the_policy_does_not(spaces: Spaces, sees_observation: bool) -> None:
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
    views, batch = policy.parameters.views(torch.zeros_like(flat)), batch_for(SPACES, torch.zeros(4, 1, 4))
    assigned = assigned_moments(views, batch, SCHEDULED).assign[MOMENTS]
    torch.testing.assert_close(assigned, updated(torch.zeros(3), TARGETS, VALID))
    views[MOMENTS].copy_(assigned)
    return algorithm.loss(policy.outputs(views, batch), batch, SCHEDULED).statistics["value_loss"]


def test_the_value_loss_is_half_the_squared_error_to_normalized_targets() -> None:
    # The targets 4, -2, 10 have mean 4 and variance 24, and the network outputs 0 for all.
    assert loss_of(vf_clip_param=None).item() == pytest.approx(0.5 * (0 + 36 + 36) / 24 / 3, rel=rounding_error(2 * 4))


def test_the_value_loss_is_linear_in_large_errors() -> None:
    error = 6 / 24**0.5
    assert loss_of(vf_clip_param=None, huber_delta=0.5).item() == pytest.approx(
        2 * 0.5 * (error - 0.25) / 3, rel=rounding_error(2 * 4)
    )


def test_a_clipped_value_loss_is_the_larger_of_the_clipped_and_unclipped_errors() -> None:
    # The old value 0 is -4 / sd in the network's units. The network now outputs 0, so it has risen by more than the
    # bound allows.
    sd, bound = 24**0.5, 0.2
    clipped = np.array([-4 / sd + bound - target for target in (0.0, -6 / sd, 6 / sd)])
    free = np.array([0.0, 6 / sd, 6 / sd])
    expected = np.maximum(clipped**2, free**2).sum() / 2 / 3
    assert loss_of(vf_clip_param=bound).item() == pytest.approx(expected, rel=rounding_error(2 * 4))


def test_worlds_without_a_state_and_single_agent_envs_are_refused_with_a_suggestion(wording) -> None:
    algorithm = MAPPO(MAPPOConfig())
    with wording.raised(UsageError, "centralised_value"):
        algorithm.policy_in_world(SPACES, WorldView(None, 2, "parallel"), seed=0)
    with pytest.raises(UsageError, match="use ppo"):
        algorithm.policy(SPACES, seed=0)


def rows_of(number: int) -> SampleBatch:
    """Rows whose targets differ more and more, so that each part of them has different moments."""
    draws = np.random.default_rng(4)
    column, scale = (number, 1), np.linspace(1.0, 20.0, number)[:, None]
    return SampleBatch(
        obs=draws.normal(size=(*column, 2)).astype(np.float32),
        actions=draws.integers(0, 3, column),
        logp=np.full(column, np.log(1 / 3), np.float32),
        advantages=draws.normal(size=column).astype(np.float32),
        values=draws.normal(size=column).astype(np.float32),
        value_targets=(scale * draws.normal(3.0, 1.0, column)).astype(np.float32),
        valid=draws.random(column) < 0.7,
        **{WORLD_STATE: draws.normal(size=(*column, 4)).astype(np.float32)},
    ).zero_invalid()


def learner_of(**more: Any) -> LocalLearner:
    algorithm = MAPPO(MAPPOConfig())
    policy = algorithm.policy_in_world(SPACES, WORLD, seed=0)
    settings: dict[str, Any] = {"device": "cpu", "update_executor": "eager", "seed": 3, **more}
    return LocalLearner(policy, algorithm.objectives(policy), **settings)


def learned_parameters(learner: LocalLearner) -> tuple[np.ndarray, dict[str, float]]:
    scheduled = {name: float(value) for name, value in SCHEDULED.items()}
    learner.learn(rows_of(48), num_epochs=2, minibatch_size=16, scheduled=scheduled)
    return learner.flat(), learner.take_statistics()


def assert_alike(found: tuple[np.ndarray, dict[str, float]], expected: tuple[np.ndarray, dict[str, float]]) -> None:
    np.testing.assert_allclose(found[0], expected[0], atol=2e-6)
    assert found[1] == pytest.approx(expected[1], rel=1e-4, abs=1e-5)


def test_two_learners_share_value_normalization_and_match_a_single_learner() -> None:
    sums = SumOfTwo()
    pair = [learner_of(share=(rank, 2), all_reduce=sums.of(rank)) for rank in range(2)]
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(learned_parameters, pair)
    np.testing.assert_array_equal(first[0], second[0])
    assert_alike(first, alone := learned_parameters(learner_of()))
    assert {"policy_loss", "value_loss", "grad_norm"} <= alone[1].keys()
    assert not any(name.startswith("moments") for name in alone[1])


def test_microbatches_normalize_values_by_the_targets_of_the_whole_minibatch() -> None:
    assert_alike(learned_parameters(learner_of(microbatch_size=5)), learned_parameters(learner_of()))


GAME = EnvConfig(world="rlrun.toys:TwoStepGame")
SMALL = {
    "train_batch_size": 60,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 30,
    "num_epochs": 2,
    "num_envs_per_worker": 3,
}


def test_workers_and_learner_compute_equal_values_even_for_the_closing_row() -> None:
    with Training(GAME, MAPPO(MAPPOConfig(**SMALL)), seed=1) as training:
        training.step()
        trainee = training.running.trainee
        policy, flat = trainee.policy, torch.from_numpy(trainee.learner.flat())
        own = policy.behavior()
        own.load(Weights(0, flat.numpy()))
        fragment = own.collector.allocate(3, 2)
        rng = np.random.default_rng(0)
        fragment["obs"], fragment["actions"] = rng.random((4, 2, 3), np.float32), np.zeros((3, 2), np.int64)
        fragment["outputs"] = np.zeros((3, 2, 2), np.float32)
        fragment[WORLD_STATE] = rng.random((4, 2, 3), np.float32)
        own.collector.postprocess(fragment)
        rows = SampleBatch({name: torch.from_numpy(fragment[name]) for name in ("obs", WORLD_STATE)})
        outputs = policy.outputs(policy.parameters.views(flat), rows)
    expected = denormalized(outputs.values.detach().numpy(), outputs.moments.numpy())
    np.testing.assert_allclose(fragment["values"], expected, rtol=rounding_error(3 + 64 + 64))
    assert outputs.moments[2] > 0


def test_ippo_needs_no_state_and_ignores_it() -> None:
    with Training(GAME, IPPO(IPPOConfig(**SMALL)), seed=1) as training:
        result = training.step()
        assert training.running.trainee.policy.behavior().collector.world_columns == ()
    assert np.isfinite(result["policies/default/learner/value_loss"])
