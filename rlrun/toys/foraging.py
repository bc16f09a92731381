"""Foraging: a multi-agent grid world of foragers and optional hunters, with births and deaths during an episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.worlds.world import World, WorldStep

FORAGER, HUNTER = "forager", "hunter"

MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1], [-1, -1], [-1, 1], [1, -1], [1, 1]])
"""Displacement (rows, columns) of each action: stay, up, down, left, right, and for hunters the diagonals."""

CELL_PIXELS = 16
COLORS = np.array([[235, 235, 225], [120, 180, 80], [60, 100, 200], [200, 60, 50]], np.uint8)
"""Colors (red, green, blue) of empty cells, food, foragers and hunters."""

ENTITIES = 6
"""E, number of nearest agents in an observation."""
_FEATURES = 4

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Rules:
    """Life-cycle parameters of one kind of agents: energy, births, ages and vision.

    Attributes:
        kind: Prefix of the agents' ids.
        num_actions: Number of available actions, the first ones of `MOVES`.
        radius: Number of observed cells in each direction.
        meal: Energy gained by a meal.
        child_energy: Initial energy of a newborn agent, subtracted from its parent.
        birth_energy: Energy threshold for giving birth.
        most_energy: Maximum energy of an agent.
        max_age: Lifespan in steps.
    """

    kind: str
    num_actions: int
    radius: int
    meal: float
    child_energy: float
    birth_energy: float
    most_energy: float
    max_age: int


_FORAGERS = _Rules(
    kind=FORAGER, num_actions=5, radius=3, meal=5.0, child_energy=8.0, birth_energy=18.0, most_energy=24.0, max_age=60
)
_HUNTERS = _Rules(
    kind=HUNTER, num_actions=9, radius=4, meal=12.0, child_energy=16.0, birth_energy=40.0, most_energy=48.0, max_age=120
)


class _Population:
    """Population of one kind of agents, oldest first, as arrays [n] of variable length.

    Attributes:
        ids: Ids of the agents.
        places: Position (row, column) of each agent, [n, 2].
        energy: Energy of each agent, [n].
        ages: Age of each agent in steps, [n].
        meals: Number of meals of each agent, [n].
        children: Number of children of each agent, [n].
        births: Number of agents of the kind since the reset.
        deaths: Number of deaths since the reset.
    """

    def __init__(self, rules: _Rules, most: int) -> None:
        self.rules = rules
        self.most = most
        self.births = self.deaths = 0
        self.ids: list[str] = []
        self.places = np.zeros((0, 2), np.int64)
        self.energy = np.zeros(0)
        self.ages, self.meals, self.children = np.zeros((3, 0), np.int64)

    def add(self, places: Ints) -> None:
        """Adds newborn agents at positions [n, 2]."""
        count = len(places)
        self.ids += [f"{self.rules.kind}_{self.births + number}" for number in range(count)]
        self.births += count
        none = np.zeros(count, np.int64)
        self.places = np.concatenate([self.places, places])
        self.energy = np.concatenate([self.energy, np.full(count, self.rules.child_energy)])
        self.ages, self.meals, self.children = (
            np.concatenate([numbers, none]) for numbers in (self.ages, self.meals, self.children)
        )

    def move(self, actions: Ints, size: int) -> None:
        """Moves the agents on the toroidal grid, at an energy cost of 1."""
        self.places = (self.places + MOVES[actions]) % size
        self.energy -= 1.0
        self.ages += 1

    def feed(self, meals: Ints) -> None:
        """Adds the energy of each agent's meals, up to the maximum."""
        self.meals += meals
        self.energy = np.minimum(self.energy + self.rules.meal * meals, self.rules.most_energy)

    def spent(self) -> NDArray[np.bool_]:
        """Returns the mask [n] of dying agents: without energy, or beyond the maximum age."""
        return (self.energy <= 0.0) | (self.ages >= self.rules.max_age)

    def give_birth(self, dead: NDArray[np.bool_]) -> Ints:
        """Adds children of agents above the energy threshold, oldest parents first; returns the parents."""
        able = np.flatnonzero((self.energy >= self.rules.birth_energy) & ~dead)
        parents = able[: max(self.most - len(self.ids), 0)]
        self.energy[parents] -= self.rules.child_energy
        self.children[parents] += 1
        self.add(self.places[parents])
        return parents

    def info(self, index: int) -> dict[str, int]:
        """Returns the info of an agent's last step: age, meals and children."""
        lived = {"age": self.ages, "meals": self.meals, "children": self.children}
        return {name: int(numbers[index]) for name, numbers in lived.items()}

    def keep(self, living: NDArray[np.bool_]) -> None:
        """Removes the dead agents from the population."""
        self.deaths += int(np.count_nonzero(~living))
        self.ids = [agent for agent, lives in zip(self.ids, living.tolist(), strict=True) if lives]
        self.places, self.energy = self.places[living], self.energy[living]
        self.ages, self.meals, self.children = self.ages[living], self.meals[living], self.children[living]


