from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from rlrun.engine.envs.tensor_vector_env import TensorVectorEnv
from rlrun.toys.tensor_envs import TensorToy, tensor_cartpole, tensor_pendulum

CPU = torch.device("cpu")
SLOTS = 5


def started(env: TensorVectorEnv) -> Tensor:
    observations: Tensor = env.reset(seeds=torch.arange(env.num_envs))
    return observations


@pytest.mark.parametrize(
    ("make", "env_id", "rounding"),
    [(tensor_cartpole, "CartPole-v1", 2e-15), (tensor_pendulum, "Pendulum-v1", 2e-14)],
)
def test_each_slot_of_a_tensor_env_moves_like_the_env_of_gymnasium(
    make: Callable[..., TensorToy], env_id: str, rounding: float
) -> None:
    env = make(SLOTS, CPU, dtype=torch.float64)
    started(env)
    single = [gymnasium.make(env_id) for _ in range(SLOTS)]
    for slot, own in enumerate(single):
        own.reset(seed=slot)
        own.unwrapped.state = env.state()["state"][:, slot].numpy()
    draws = np.random.default_rng(0)
    over = np.zeros(SLOTS, bool)
    for _ in range(200):
        before = env.state()["state"].numpy()
        discrete = env_id == "CartPole-v1"  # otherwise, actions are float64: float32 would round Gymnasium's rewards
        actions: Any = draws.integers(0, 2, SLOTS) if discrete else draws.uniform(-2, 2, (SLOTS, 1))
        step = env.step(torch.from_numpy(actions))
        assert step.finals is not None
        for slot, own in enumerate(single):
            if over[slot]:
                continue
            own.unwrapped.state = before[:, slot]  # so that rounding does not add up
            observation, reward, terminated, truncated, _ = own.step(actions[slot])
            np.testing.assert_allclose(step.finals.observations[slot].numpy(), observation, rtol=2e-7, atol=1e-7)
            assert step.rewards[slot].item() == pytest.approx(reward, abs=rounding, rel=rounding)
            assert (step.terminateds[slot].item(), step.truncateds[slot].item()) == (terminated, truncated)
            assert step.finals.mask[slot].item() == (terminated or truncated)
            over[slot] = terminated or truncated
    assert over.all()


def test_the_step_that_ends_an_episode_returns_the_first_observation_of_the_next_episode() -> None:
    env = tensor_cartpole(2, CPU, max_episode_steps=3)
    started(env)
    for _ in range(2):
        assert not env.step(torch.tensor([0, 1])).truncateds.any()
    step = env.step(torch.tensor([0, 1]))
    assert step.truncateds.tolist() == [True, True]
    assert (step.observations.abs() <= 0.05).all()
    assert step.finals is not None
    assert (step.finals.observations[:, 1].abs() > 0.3).all()


def test_slots_with_equal_seeds_start_equal_episodes_after_a_reset_and_afterwards() -> None:
    env = tensor_pendulum(3, CPU, max_episode_steps=1)
    first = env.reset(seeds=torch.tensor([7, 8, 7]))
    assert torch.equal(first[0], first[2])
    assert not torch.equal(first[0], first[1])
    second = env.step(torch.zeros((3, 1))).observations
    assert torch.equal(second[0], second[2])
    assert not torch.equal(second[0], first[0])


def test_a_reset_by_mask_does_not_change_slots_outside_the_mask() -> None:
    env = tensor_cartpole(2, CPU)
    before = started(env)
    after = env.reset(mask=torch.tensor([False, True]))
    assert torch.equal(before[0], after[0])
    assert not torch.equal(before[1], after[1])
    again = env.reset(seeds=torch.tensor([5, 1]), mask=torch.tensor([False, True]))
    assert torch.equal(before, again)


def test_initial_states_are_uniform_within_their_bounds() -> None:
    first = started(tensor_cartpole(4096, CPU)) / 0.05
    assert (first.abs() <= 1).all()
    # Standard error of the mean: sqrt(1/3 / 4096) = 0.009; of the mean square: sqrt(4/45 / 4096) = 0.0047.
    assert (first.mean(0).abs() < 0.04).all()
    assert ((first.square().mean(0) - 1 / 3).abs() < 0.02).all()
    assert (first.T.corrcoef() - torch.eye(4)).abs().max() < 0.07


def test_a_tensor_env_with_a_loaded_state_continues_identically() -> None:
    env = tensor_cartpole(3, CPU, max_episode_steps=4)
    started(env)
    for _ in range(3):
        env.step(torch.tensor([0, 1, 1]))
    saved = {name: part.numpy() for name, part in env.state().items()}
    other = tensor_cartpole(3, CPU, max_episode_steps=4)
    other.load_state(saved)
    for _ in range(6):
        expected, found = env.step(torch.tensor([1, 0, 1])), other.step(torch.tensor([1, 0, 1]))
        assert torch.equal(expected.observations, found.observations)
        assert torch.equal(expected.truncateds, found.truncateds)
