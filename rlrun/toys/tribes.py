"""Tribes: a vectorized multi-agent env in which many agents eat, drink, fight, die and are born on a large map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, MultiDiscrete
from numpy.typing import NDArray

from rlrun.engine.envs.env_config import WorldClock
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.worlds.array_worlds import ArrayGroup, ArrayStep, GroupRows

GRASS, FOREST, FOOD, WATER, STONE = range(5)
"""Kinds of tiles; `FOOD` is forest with food. No agent can enter `WATER` or the kinds after it."""

_SMOOTHNESS = 3.0
_WATER_SHARE, _STONE_SHARE, _FOREST_SHARE = 0.12, 0.1, 0.25

TRIBES = ("red", "blue")
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
"""Displacement (rows, columns) of each first action: stay, up, down, left, right."""

ENTITIES = 8
"""E, number of nearest agents in an observation."""
RADIUS = 5
"""Number of observed tiles in each direction."""
REACH = 2
"""Largest distance of a strike, in rows and in columns."""

MOST = 100
"""Maximum of food, water and health, with which agents are born."""
MEAL = 20
"""Maximum food gained from a meal, and maximum water from a drink."""
NEED = 2
"""Food and water that an agent uses per step."""
STRIKE = 20
"""Health that a strike costs its victim."""
WANT = 5
"""Health lost per step without food, and per step without water."""
REGROWTH_STEPS = 40
"""Steps after which an eaten tile of forest has food again."""
VACANT_STEPS = 30
"""Steps after a death until another agent is born in the same slot."""

_FEATURES = 6

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Tribes:
    """Survival of two tribes on a toroidal map of grass, forest, water and stone, of which agents see a small part.

    An agent's food and water fall by `NEED` in each step. An agent eats on a tile of forest with food, which grows
    again after `REGROWTH_STEPS`, and drinks next to water. Health falls by `WANT` for each of the two that is 0, and
    rises by 1 if both are above half. A strike takes `STRIKE` health from an agent of the other tribe within `REACH`.
    If strikes kill an agent, the first of the strikers gets its food and water. An agent without health dies. After
    `VACANT_STEPS`, another one is born in its slot, on a random tile. Agents may share a tile; no agent can enter water
    or stone. Names in capitals are constants of the module.

    Observation: `window`, masks of food, water and stone around the agent, [3, 2 * RADIUS + 1, 2 * RADIUS + 1];
    `entities`, the E nearest agents that it sees, [E, 6]: offsets in rows and columns, whether they belong to its
    tribe, health, food and water; `entity_mask`, which of them exist, [E]; `self`: food, water, health and age, [4].
    Actions: MultiDiscrete: a move of `MOVES`; and 0 for no strike, or 1 + the index of the entity to strike. Strikes
    come before moves. Rewards: food and water gained, in units of `MEAL`. Ends: an agent's episode is terminated when
    it dies. The world's episode is truncated after `max_steps`.

    Args:
        num_worlds: W, number of worlds.
        num_agents: K, number of agents of each tribe in each world.
        size: S, rows and columns of the map.
        max_steps: Steps after which a world's episode is truncated.
    """

    clock: WorldClock = "parallel"
    state_space = None

    def __init__(self, num_worlds: int, num_agents: int = 64, size: int = 128, max_steps: int = 500) -> None:
        count = len(TRIBES) * num_worlds * num_agents
        self.num_worlds = num_worlds
        self.groups: Mapping[str, ArrayGroup] = {tribe: ArrayGroup(num_agents, _spaces()) for tribe in TRIBES}
        self._size, self._max_steps = size, max_steps
        # Agents are ordered by tribe, world and slot, so that each tribe's arrays are contiguous.
        numbers = np.arange(count)
        self._tribe = numbers // (num_worlds * num_agents)
        self._world = numbers // num_agents % num_worlds
        by_world = numbers.reshape(len(TRIBES), num_worlds, num_agents).swapaxes(0, 1)
        self._of_world = by_world.reshape(num_worlds, -1)  # the agents of each world, [W, N]
        self._generators = [np.random.default_rng(0)] * num_worlds
        self._lengths = np.zeros(num_worlds, np.int64)
        self._over = np.zeros(num_worlds, np.bool_)
        self._tiles = np.zeros(num_worlds * size * size, np.uint8)
        self._is_shore = np.zeros(num_worlds * size * size, np.bool_)
        self._passable: list[Ints] = [np.zeros(0, np.int64)] * num_worlds
        self._eaten: list[Ints] = [np.zeros(0, np.int64)] * REGROWTH_STEPS
        self._steps = 0
        self._alive, self._terminateds, self._truncateds = np.zeros((3, count), np.bool_)
        self._vacant, self._ages = np.zeros((2, count), np.int64)
        self._places = np.zeros((count, 2), np.int64)
        self._food, self._water, self._health = self._levels = np.zeros((3, count), np.int64)
        self._rewards = np.zeros(count)
        self._entities = np.zeros((count, ENTITIES), np.int64)
        self._wrapped = np.arange(-RADIUS, size + RADIUS) % size
        self._seen = {
            "entities": np.zeros((count, ENTITIES, _FEATURES), np.float32),
            "entity_mask": np.zeros((count, ENTITIES), np.float32),
            "self": np.zeros((count, 4), np.float32),
            "window": np.zeros((count, 3, 2 * RADIUS + 1, 2 * RADIUS + 1), np.float32),
        }
        rows = (self._rewards, self._terminateds, self._truncateds, self._alive)
        shape = (len(TRIBES), num_worlds, num_agents)
        by_tribe = [array.reshape(shape) for array in rows]
        seen = {name: leaf.reshape(*shape, *leaf.shape[1:]) for name, leaf in self._seen.items()}
        self._rows = {
            name: GroupRows({key: leaf[tribe] for key, leaf in seen.items()}, *(array[tribe] for array in by_tribe))
            for tribe, name in enumerate(TRIBES)
        }

    def reset(self, worlds: Sequence[int], seeds: Sequence[int]) -> ArrayStep:
        """Resets selected worlds, each to a new map with all agents on random tiles."""
        area = self._size * self._size
        begun = list(worlds)
        for world, seed in zip(worlds, seeds, strict=True):
            generator = self._generators[world] = np.random.default_rng(seed)
            tiles = random_terrain(generator, self._size)
            here = slice(world * area, (world + 1) * area)
            self._tiles[here], self._is_shore[here] = tiles.reshape(-1), shores(tiles).reshape(-1)
            self._passable[world] = np.flatnonzero(tiles < WATER)
            self._give_birth(world, np.sort(self._of_world[world]))
        self._eaten = [tiles[~np.isin(tiles // area, begun)] for tiles in self._eaten]
        agents = self._of_world[begun]
        self._rewards[agents] = 0.0
        self._terminateds[agents] = self._truncateds[agents] = False
        self._lengths[begun] = 0
        self._over[begun] = False
        self._observe()
        return ArrayStep(self._rows, self._over)

    def step(self, actions: Mapping[str, Any]) -> ArrayStep:
        """Steps the worlds: agents strike, move, eat and drink; then food, water and health fall.

        Agents without health die, and others are born.
        """
        taken = np.concatenate([np.asarray(actions[tribe]).reshape(-1, 2) for tribe in TRIBES])
        living = self._alive.copy()
        before = self._food + self._water
        strikers, victims = self._strikes(taken[:, 1])
        self._move(taken[:, 0])
        self._eat_and_drink()
        after = self._food + self._water
        self._live_on(np.bincount(victims, minlength=len(living)) * STRIKE)
        died = living & (self._health <= 0)
        gained = after - before + self._loot(strikers, victims, died)
        np.multiply(gained, living / MEAL, out=self._rewards)
        self._lengths += 1
        np.greater_equal(self._lengths, self._max_steps, out=self._over)
        self._terminateds[:] = died
        self._truncateds[:] = living & ~died & self._over[self._world]
        self._alive &= ~(self._terminateds | self._truncateds)
        self._refill_slots(~living)
        self._observe()
        return ArrayStep(self._rows, self._over)

    def state(self) -> NDArray[Any]:
        """Raises NotImplementedError, since the worlds have no global state."""
        raise NotImplementedError("Tribes have no state")

    def close(self) -> None:
        """No-op: there are no resources to release."""

    def _strikes(self, targets: Ints) -> tuple[Ints, Ints]:
        """Pairs of strikers and victims, as two arrays of agents: enemies that the strikers observed within reach."""
        strikers = np.flatnonzero(self._alive & (targets > 0))
        chosen = targets[strikers] - 1
        there = self._seen["entity_mask"][strikers, chosen] > 0.0
        strikers, victims = strikers[there], self._entities[strikers[there], chosen[there]]
        away = np.abs(self._away(self._places[strikers], self._places[victims])).max(axis=-1)
        hits = (away <= REACH) & (self._tribe[strikers] != self._tribe[victims])
        return strikers[hits], victims[hits]

    def _away(self, places: Ints, others: Ints) -> Ints:
        """Offsets (rows, columns) from some places to others, the shortest way around the torus."""
        half = self._size // 2
        return (others - places + half) % self._size - half

    def _move(self, moves: Ints) -> None:
        """Moves the living agents to passable tiles."""
        there = (self._places + MOVES[moves]) % self._size
        goes = self._alive & (self._tiles[self._cells(there)] < WATER)
        self._places[goes] = there[goes]

    def _cells(self, places: Ints) -> Ints:
        """Indices of all agents' tiles among the tiles of all worlds."""
        cells: Ints = (self._world * self._size + places[:, 0]) * self._size + places[:, 1]
        return cells

    def _eat_and_drink(self) -> None:
        """Feeds the first hungry agent on each tile with food, and lets thirsty agents at shores drink."""
        cells = self._cells(self._places)
        self._steps += 1
        regrown = self._steps % REGROWTH_STEPS
        self._tiles[self._eaten[regrown]] = FOOD
        hungry = np.flatnonzero(self._alive & (self._tiles[cells] == FOOD) & (self._food < MOST))
        eaten, first = np.unique(cells[hungry], return_index=True)
        self._tiles[eaten] = FOREST
        self._eaten[regrown] = eaten
        eaters = hungry[first]
        self._food[eaters] = np.minimum(self._food[eaters] + MEAL, MOST)
        drinks = self._alive & self._is_shore[cells]
        np.minimum(self._water + MEAL * drinks, MOST, out=self._water)

    def _live_on(self, wounds: Ints) -> None:
        """Lowers food and water by `NEED`; hunger, thirst and wounds [N] lower health."""
        self._ages += 1
        needs = self._levels[:2]
        np.maximum(needs - NEED, 0, out=needs)
        heals = (needs > MOST // 2).all(axis=0)
        np.minimum(self._health + heals - WANT * (needs == 0).sum(axis=0) - wounds, MOST, out=self._health)

    def _loot(self, strikers: Ints, victims: Ints, died: Flags) -> Ints:
        """Gives the food and water of agents killed by strikes to their first striker; returns the gains, [N]."""
        gained = np.zeros(len(died), np.int64)
        fallen, first = np.unique(victims, return_index=True)
        winners = strikers[first]
        won = died[fallen] & ~died[winners]
        for level in (self._food, self._water):
            loot = np.bincount(winners[won], level[fallen[won]], len(died)).astype(np.int64)
            room = np.minimum(loot, MOST - level)
            level += room
            gained += room
        return gained

    def _refill_slots(self, was_empty: Flags) -> None:
        """Fills slots that have been empty for `VACANT_STEPS`; `was_empty` [N] masks slots empty before the step."""
        self._vacant[was_empty] += 1
        due = was_empty & (self._vacant >= VACANT_STEPS) & ~self._over[self._world]
        for world in np.unique(self._world[due]).tolist():
            self._give_birth(world, np.flatnonzero(due & (self._world == world)))

    def _give_birth(self, world: int, agents: Ints) -> None:
        """Places newborn agents at random passable tiles."""
        tiles = self._passable[world]
        chosen = tiles[self._generators[world].integers(len(tiles), size=len(agents))]
        self._places[agents] = np.stack(np.divmod(chosen, self._size), axis=-1)
        self._levels[:, agents] = MOST
        self._vacant[agents] = self._ages[agents] = 0
        self._alive[agents] = True

    def _observe(self) -> None:
        """Writes all agents' observations."""
        own = self._seen["self"]
        own[:, :3] = self._levels.T / MOST
        own[:, 3] = self._ages / self._max_steps
        self._observe_window()
        self._observe_entities()

    def _observe_window(self) -> None:
        """Crops the map around each agent."""
        around = np.arange(2 * RADIUS + 1)
        rows, columns = self._wrapped[self._places.T[..., None] + around]
        rows += self._world[:, None] * self._size
        tiles = self._tiles.take(rows[:, :, None] * self._size + columns[:, None, :])
        for plane, kind in enumerate((FOOD, WATER, STONE)):
            np.equal(tiles, kind, self._seen["window"][:, plane], casting="unsafe")

    def _observe_entities(self) -> None:
        """Finds each agent's nearest living agents in its window."""
        distances, is_seen = self._pairs()
        world, viewer, other = np.nonzero(is_seen)
        count = is_seen.shape[1]
        rows = world * count + viewer
        order = np.argsort(rows * (RADIUS + 1) + distances[world, viewer, other], kind="stable")
        numbers = np.bincount(rows, minlength=self.num_worlds * count)
        rank = np.arange(len(rows)) - (np.cumsum(numbers) - numbers)[rows]  # rows ascend before and after sorting
        order, rank = order[rank < ENTITIES], rank[rank < ENTITIES]
        viewers = self._of_world[world[order], viewer[order]]
        others = self._of_world[world[order], other[order]]
        self._entities[viewers, rank] = others
        self._seen["entity_mask"].fill(0.0)
        self._seen["entity_mask"][viewers, rank] = 1.0
        shown = np.empty((len(rank), _FEATURES), np.float32)
        shown[:, :2] = self._away(self._places[viewers], self._places[others]) / RADIUS
        shown[:, 2] = self._tribe[viewers] == self._tribe[others]
        shown[:, 3:] = self._levels[::-1].T[others] / MOST
        self._seen["entities"].fill(0.0)
        self._seen["entities"][viewers, rank] = shown

    def _pairs(self) -> tuple[NDArray[np.int16], Flags]:
        """Distances between the agents of each world, [W, N, N], and who sees whom, [W, N, N]."""
        agents = self._of_world
        rows, columns = self._places[agents].astype(np.int16).transpose(2, 0, 1)
        distances = np.zeros((*agents.shape, agents.shape[1]), np.int16)
        for along in (rows, columns):
            away = np.abs(along[:, None] - along[:, :, None])
            np.maximum(distances, np.minimum(away, self._size - away), out=distances)
        is_seen = distances <= RADIUS
        is_seen &= self._alive[agents][:, None] & self._alive[agents][:, :, None]
        itself = np.arange(agents.shape[1])
        is_seen[:, itself, itself] = False
        return distances, is_seen


def _spaces() -> Spaces:
    """Observation and action space of each agent."""
    width = 2 * RADIUS + 1
    observation = Dict(
        {
            "entities": Box(-1.0, 1.0, (ENTITIES, _FEATURES)),
            "entity_mask": Box(0.0, 1.0, (ENTITIES,)),
            "self": Box(0.0, 1.0, (4,)),
            "window": Box(0.0, 1.0, (3, width, width)),
        }
    )
    return Spaces(observation, MultiDiscrete([len(MOVES), 1 + ENTITIES]))


def random_terrain(generator: np.random.Generator, size: int) -> NDArray[np.uint8]:
    """Samples a map of S x S tiles from smooth noise: lakes in valleys, rocks on hills; forests from a second map."""
    height, growth = _smooth_noise(generator, size), _smooth_noise(generator, size)
    tiles = np.where(growth > np.quantile(growth, 1.0 - _FOREST_SHARE), FOOD, GRASS).astype(np.uint8)
    tiles[height < np.quantile(height, _WATER_SHARE)] = WATER
    tiles[height > np.quantile(height, 1.0 - _STONE_SHARE)] = STONE
    return tiles


def shores(tiles: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Mask of the tiles of an S x S map with water above, below, to the left or to the right."""
    water = tiles == WATER
    above_or_below = np.roll(water, 1, 0) | np.roll(water, -1, 0)
    beside: NDArray[np.bool_] = above_or_below | np.roll(water, 1, 1) | np.roll(water, -1, 1)
    return beside


def _smooth_noise(generator: np.random.Generator, size: int) -> NDArray[np.float64]:
    """White noise [S, S], smoothed by a Gaussian around the torus."""
    frequencies = np.fft.fftfreq(size)
    squares = frequencies[:, None] ** 2 + frequencies[None, :] ** 2
    damping = np.exp(-2.0 * (np.pi * _SMOOTHNESS) ** 2 * squares)
    noise: NDArray[np.float64] = np.fft.ifft2(np.fft.fft2(generator.normal(size=(size, size))) * damping).real
    return noise
