"""The masked worlds pay what their docstrings say, and refuse forbidden actions."""

from __future__ import annotations

import numpy as np
import pytest

from rlrun.toys.masked_envs import MaskedConsole, MaskedGrid, MaskedMatch


def test_from_any_cell_of_the_grid_the_shortest_path_is_as_long_as_the_manhattan_distance() -> None:
    world, size = MaskedGrid(4), 4
    returns = {}
    for seed in range(300):
        seen, _ = world.reset(seed=seed)
        start, total, ended = tuple(seen["position"]), 0.0, False
        while not ended:
            assert world.observation_space.contains(seen)
            down, right = seen["action_mask"][1], seen["action_mask"][3]
            assert down or right
            seen, reward, ended, truncated, _ = world.step(1 if down else 3)
            assert not truncated
            total += reward
        assert not seen["action_mask"].any()
        assert total == sum(start) - 2 * (size - 1)
        returns[start] = total
    assert len(returns) == size**2 - 1
    assert np.mean(list(returns.values())) == pytest.approx(-(size**2) / (size + 1))


def test_the_grid_forbids_moves_that_lead_off_it(wording) -> None:
    world = MaskedGrid(3)
    seeds = (seed for seed in range(200) if not world.reset(seed=seed)[0]["position"].any())
    seen, _ = world.reset(seed=next(seeds))
    np.testing.assert_array_equal(seen["action_mask"], [0, 1, 0, 1])
    with wording.raised(ValueError):
        world.step(0)


def test_an_episode_of_the_grid_is_truncated_after_its_last_step() -> None:
    world = MaskedGrid(3, max_steps=2)
    world.reset(seed=0)
    truncated = [world.step(int(world.unwrapped._mask().argmax()))[3] for _ in range(2)]
    assert truncated == [False, True]


def test_repeating_the_shown_number_is_always_allowed_and_rewarded(wording) -> None:
    world = MaskedMatch(12, 3)
    seen, _ = world.reset(seed=1)
    rewards, ended = [], False
    while not ended:
        allowed = world.action_masks()
        assert allowed.sum() == 3
        seen, reward, ended, _, _ = world.step(seen)
        rewards.append(reward)
    assert rewards == [1.0] * 10
    forbidden = int(np.flatnonzero(~world.action_masks())[0])
    with wording.raised(ValueError, forbidden):
        world.step(forbidden)


def test_the_console_pays_a_third_of_the_reward_for_each_of_lever_lamp_and_knob() -> None:
    world = MaskedConsole()
    seen, _ = world.reset(seed=0)
    total, ended = 0.0, False
    while not ended:
        assert world.observation_space.contains(seen)
        mask, number = seen["action_mask"], seen["number"]
        switches = np.array([mask[3:5].argmax(), mask[5:].argmax()])
        action = {"lever": 1 + mask[:3].argmax(), "rest": (switches, (number > 0).astype(np.int8), number)}
        assert world.action_space.contains(action)
        seen, reward, ended, *_ = world.step(action)
        total += reward
    assert total == pytest.approx(10)
    while seen["action_mask"][2] != 1 or seen["action_mask"][:2].sum() == 0:
        seen, _ = world.reset()
    mask = seen["action_mask"]
    allowed = np.array([mask[3:5].argmax(), mask[5:].argmax()])
    wrong = {"lever": 3, "rest": (allowed, np.array([seen["number"][0] <= 0]), seen["number"] + 0.6)}
    assert world.step(wrong)[1] == 0


def test_the_console_rejects_actions_that_its_mask_forbids() -> None:
    world = MaskedConsole()
    seen, _ = world.reset(seed=0)
    while seen["action_mask"][:3].all():
        seen, _ = world.reset()
    mask = seen["action_mask"]
    allowed = np.array([mask[3:5].argmax(), mask[5:].argmax()])
    forbidden = {"lever": 1 + mask[:3].argmin(), "rest": (allowed, np.zeros(1, np.int8), np.zeros(1, np.float32))}
    with pytest.raises(ValueError, match="are forbidden"):
        world.step(forbidden)
