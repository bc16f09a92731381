"""The counts of births, deaths and meals add up exactly, whatever the agents do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.data.tree import leaves
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.worlds.make import make_vector_world
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.toys.foraging import COLORS, FORAGER, HUNTER, Foraging
from rlrun.toys.scripted_players import GreedyForager


def play(world: Foraging, seed: int, *, greedy: bool) -> dict[str, float]:
    """Plays an episode, checks its counts, and returns the return of each forager."""
    generator, forager = np.random.default_rng(seed), GreedyForager(seed)
    shown = dict(world.reset(seed))
    returns = dict.fromkeys(shown, 0.0)
    first = len(shown)
    seen_ids, ended, infos = set(shown), False, {}
    while not ended:
        assert world.living == {kind: sum(agent.startswith(kind) for agent in shown) for kind in (FORAGER, HUNTER)}
        actions = {
            agent: forager(seen) if greedy and agent.startswith(FORAGER) else int(generator.integers(5))
            for agent, seen in shown.items()
        }
        step = world.step(actions)
        assert set(step.rewards) == set(actions)
        for agent, reward in step.rewards.items():
            returns[agent] += reward
        over = set(step.terminateds) | set(step.truncateds)
        assert over <= set(actions)
        assert over <= set(step.observations)
        born = set(step.observations) - set(shown)
        assert not born & seen_ids
        seen_ids |= born
        returns |= dict.fromkeys(born, 0.0)
        infos |= step.infos
        ended = step.ended
        assert not ended or over == set(actions)
        shown = {agent: seen for agent, seen in step.observations.items() if agent not in over}
    births, deaths, living = world.births, world.deaths, world.living
    for kind in (FORAGER, HUNTER):
        assert births[kind] == deaths[kind] + living[kind]
        assert births[kind] == sum(agent.startswith(kind) for agent in seen_ids)
    assert set(infos) == seen_ids
    assert returns == {agent: float(info["meals"] + info["children"]) for agent, info in infos.items()}
    assert sum(info["children"] for info in infos.values()) == len(seen_ids) - first
    return {agent: value for agent, value in returns.items() if agent.startswith(FORAGER)}


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**31 - 1),
    size=st.integers(4, 12),
    hunters=st.integers(0, 3),
    growth=st.integers(1, 12),
    greedy=st.booleans(),
)
def test_births_equal_deaths_plus_living_agents_and_returns_equal_rewards_for_meals_and_children(
    seed: int, size: int, hunters: int, growth: int, greedy: bool
) -> None:
    play(Foraging(size=size, hunters=hunters, food=8, growth=growth, max_steps=60), seed, greedy=greedy)


def test_greedy_foragers_get_three_times_the_return_of_random_ones_and_many_foragers_die() -> None:
    world = Foraging()
    random = [value for seed in range(10) for value in play(world, seed, greedy=False).values()]
    greedy = [value for seed in range(3) for value in play(world, seed, greedy=True).values()]
    assert np.mean(greedy) > 3.0 * np.mean(random)
    assert world.deaths[FORAGER] > 50


def test_the_set_of_living_agents_changes_often_and_births_always_equal_deaths_plus_living_agents() -> None:
    world, forager = Foraging(), GreedyForager(0)
    shown, changes, steps, ended = dict(world.reset(0)), 0, 0, False
    while not ended:
        step = world.step({agent: forager(seen) for agent, seen in shown.items()})
        assert world.births[FORAGER] == world.deaths[FORAGER] + world.living[FORAGER]
        living = {agent: seen for agent, seen in step.observations.items() if agent not in step.terminateds}
        changes, steps, ended = changes + (living.keys() != shown.keys()), steps + 1, step.ended
        shown = living
    assert steps == 200
    assert steps / changes < 4


def test_the_same_seed_and_actions_repeat_an_episode_bit_by_bit() -> None:
    worlds = [Foraging(hunters=2, max_steps=40) for _ in range(2)]
    shown = [dict(world.reset(11)) for world in worlds]
    generator, ended = np.random.default_rng(0), False
    while not ended:
        assert shown[0].keys() == shown[1].keys()
        for agent, seen in shown[0].items():
            for one, other in zip(leaves(seen), leaves(shown[1][agent]), strict=True):
                assert one.tobytes() == other.tobytes()
        actions = {agent: int(generator.integers(5)) for agent in shown[0]}
        steps = [world.step(actions) for world in worlds]
        assert steps[0].rewards == steps[1].rewards
        shown = [
            {agent: seen for agent, seen in step.observations.items() if agent not in step.terminateds}
            for step in steps
        ]
        ended = steps[0].ended


def test_observations_belong_to_the_spaces_of_their_kind_and_hunters_have_more_actions() -> None:
    world = Foraging(hunters=2)
    shown: Any = world.reset(0)
    for _ in range(10):
        for agent, seen in shown.items():
            assert world.spaces(agent).observation.contains(seen)
        step = world.step(dict.fromkeys(shown, 3))
        shown = {agent: seen for agent, seen in step.observations.items() if agent not in step.terminateds}
    assert world.spaces("forager_0").action.n == 5
    assert world.spaces("hunter_17").action.n == 9
    assert world.spaces("hunter_17").observation["window"].shape == (9, 9)


def test_a_lone_forager_without_food_starves_once_its_initial_energy_is_spent() -> None:
    world = Foraging(foragers=1, food=0, growth=0)
    seen: Any = world.reset(0)
    assert not seen["forager_0"]["entity_mask"].any()
    assert not seen["forager_0"]["window"].any()
    ends = [world.step({"forager_0": 0}) for _ in range(8)]
    assert [step.ended for step in ends] == [False] * 7 + [True]
    assert ends[-1].terminateds == {"forager_0": True}
    assert ends[-1].infos == {"forager_0": {"age": 8, "meals": 0, "children": 0}}


def test_a_hunters_meal_kills_a_forager_and_the_death_of_the_last_forager_ends_the_episode() -> None:
    world = Foraging(size=2, foragers=1, hunters=1, food=0, growth=0, birth_reward=0.0)
    seen: Any = world.reset(3)
    rows, columns, is_hunter, energy = seen["hunter_0"]["entities"][0]
    assert (is_hunter, energy) == (0.0, np.float32(8 / 24))
    action = {(0, 0): 0, (-1, 0): 1, (0, -1): 3, (-1, -1): 5}[(int(rows), int(columns))]
    step = world.step({"forager_0": 0, "hunter_0": action})
    assert step.rewards == {"forager_0": 0.0, "hunter_0": 1.0}
    assert step.terminateds == {"forager_0": True, "hunter_0": True}
    assert step.ended
    assert (world.deaths[FORAGER], world.living[HUNTER]) == (1, 1)


def test_in_pictures_hunters_cover_foragers_and_both_cover_food() -> None:
    world = Foraging(size=2, foragers=1, hunters=1, food=4, growth=0)
    seen: Any = world.reset(3)
    cells = world.render()[8::16, 8::16]
    away = seen["forager_0"]["entities"][0, :2] != 0.0
    found = [tuple(color) for color in cells.reshape(-1, 3).tolist()]
    food, forager, hunter = (tuple(color) for color in COLORS[1:].tolist())
    assert away.any()  # the forager and the hunter stand on different cells
    assert sorted(found) == sorted([food, food, forager, hunter])
    world.step({"forager_0": 0, "hunter_0": 0})
    assert [tuple(color) for color in world.render()[8::16, 8::16].reshape(-1, 3).tolist()].count(food) == 2


@pytest.mark.parametrize("seed", range(3))
def test_living_and_just_deceased_agents_never_exceed_the_maximum(seed: int) -> None:
    world, forager = Foraging(growth=12, max_foragers=9, max_steps=80), GreedyForager(seed)
    shown, at_most = dict(world.reset(seed)), 0
    while True:
        step = world.step({agent: forager(seen) for agent, seen in shown.items()})
        at_most = max(at_most, len(step.observations))
        shown = {agent: seen for agent, seen in step.observations.items() if agent not in step.terminateds}
        if step.ended:
            break
    assert at_most == 9


def test_two_policies_have_enough_slots_for_all_newborn_agents() -> None:
    config = EnvConfig(world="rlrun.toys:Foraging", kwargs={"hunters": 2, "growth": 12, "food": 200, "max_steps": 50})
    mapping = PolicyMapping(["prey", "hunters"], {"hunter_*": "hunters", "*": "prey"})
    worlds = make_vector_world(config, 2, EpisodeSeeds(0, 0), mapping, {})
    assert dict(worlds.slots) == {"prey": 24, "hunters": 8}
    generator, rows = np.random.default_rng(0), worlds.reset()
    begun = int(rows.policies["prey"].starts.sum())
    over, ended = 0, 0
    for _ in range(150):
        rows = worlds.step({"prey": generator.integers(5, size=24), "hunters": generator.integers(9, size=8)})
        prey = rows.policies["prey"]
        begun += int(prey.starts.sum())
        over += int((prey.terminateds | prey.truncateds).sum())
        ended += int(rows.ended.sum())
        assert begun - over == int(prey.living.sum())
    assert ended >= 4
    assert begun > 16 + 8 * ended  # prey are also born within episodes
