"""Tests of the world of two tribes on a large map."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.worlds.array_worlds import ArrayStep
from rlrun.toys.scripted_players import TribeForager
from rlrun.toys.tribes import (
    ENTITIES,
    FOOD,
    MEAL,
    MOST,
    MOVES,
    NEED,
    RADIUS,
    REACH,
    REGROWTH_STEPS,
    STONE,
    STRIKE,
    TRIBES,
    VACANT_STEPS,
    WANT,
    WATER,
    Tribes,
    random_terrain,
    shores,
)

SMALL = {"num_agents": 24, "size": 24}
HERE = (RADIUS, RADIUS)


def both(step: ArrayStep, key: str) -> np.ndarray:
    """A leaf of both tribes' observations, [2, W, K, ...]."""
    return np.stack([step.groups[tribe].observations[key].copy() for tribe in TRIBES])


def of_both(step: ArrayStep, name: str) -> np.ndarray:
    """Rewards or flags of both tribes, [2, W, K]."""
    return np.stack([getattr(step.groups[tribe], name).copy() for tribe in TRIBES])


def actions(world: Tribes, generator: np.random.Generator | None, strikes: bool = True) -> dict[str, np.ndarray]:
    """Random actions of all agents; without a generator they stay."""
    shape = (world.num_worlds, world.groups["red"].num_agents)
    if generator is None:
        return {tribe: np.zeros((*shape, 2), np.int64) for tribe in TRIBES}
    limits = [len(MOVES), 1 + ENTITIES if strikes else 1]
    return {tribe: generator.integers(limits, size=(*shape, 2)) for tribe in TRIBES}


@given(st.integers(0, 2**31))
@settings(max_examples=10)
def test_a_world_of_a_batch_depends_only_on_its_own_seed_and_actions(seed: int) -> None:
    alone, second = Tribes(1, 6, 16), Tribes(2, 6, 16)
    one, two = alone.reset([0], [seed]), second.reset([0, 1], [seed + 1, seed])
    generator = np.random.default_rng(seed)
    for step in range(12):
        for key, leaf in one.groups["red"].observations.items():
            assert np.array_equal(leaf[0], two.groups["red"].observations[key][1])
        taken, others = actions(alone, generator), actions(alone, generator)
        one = alone.step(taken)
        two = second.step({tribe: np.concatenate([others[tribe], taken[tribe]]) for tribe in TRIBES})
        if step == 5:
            second.reset([0], [7])
            two = second.reset([], [])
        assert np.array_equal(of_both(one, "rewards")[:, 0], of_both(two, "rewards")[:, 1])


