"""Adapters for simulators, tested with the real packages on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError
from rlrun.plugin import JaxEnv, brax_env, gymnax_env, playground_env

pytestmark = [pytest.mark.tensors, pytest.mark.filterwarnings("default")]  # we cannot fix these packages' warnings

CPU = torch.device("cpu")
SLOTS = 6


def actions_of(env: JaxEnv, seed: int) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        return torch.randint(int(env.action_space.n), (env.num_envs,), generator=draws)
    return 2 * torch.rand(env.num_envs, *env.action_space.shape, generator=draws) - 1


def moved(env: JaxEnv, steps: range) -> list[Any]:
    """Returns everything that some steps return, copied."""
    results = [env.step(actions_of(env, number)) for number in steps]
    return [map_tree(torch.clone, tuple(leaves(tuple(result)))) for result in results]


@pytest.fixture(scope="module")
def cartpole() -> JaxEnv:
    return gymnax_env(SLOTS, CPU, name="CartPole-v1", params={"max_steps_in_episode": 15})


@pytest.fixture(scope="module")
def fast() -> JaxEnv:
    return brax_env(SLOTS, CPU, name="fast", episode_length=7)


@pytest.fixture(params=["cartpole", "fast"])
def env(request: pytest.FixtureRequest) -> JaxEnv:
    found: JaxEnv = request.getfixturevalue(request.param)
    found.reset(seeds=torch.arange(SLOTS))
    return found


def test_an_env_continues_exactly_from_a_saved_state(env: JaxEnv) -> None:
    moved(env, range(10))
    saved = env.state()
    expected = moved(env, range(10, 30))
    shown = env.load_state(saved)
    assert torch.equal(shown, torch.as_tensor(saved["leaves"][-1]))
    for one, other in zip(moved(env, range(10, 30)), expected, strict=True):
        assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_tensors_have_the_types_and_shapes_given_by_the_spaces(env: JaxEnv) -> None:
    step = env.step(actions_of(env, 0))
    assert step.observations.shape == step.finals.observations.shape == (SLOTS, *env.observation_space.shape)
    assert str(step.observations.dtype) == f"torch.{env.observation_space.dtype}"
    assert step.rewards.dtype == torch.float32
    assert step.terminateds.dtype == step.truncateds.dtype == step.finals.mask.dtype == torch.bool


def test_a_masked_reset_does_not_affect_the_slots_outside_the_mask(env: JaxEnv) -> None:
    moved(env, range(3))
    before = env.step(actions_of(env, 3)).observations.clone()
    mask = torch.arange(SLOTS) == 2
    after = env.reset(mask=mask)
    assert torch.equal(after[~mask], before[~mask])
    assert not torch.equal(after[mask], before[mask])


def test_slots_with_equal_seeds_start_from_equal_observations(cartpole: JaxEnv) -> None:
    observations = cartpole.reset(seeds=torch.tensor([3, 4, 3, 5, 6, 7]))
    assert torch.equal(observations[0], observations[2])
    assert not torch.equal(observations[0], observations[1])


def test_truncation_at_a_time_limit_returns_the_observation_before_the_reset(fast: JaxEnv) -> None:
    fast.reset(seeds=torch.arange(SLOTS))
    for length in range(1, 15):
        step = fast.step(torch.ones(SLOTS, 1))
        ends = length % 7 == 0
        assert step.truncateds.tolist() == step.finals.mask.tolist() == [ends] * SLOTS
        assert not step.terminateds.any()
        assert (step.observations[:, 1] == 0).all().item() == ends
        # The speed grows by 0.02 in each step, including the episode's last step.
        velocity = 0.02 * (7 if ends else length % 7)
        torch.testing.assert_close(step.finals.observations[:, 1], torch.full((SLOTS,), velocity))


def test_steps_through_the_adapter_match_steps_of_plain_gymnax(cartpole: JaxEnv) -> None:
    import gymnax
    import jax

    alone, params = gymnax.make("CartPole-v1")
    shown = cartpole.reset(seeds=torch.arange(SLOTS))
    state = cartpole._slots.state
    actions = actions_of(cartpole, 0)
    step = cartpole.step(actions)
    for slot in range(SLOTS):
        own = jax.tree.map(lambda leaf, slot=slot: leaf[slot], state)
        observation, *_ = alone.step_env(jax.random.PRNGKey(0), own, actions[slot].item(), params)
        np.testing.assert_allclose(step.finals.observations[slot], observation, rtol=1e-6)
    assert not torch.equal(step.observations, shown)


def test_a_full_reset_starts_brax_episodes_from_new_states() -> None:
    env = brax_env(SLOTS, CPU, name="inverted_pendulum", episode_length=3, full_reset=True)
    first = env.reset(seeds=torch.arange(SLOTS)).clone()
    for _ in range(2):
        assert not env.step(torch.zeros(SLOTS, 1)).truncateds.any()
    step = env.step(torch.zeros(SLOTS, 1))
    assert step.truncateds.all()
    assert (step.observations != first).any(dim=1).all()
    assert (step.observations.abs() <= 0.011).all()  # an initial state


def test_playground_envs_reset_to_the_cached_first_state() -> None:
    env = playground_env(2, CPU, name="CartpoleBalance", config={"impl": "jax", "episode_length": 3})
    first = env.reset(seeds=torch.arange(2)).clone()
    assert first.shape == (2, 5)
    steps = [env.step(torch.zeros(2, 1)) for _ in range(3)]
    assert [step.truncateds.tolist() for step in steps] == [[False, False], [False, False], [True, True]]
    assert torch.equal(steps[-1].observations, first)  # envs return to the cached first state
    assert not torch.equal(steps[-1].finals.observations, first)


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (gymnax_env, {"name": "CartPole-v0"}),
        (gymnax_env, {"name": "CartPole-v1", "params": {"max_steps": 3}}),
        (brax_env, {"name": "hoper"}),
        (playground_env, {"name": "CartpoleBalanc"}),
    ],
)
def test_the_error_for_a_wrong_name_suggests_the_right_name(make: Callable[..., JaxEnv], wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="did you mean"):
        make(SLOTS, CPU, **wrong)


def test_a_device_that_jax_lacks_is_refused() -> None:
    with pytest.raises(EnvironmentUnusable, match="JAX has no device"):
        gymnax_env(SLOTS, torch.device("cuda:0"), name="CartPole-v1")
