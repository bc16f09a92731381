"""Each pole of the world is Gymnasium's CartPole-v1, bit by bit, and its arrays are its dicts."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from rlrun.toys.cartpoles import GROUP, CartPoleArrays, CartPoles


def balancing(observation: Any) -> int:
    """Returns an action that keeps the pole up for long."""
    return int(observation @ np.array([0.02, 0.05, 1.0, 0.5]) > 0)


def cartpoles_begun_as_resets_of_one(seed: int, count: int) -> list[Any]:
    """Returns single CartPoles; the n-th is in the state of the n-th reset after the seed."""
    source = gymnasium.make("CartPole-v1")
    singles = []
    for number in range(count):
        source.reset(seed=seed if number == 0 else None)
        single = gymnasium.make("CartPole-v1")
        single.reset()
        single.unwrapped.state = source.unwrapped.state
        singles.append(single)
    return singles


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_pole_moves_exactly_like_gymnasiums_cartpole_until_it_falls(seed: int) -> None:
    world, generator = CartPoles(3), np.random.default_rng(seed)
    singles = dict(zip(world.possible_agents, cartpoles_begun_as_resets_of_one(seed, 3), strict=True))
    shown = dict(world.reset(seed))
    for agent, single in singles.items():
        assert shown[agent].tobytes() == single.unwrapped.state.astype(np.float32).tobytes()
    living, steps, ended = set(singles), 0, False
    while living:
        assert not ended
        assert set(shown) == living
        actions = {  # pole_0 is balanced until it is truncated; the others fall
            agent: balancing(shown[agent]) if agent == "pole_0" else int(generator.integers(2))
            for agent in sorted(living)
        }
        step = world.step(actions)
        steps, ended = steps + 1, step.ended
        assert step.rewards == dict.fromkeys(living, 1.0)
        assert set(step.observations) == living
        for agent in sorted(living):
            expected, _, terminated, truncated, _ = singles[agent].step(actions[agent])
            assert step.observations[agent].tobytes() == expected.tobytes()
            assert (agent in step.terminateds, agent in step.truncateds) == (terminated, truncated)
            if terminated or truncated:
                living.discard(agent)
        shown = {agent: step.observations[agent] for agent in living}
    assert ended
    assert steps == 500


def test_a_fallen_pole_is_replaced_one_step_later_in_the_state_of_the_next_reset() -> None:
    world = CartPoles(2, reborn=True, max_steps=60)
    later = iter(cartpoles_begun_as_resets_of_one(5, 40)[2:])
    shown, deaths, births, fallen = world.reset(5), 0, 0, set()
    for number in range(60):
        step = world.step(dict.fromkeys(shown, 0))
        if number == 59:
            assert step.ended
            assert set(step.truncateds) == set(shown)
            break
        assert not step.ended
        for agent in sorted(fallen):
            assert step.observations[agent].tobytes() == next(later).unwrapped.state.astype(np.float32).tobytes()
        births += len(fallen)
        fallen = set(step.terminateds)
        deaths += len(fallen)
        assert set(shown) <= set(step.observations)
        shown = {agent: seen for agent, seen in step.observations.items() if agent not in fallen}
    assert deaths - births == len(fallen)
    assert births >= 8


@pytest.mark.parametrize("reborn", [False, True])
def test_many_worlds_stepped_as_arrays_match_single_worlds_stepped_as_dicts(reborn: bool) -> None:
    num_worlds, num_agents, generator = 5, 3, np.random.default_rng(0)
    arrays = CartPoleArrays(num_worlds, num_agents, reborn=reborn, max_steps=40)
    dicts = [CartPoles(num_agents, reborn=reborn, max_steps=40) for _ in range(num_worlds)]
    agents = dicts[0].possible_agents
    rows = arrays.reset(range(num_worlds), range(num_worlds)).groups[GROUP]
    shown = [dict(world.reset(seed)) for seed, world in enumerate(dicts)]
    episodes = num_worlds
    for _ in range(200):
        actions = generator.integers(0, 2, (num_worlds, num_agents))
        acted = rows.acts.copy()
        groups, ended = arrays.step({GROUP: actions})
        rows, over = groups[GROUP], ended.copy()
        for number, world in enumerate(dicts):
            taken = {agent: int(actions[number, k]) for k, agent in enumerate(agents) if agent in shown[number]}
            assert [agent in taken for agent in agents] == acted[number].tolist()
            step = world.step(taken)
            assert step.ended == over[number]
            for k, agent in enumerate(agents):
                assert step.rewards.get(agent, 0.0) == rows.rewards[number, k]
                assert (agent in step.terminateds) == rows.terminateds[number, k]
                assert (agent in step.truncateds) == rows.truncateds[number, k]
                is_over = rows.terminateds[number, k] or rows.truncateds[number, k]
                assert (agent in step.observations) == (rows.acts[number, k] or is_over)
                if agent in step.observations:
                    assert step.observations[agent].tobytes() == rows.observations[number, k].tobytes()
            shown[number] = {
                agent: seen
                for agent, seen in step.observations.items()
                if agent not in step.terminateds and agent not in step.truncateds
            }
            if step.ended:
                rows = arrays.reset([number], [episodes]).groups[GROUP]
                shown[number] = dict(world.reset(episodes))
                episodes += 1
                assert rows.acts[number].all()
                assert not rows.terminateds[number].any()
                assert rows.rewards[number].tolist() == [0.0] * num_agents
    assert episodes > 20


def test_equal_seeds_start_the_same_cartpoles_episode_and_different_seeds_different_ones() -> None:
    world = CartPoles()
    first, again, other = (dict(world.reset(seed)) for seed in (3, 3, 4))
    assert first["pole_1"].tobytes() == again["pole_1"].tobytes()
    assert first["pole_1"].tobytes() != other["pole_1"].tobytes()
    assert first["pole_0"].tobytes() != first["pole_1"].tobytes()
