"""Runs one piece of the multi-agent benchmark with rlrun; `bench_multiagent.py` starts it in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from bench_impala_rlrun import LONG_RUN
from bench_multiagent_world import ACTIONS, OBSERVED, Line
from gymnasium.spaces import Box, Discrete

from rlrun.envs.env_config import EnvConfig
from rlrun.envs.spaces import Spaces
from rlrun.registry import algorithm_class
from rlrun.training.training import Training
from rlrun.worlds.make import make_world
from rlrun.worlds.world import World, WorldStep


class LineWorld(World):
    """The benchmark's world for rlrun."""

    def __init__(self, num_agents: int) -> None:
        self.line = Line(num_agents)
        self.possible_agents = self.line.agents
        self._spaces = Spaces(Box(-np.inf, np.inf, (OBSERVED,), np.float32), Discrete(ACTIONS))

    def spaces(self, agent: str) -> Spaces:
        """Returns the spaces that all agents have."""
        return self._spaces

    def reset(self, seed: int) -> Mapping[str, Any]:
        """Begins an episode."""
        return self.line.reset(seed)

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Moves all agents."""
        observations, rewards, cut_off = self.line.step(dict(actions))
        truncateds = dict.fromkeys(self.line.agents, True) if cut_off else {}
        return WorldStep(observations, rewards, {}, truncateds, {}, cut_off)


def env_of(work: Mapping[str, Any]) -> EnvConfig:
    """Returns what a piece of work is done in."""
    return EnvConfig.parse(work["world"]) if "world" in work else EnvConfig.parse(work["env"])


def trained(work: Mapping[str, Any]) -> dict[str, Any]:
    """Trains through warm-up and window, and returns what the window held."""
    kind = algorithm_class(work["algorithm"])
    algorithm = kind(kind.Config.parse(work["config"]))
    with Training(env_of(work), algorithm, seed=work["seed"], total_env_steps=LONG_RUN) as training:
        began = time.perf_counter()
        result = training.step()
        while time.perf_counter() - began < work["warm_up_s"]:
            result = training.step()
        before, began, began_cpu = result["agent_steps"], time.perf_counter(), time.process_time()
        while time.perf_counter() - began < work["window_s"]:
            result = training.step()
        return {
            "agent_steps": result["agent_steps"] - before,
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - began_cpu,
        }


def sampled(work: Mapping[str, Any]) -> dict[str, Any]:
    """Collects fragments without learning, and returns how many steps of agents the window held."""
    kind = algorithm_class(work["algorithm"])
    algorithm = kind(kind.Config.parse(work["config"]))
    with Training(env_of(work), algorithm, seed=work["seed"]) as training:
        training.start()
        workers = training.workers
        steps = 0

        def fragment() -> int:
            workers.request(0)
            (rollout,) = workers.arrived()
            return int(np.count_nonzero(rollout.batches["default"]["valid"]))

        began = time.perf_counter()
        while time.perf_counter() - began < work["warm_up_s"]:
            fragment()
        began, began_cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() - began < work["window_s"]:
            steps += fragment()
        return {
            "agent_steps": steps,
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - began_cpu,
        }


def stepped(work: Mapping[str, Any]) -> dict[str, Any]:
    """Steps a world alone, with actions that are drawn before, and returns how many steps of agents that were."""
    world = make_world(EnvConfig.parse(work["world"]))
    spaces = {agent: world.spaces(agent).action for agent in world.possible_agents}
    for space in spaces.values():
        space.seed(work["seed"])
    drawn = [{agent: space.sample() for agent, space in spaces.items()} for _ in range(1000)]
    steps, shown, began, began_cpu = 0, world.reset(0), time.perf_counter(), time.process_time()
    number = 0
    while time.perf_counter() - began < work["window_s"]:
        number += 1
        actions = drawn[number % len(drawn)]
        step = world.step({agent: actions[agent] for agent in shown})
        steps += len(shown)
        shown = world.reset(number) if step.ended else step.observations
    return {
        "agent_steps": steps,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - began_cpu,
    }


def main() -> None:
    work = json.loads(sys.argv[1])
    print(json.dumps({"train": trained, "sample": sampled, "step": stepped}[work["does"]](work)))


if __name__ == "__main__":
    main()
