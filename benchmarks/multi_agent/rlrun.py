"""rlrun's side of the multi-agent benchmark; `run.py` starts it in a separate process."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from gymnasium.spaces import Box, Discrete

from benchmarks.multi_agent.line import ACTIONS, OBSERVED, Line
from benchmarks.ours import run_iterations, train_in_window, training_of
from benchmarks.peers import Measurement, answer, in_window
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.worlds.make_worlds import make_world
from rlrun.engine.worlds.world import World, WorldStep
from rlrun.toys.tribes import TRIBES, Tribes


class LineWorld(World):
    """The benchmark's world for rlrun."""

    def __init__(self, num_agents: int) -> None:
        self.line = Line(num_agents)
        self.possible_agents = self.line.agents
        self._spaces = Spaces(Box(-np.inf, np.inf, (OBSERVED,), np.float32), Discrete(ACTIONS))

    def spaces(self, agent: str) -> Spaces:
        """Returns the spaces, which are the same for all agents."""
        return self._spaces

    def reset(self, seed: int) -> Mapping[str, Any]:
        """Starts an episode."""
        return self.line.reset(seed)

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Moves all agents."""
        observations, rewards, cut_off = self.line.step(dict(actions))
        truncateds = dict.fromkeys(self.line.agents, True) if cut_off else {}
        return WorldStep(observations, rewards, {}, truncateds, {}, cut_off)


def sampled(work: Measurement) -> Measurement:
    """Collects fragments without learning, and returns the number of agent steps in the window."""
    with training_of(work, work["config"]) as training:
        training.start()
        workers = training.running.workers

        def fragment() -> int:
            workers.started.request(0)
            (rollout,) = workers.started.arrived()
            return int(np.count_nonzero(rollout.batches["default"]["valid"]))

        (_, *steps), clocks = in_window(work, fragment)
        return {"env_steps": sum(steps), **clocks}


def stepped(work: Measurement) -> Measurement:
    """Steps a world without a policy, with actions drawn in advance, and returns the number of agent steps."""
    world = make_world(EnvConfig.parse(work["world"]))
    spaces = {agent: world.spaces(agent).action for agent in world.possible_agents}
    for space in spaces.values():
        space.seed(work["seed"])
    drawn = cycle([{agent: space.sample() for agent, space in spaces.items()} for _ in range(1000)])
    seeds, shown = count(1), world.reset(0)

    def step() -> int:
        nonlocal shown
        actions, number = next(drawn), len(shown)
        found = world.step({agent: actions[agent] for agent in shown})
        shown = world.reset(next(seeds)) if found.ended else found.observations
        return number

    (_, *steps), clocks = in_window(work, step)
    return {"env_steps": sum(steps), **clocks}


def stepped_arrays(work: Measurement) -> Measurement:
    """Steps `Tribes` without a policy, with actions drawn in advance, and returns the number of agent steps."""
    worlds, generator = list(range(4)), np.random.default_rng(work["seed"])
    world = Tribes(len(worlds))
    shape = (len(worlds), world.groups["red"].num_agents, 2)
    drawn = cycle([{tribe: generator.integers([5, 9], size=shape) for tribe in TRIBES} for _ in range(100)])
    shown = world.reset(worlds, worlds)

    def step() -> int:
        nonlocal shown
        number = sum(int(np.count_nonzero(rows.acts)) for rows in shown.groups.values())
        shown = world.step(next(drawn))
        if shown.ended.any():  # episodes have the same length in all worlds
            shown = world.reset(worlds, worlds)
        return number

    (_, *steps), clocks = in_window(work, step)
    return {"env_steps": sum(steps), **clocks}


def learned(work: Measurement) -> Measurement:
    """Runs the shipped spec of `Tribes`, and returns the number of agent steps it learned from."""
    entry = yaml.safe_load(Path("configs/worlds/tribes_ppo.yaml").read_text())["tribes-ppo"]
    plain = {key: part for key, part in entry.items() if key not in ("expect", "evaluation", "checkpoint")}
    return run_iterations(plain, work, [f"policies/{tribe}/agent_steps" for tribe in TRIBES])


def measured(work: Measurement) -> Measurement:
    """Runs the given work, and returns the measurements."""
    if work["does"] == "train":
        return train_in_window(work, work["config"], counted="agent_steps")
    ways = {"sample": sampled, "step": stepped, "step_arrays": stepped_arrays, "learn": learned}
    return ways[work["does"]](work)


if __name__ == "__main__":
    answer(measured)