def test_a_reset_restores_the_map_and_all_its_food() -> None:
    world, fresh = Tribes(1, **SMALL), Tribes(1, **SMALL)
    world.reset([0], [3])
    for _ in range(REGROWTH_STEPS // 2):
        world.step(actions(world, None))
    again, first = world.reset([0], [3]), fresh.reset([0], [3])
    for _ in range(REGROWTH_STEPS):
        assert np.array_equal(both(again, "window"), both(first, "window"))
        assert np.array_equal(both(again, "self"), both(first, "self"))
        again, first = world.step(actions(world, None)), fresh.step(actions(fresh, None))


def test_agents_without_food_and_water_die_when_their_health_runs_out() -> None:
    world = Tribes(1, **SMALL)
    shown = world.reset([0], [0])
    window = both(shown, "window")[:, 0]
    beside = [window[:, :, 1, RADIUS + row, RADIUS + column] for row, column in MOVES]
    lacks_all = (window[:, :, 0, *HERE] == 0) & (np.sum(beside, axis=0) == 0)
    lives = np.zeros(lacks_all.shape, np.int64)
    for step in range(1, 100):
        ends = of_both(world.step(actions(world, None)), "terminateds")[:, 0]
        lives[ends & (lives == 0)] = step
    assert lacks_all.sum() > 5
    assert (lives[lacks_all] == MOST // NEED + MOST // (2 * WANT) - 1).all()


def test_rewards_are_the_amounts_of_food_and_water_gained_in_units_of_meals() -> None:
    world, generator = Tribes(2, **SMALL), np.random.default_rng(1)
    shown = world.reset([0, 1], [0, 1])
    gains = 0
    for _ in range(60):
        before, acted = both(shown, "self")[..., :2] * MOST, of_both(shown, "acts")
        shown = world.step(actions(world, generator))
        needs = np.minimum(before, NEED)
        gained = (both(shown, "self")[..., :2] * MOST - before + needs).sum(-1)
        exact = acted & (before > NEED).all(-1) & of_both(shown, "acts")
        assert of_both(shown, "rewards")[exact] * MEAL == pytest.approx(gained[exact], abs=1e-3)
        assert not of_both(shown, "rewards")[~acted].any()
        gains += int((gained[exact] > 0).sum())
    assert gains > 100


def test_strikes_wound_only_enemies_within_reach() -> None:
    world, generator = Tribes(1, num_agents=60, size=24), np.random.default_rng(2)
    shown = world.reset([0], [5])
    total = 0
    for _ in range(25):
        taken = actions(world, generator)
        chosen = np.stack([taken[tribe][0, :, 1] for tribe in TRIBES]) - 1
        entities, mask = both(shown, "entities")[:, 0], both(shown, "entity_mask")[:, 0]
        target = np.take_along_axis(entities, np.maximum(chosen, 0)[..., None, None], 2)[:, :, 0]
        there = (chosen >= 0) & (np.take_along_axis(mask, np.maximum(chosen, 0)[..., None], 2)[..., 0] > 0)
        near = np.abs(np.rint(target[..., :2] * RADIUS)).max(-1) <= REACH
        hits = (there & near & (target[..., 2] == 0) & of_both(shown, "acts")[:, 0]).sum(axis=1)
        before, acted = both(shown, "self")[:, 0], of_both(shown, "acts")[:, 0]
        shown = world.step(taken)
        after = both(shown, "self")[:, 0]
        levels = after[..., :2] * MOST
        other = (levels > MOST // 2).all(-1) - WANT * (levels == 0).sum(-1)
        expected = np.minimum(before[..., 2] * MOST + other, MOST)
        wounds = np.rint(expected - after[..., 2] * MOST)
        counted = (np.where(acted, wounds, 0) + STRIKE // 2) // STRIKE
        assert (counted.sum(axis=1) == hits[::-1]).all()
        total += int(hits.sum())
    assert total > 50


def test_an_agent_that_kills_another_gains_its_food_and_water() -> None:
    world, generator = Tribes(1, num_agents=60, size=24), np.random.default_rng(3)
    shown = world.reset([0], [6])
    looted = 0.0
    for _ in range(25):
        shown = world.step(actions(world, generator))
        # A meal and a drink gain at most one of each, so anything more was loot.
        looted += float(np.maximum(of_both(shown, "rewards") - 2.0, 0.0).sum())
    assert looted > 0.0


def test_a_new_agent_is_born_in_the_slot_of_a_dead_agent_after_a_fixed_number_of_steps() -> None:
    world, generator = Tribes(1, **SMALL), np.random.default_rng(4)
    shown = world.reset([0], [0])
    died = np.full((2, 24), -1)
    births = 0
    for step in range(80 + VACANT_STEPS):
        acted = of_both(shown, "acts")[:, 0]
        shown = world.step(actions(world, generator))
        acts, ends = of_both(shown, "acts")[:, 0], of_both(shown, "terminateds")[:, 0]
        born = acts & ~acted
        assert (step - died[born] == VACANT_STEPS).all()
        assert both(shown, "self")[:, 0][born] == pytest.approx(np.tile([1.0, 1.0, 1.0, 0.0], (born.sum(), 1)))
        died[ends] = step
        births += int(born.sum())
    assert births > 10


def test_agents_never_enter_water_or_stone() -> None:
    world, generator = Tribes(2, **SMALL), np.random.default_rng(5)
    shown = world.reset([0, 1], [8, 9])
    for _ in range(40):
        tiles = both(shown, "window")[of_both(shown, "acts")]
        assert not tiles[:, 1:, *HERE].any()
        shown = world.step(actions(world, generator))


def test_eaten_food_grows_back_after_a_fixed_number_of_steps() -> None:
    world = Tribes(1, num_agents=40, size=16, max_steps=1000)
    shown = world.reset([0], [1])
    has_food = [both(shown, "window")[:, 0, :, 0, *HERE] > 0]
    for _ in range(REGROWTH_STEPS + 2):
        shown = world.step(actions(world, None))
        has_food.append((both(shown, "window")[:, 0, :, 0, *HERE] > 0) & of_both(shown, "acts")[:, 0])
    # All agents are full in the first step and eat in the second.
    starts = has_food[0] & has_food[1]
    assert not (starts & has_food[2]).any()
    alive = starts & of_both(shown, "acts")[:, 0]
    seen = np.stack(has_food)[:, alive]
    assert alive.any()
    assert not seen[2 : REGROWTH_STEPS + 1].any()
    assert not seen[REGROWTH_STEPS + 2].any()  # the food is eaten in the step in which it has grown again


def test_an_agent_is_shown_the_living_agents_nearest_to_it_sorted_by_distance() -> None:
    world, generator = Tribes(1, num_agents=40, size=20), np.random.default_rng(6)
    shown = world.reset([0], [2])
    for _ in range(30):
        shown = world.step(actions(world, generator))
        mask, entities = both(shown, "entity_mask"), both(shown, "entities")
        distances = np.rint(np.abs(entities[..., :2]).max(-1) * RADIUS)
        assert (np.diff(mask, axis=-1) <= 0).all()
        pairs = (mask[..., 1:] > 0) & (np.diff(distances, axis=-1) < 0)
        assert not pairs.any()
        assert not mask[~of_both(shown, "acts")].any()
        assert (entities[mask > 0][:, 3] > 0).all()  # all agents that are shown have health left
        assert not entities[mask == 0].any()


def test_the_end_of_an_episode_truncates_all_living_agents() -> None:
    world = Tribes(1, **SMALL, max_steps=10)
    world.reset([0], [0])
    for _ in range(9):
        assert not world.step(actions(world, None)).ended.any()
    last = world.step(actions(world, None))
    assert last.ended.all()
    assert of_both(last, "truncateds").all()
    assert not of_both(last, "acts").any()


def test_a_map_has_the_intended_shares_of_water_and_stone_and_shores_are_next_to_water() -> None:
    tiles = random_terrain(np.random.default_rng(0), 64)
    assert (tiles == WATER).mean() == pytest.approx(0.12, abs=0.01)
    assert (tiles == STONE).mean() == pytest.approx(0.1, abs=0.01)
    assert (tiles == FOOD).mean() > 0.1
    wet = shores(tiles)
    for row, column in np.argwhere(wet)[:50]:
        around = [tiles[(row + down) % 64, (column + right) % 64] for down, right in MOVES[1:]]
        assert WATER in around


def test_the_scripted_forager_gains_far_more_than_random_agents() -> None:
    gains = []
    for foragers in (True, False):
        world, player, generator = Tribes(1, **SMALL, max_steps=150), TribeForager(0), np.random.default_rng(0)
        shown, gained = world.reset([0], [0]), 0.0
        for _ in range(150):
            taken = actions(world, generator)
            if foragers:
                for tribe in TRIBES:
                    seen = shown.groups[tribe].observations
                    taken[tribe][0] = [player({key: leaf[0, k] for key, leaf in seen.items()}) for k in range(24)]
            shown = world.step(taken)
            gained += float(of_both(shown, "rewards").sum())
        gains.append(gained)
    assert gains[0] > 1.5 * gains[1]