class Foraging(World):
    """Multi-agent grid world: foragers eat growing food, die of hunger or age, and give birth when well fed.

    The grid wraps around at its edges. In each step all agents move and lose 1 unit of energy. A forager on a cell with
    food eats it, the oldest forager first. A hunter eats one forager on its cell; older hunters eat first, and older
    foragers are eaten first. Agents without energy, or beyond the maximum age, die. An agent with enough energy gives
    birth to an agent on its own cell, which acts from the next step on. A birth requires that the agents of that kind,
    counting those that died in this step, number fewer than the maximum. Then food grows on randomly sampled cells.

    Observation: a Dict. `self`: energy, age, and numbers of foragers and hunters, as fractions of their maxima, [4].
    `entities`: features of the nearest agents, [E, 4]: relative row and column (in halves of the grid), whether the
    agent is a hunter, and its energy. `entity_mask`: 1 for each row of entities that holds an agent, else 0, [E].
    `window`: 1 for each nearby cell that holds food, [7, 7] for foragers and [9, 9] for hunters. Actions: Discrete(5)
    for foragers (stay, up, down, left, right), Discrete(9) for hunters (the diagonals too). Rewards: 1 for each meal
    and `birth_reward` for each birth. Ends: an agent's episode is terminated by its death. The episode of the env ends
    when no forager is left, which terminates the episodes of hunters too, or is truncated after `max_steps` steps. The
    last info of an agent holds its `age`, `meals` and `children`.

    Newborn agents have new ids, such as `forager_17`. `possible_agents` lists as many agents of each kind as can be
    alive at once.

    Without hunters, the mean return is 1.0 for a random policy, and 3.8 for `GreedyForager`.

    Args:
        size: Rows and columns of the grid.
        foragers: Initial number of foragers.
        max_foragers: Maximum number of foragers, including those that died in a step.
        hunters: Initial number of hunters; 0 for an env without hunters.
        max_hunters: Maximum number of hunters, including those that died in a step.
        food: Initial number of cells with food.
        growth: Number of cells sampled at each step, on which food grows.
        birth_reward: Reward that the parent receives for a birth.
        max_steps: Steps after which the episode of the env is truncated.

    Attributes:
        births: Number of agents born since the reset, including the initial agents, by kind.
        deaths: Number of agents that died since the reset, by kind.
        living: Number of living agents, by kind.
    """

    def __init__(
        self,
        *,
        size: int = 20,
        foragers: int = 8,
        max_foragers: int = 12,
        hunters: int = 0,
        max_hunters: int = 4,
        food: int = 30,
        growth: int = 3,
        birth_reward: float = 1.0,
        max_steps: int = 200,
    ) -> None:
        self._size = size
        self._first = {FORAGER: foragers, HUNTER: hunters}
        self._most = {FORAGER: max_foragers, HUNTER: max_hunters}
        self._first_food = food
        self._growth = growth
        self._birth_reward = birth_reward
        self._max_steps = max_steps
        self.possible_agents = [
            f"{kind}_{number}" for kind, most in self._most.items() if self._first[kind] for number in range(most)
        ]
        self._spaces = {rules.kind: _spaces_of(rules) for rules in (_FORAGERS, _HUNTERS)}
        self._begin(0)

    @property
    def births(self) -> dict[str, int]:
        """Number of agents of each kind born since the reset, including the initial agents."""
        return {kind: population.births for kind, population in self._populations.items()}

    @property
    def deaths(self) -> dict[str, int]:
        """Number of agents of each kind that died since the reset."""
        return {kind: population.deaths for kind, population in self._populations.items()}

    @property
    def living(self) -> dict[str, int]:
        """Number of living agents of each kind."""
        return {kind: len(population.ids) for kind, population in self._populations.items()}

    @override
    def spaces(self, agent: str) -> Spaces:
        return self._spaces[agent.rsplit("_", 1)[0]]

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Starts an episode with agents and food on random cells."""
        self._begin(seed)
        return self._observe(np.zeros(sum(self._first.values()), np.bool_))

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Simulates one step: moves, meals, deaths, births and food growth."""
        self._elapsed += 1
        foragers, hunters = populations = tuple(self._populations.values())
        for population in populations:
            if population.ids:
                population.move(np.array([actions[agent] for agent in population.ids]), self._size)
        caught = self._hunt(foragers, hunters)
        meals = (self._eat(foragers, caught), np.bincount(caught[caught >= 0], minlength=len(hunters.ids)))
        for population, had in zip(populations, meals, strict=True):
            population.feed(had)
        dead = [population.spent() for population in populations]
        dead[0] |= caught >= 0
        extinct = bool(dead[0].all())
        ended = extinct or self._elapsed >= self._max_steps
        rewards: dict[str, float] = {}
        for kind, (population, had) in enumerate(zip(populations, meals, strict=True)):
            paid = had.astype(np.float64)
            ids = population.ids.copy()
            if not ended:
                parents = population.give_birth(dead[kind])
                paid[parents] += self._birth_reward
                dead[kind] = np.concatenate([dead[kind], np.zeros(len(parents), np.bool_)])
            rewards.update(zip(ids, paid.tolist(), strict=True))
        self._food.reshape(-1)[self._generator.integers(self._size**2, size=self._growth)] = 1.0
        observations = self._observe(np.concatenate(dead))
        terminateds: dict[str, bool] = {}
        truncateds: dict[str, bool] = {}
        infos: dict[str, Mapping[str, Any]] = {}
        for population, is_dead in zip(populations, dead, strict=True):
            for index in np.flatnonzero(is_dead | ended).tolist():
                agent = population.ids[index]
                (terminateds if extinct or is_dead[index] else truncateds)[agent] = True
                infos[agent] = population.info(index)
            if is_dead.any():
                population.keep(~is_dead)
        return WorldStep(observations, rewards, terminateds, truncateds, infos, ended)

    @override
    def render(self) -> NDArray[np.uint8]:
        """Renders the grid as an RGB image with one color per cell; hunters cover foragers, and foragers cover food."""
        cells = self._food.astype(np.int64)
        for color, population in enumerate(self._populations.values(), 2):
            cells[tuple(population.places.T)] = color
        picture: NDArray[np.uint8] = COLORS[np.kron(cells, np.ones((CELL_PIXELS, CELL_PIXELS), np.int64))]
        return picture

    def _begin(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._elapsed = 0
        self._food = np.zeros((self._size, self._size), np.float32)
        self._food.reshape(-1)[self._generator.choice(self._size**2, self._first_food, replace=False)] = 1.0
        self._populations = {rules.kind: _Population(rules, self._most[rules.kind]) for rules in (_FORAGERS, _HUNTERS)}
        for kind, population in self._populations.items():
            population.add(self._generator.integers(self._size, size=(self._first[kind], 2)))

    def _hunt(self, foragers: _Population, hunters: _Population) -> Ints:
        """Returns the index of the hunter that eats each forager, [n]; -1 for foragers that survive."""
        caught = np.full(len(foragers.ids), -1)
        for hunter, place in enumerate(hunters.places):
            there = np.flatnonzero((foragers.places == place).all(1) & (caught < 0))
            caught[there[:1]] = hunter
        return caught

    def _eat(self, foragers: _Population, caught: Ints) -> Ints:
        """Removes eaten food; returns the number of meals of each forager, [n], 0 for caught ones."""
        cells = foragers.places @ np.array([self._size, 1])
        food = self._food.reshape(-1)
        there = np.flatnonzero((food[cells] > 0.0) & (caught < 0))
        eaten, oldest = np.unique(cells[there], return_index=True)
        food[eaten] = 0.0
        had = np.zeros(len(cells), np.int64)
        had[there[oldest]] = 1
        return had

    def _observe(self, dead: NDArray[np.bool_]) -> dict[str, Any]:
        """Returns all agents' observations; agents that died in this step, `dead` [n], are invisible to others."""
        populations = self._populations.values()
        places = np.concatenate([population.places for population in populations])
        energy = np.concatenate([population.energy / population.rules.most_energy for population in populations])
        is_hunter = np.repeat([0.0, 1.0], [len(population.ids) for population in populations])
        entities, mask = self._nearest(places, np.stack([is_hunter, energy], axis=-1), dead)
        own = np.empty((len(places), 4), np.float32)
        own[:, 0] = energy
        seen: dict[str, Any] = {}
        first = 0
        for population in populations:
            last = first + len(population.ids)
            own[first:last, 1] = population.ages / population.rules.max_age
            own[:, 2 + (population.rules.kind == HUNTER)] = len(population.ids) / population.most
            windows = self._windows(population)
            for index, agent in enumerate(population.ids, first):
                seen[agent] = {
                    "entities": entities[index],
                    "entity_mask": mask[index],
                    "self": own[index],
                    "window": windows[index - first],
                }
            first = last
        return seen

    def _nearest(
        self, places: Ints, features: NDArray[np.float64], dead: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Returns features of each agent's nearest living agents, [n, E, 4], and the mask of filled rows, [n, E]."""
        count, half = len(places), self._size // 2
        away = (places - places[:, None] + half) % self._size - half
        distances = np.abs(away).sum(-1)
        distances[:, dead] = self._size * 2
        np.fill_diagonal(distances, self._size * 2)
        viewers = np.arange(count)[:, None]
        nearest = distances.argsort(axis=1, kind="stable")[:, :ENTITIES]
        width = nearest.shape[1]
        entities = np.zeros((count, ENTITIES, _FEATURES), np.float32)
        mask = np.zeros((count, ENTITIES), np.float32)
        mask[:, :width] = distances[viewers, nearest] <= self._size
        entities[:, :width, :2] = away[viewers, nearest] / half
        entities[:, :width, 2:] = features[nearest]
        entities *= mask[..., None]
        return entities, mask

    def _windows(self, population: _Population) -> NDArray[np.float32]:
        """Crops the food grid around each agent, [n, 2 * radius + 1, 2 * radius + 1]."""
        around = np.arange(-population.rules.radius, population.rules.radius + 1)
        rows, columns = (population.places.T[..., None] + around) % self._size
        windows: NDArray[np.float32] = self._food[rows[:, :, None], columns[:, None, :]]
        return windows


def _spaces_of(rules: _Rules) -> Spaces:
    """Returns the observation and action space of one kind of agents."""
    width = 2 * rules.radius + 1
    observation = Dict(
        {
            "entities": Box(-1.0, 1.0, (ENTITIES, _FEATURES)),
            "entity_mask": Box(0.0, 1.0, (ENTITIES,)),
            "self": Box(0.0, 1.0, (4,)),
            "window": Box(0.0, 1.0, (width, width)),
        }
    )
    return Spaces(observation, Discrete(rules.num_actions))
