"""Unusable observations and rewards of a world are refused with their place, whatever the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.ppo import PPO
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.rollout.evaluation import parallel_episodes
from rlrun.engine.training.training import Training
from rlrun.engine.worlds.array_worlds import ArrayStep
from rlrun.engine.worlds.world import World, WorldStep
from rlrun.toys.cartpoles import CartPoleArrays

SPACES = Spaces(Box(-np.inf, np.inf, (1,)), Discrete(2))
SEEDS = EpisodeSeeds(run_seed=0, worker_index=0)


class Wrong(World):
    """Two agents act together or in turns; each agent lives for 4 steps of the world, then another takes its place.

    Args:
        clock: Whether they act together.
        wrong: What is wrong: an `observation` or `reward` that is not a number, or an `exit` of the process.
        agent: The agent that it is shown to.
        step: The step of the world.
        seed: Seed of the episode.
    """

    def __init__(self, clock: str, wrong: str, agent: str, step: int, seed: int) -> None:
        self.clock = clock
        self.possible_agents = ["a_0", "b_0", "a_1", "b_1"]
        self.wrong, self.agent, self.at, self.in_seed = wrong, agent, step, seed

    def spaces(self, agent: str) -> Spaces:
        return SPACES

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.seed, self.taken = seed, 0
        shown = self.living() if self.clock == "parallel" else self.living()[:1]
        return {agent: self.seen(agent) for agent in shown}

    def living(self) -> list[str]:
        return [f"{name}_{self.taken // 4}" for name in "ab"]

    def seen(self, agent: str) -> Any:
        return np.full(1, np.nan if self.is_wrong("observation", agent) else 1.0, np.float32)

    def is_wrong(self, what: str, agent: str) -> bool:
        return (what, agent, self.taken, self.seed) == (self.wrong, self.agent, self.at, self.in_seed)

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        before = self.living()
        self.taken += 1
        if self.is_wrong("exit", self.agent):
            raise SystemExit(0)
        now = self.living()
        ends = dict.fromkeys(before if now != before else [], True)
        acts = now if self.clock == "parallel" else [now[self.taken % 2]]
        rewards = {agent: np.nan if self.is_wrong("reward", agent) else 1.0 for agent in before}
        shown = {agent: self.seen(agent) for agent in [*ends, *acts]}
        return WorldStep(shown, rewards, ends, {}, {}, self.taken == 10)


# With 7 steps, the episode continues after the fragment. With 17, it began in an earlier fragment. With 40, it begins
# and ends in the same fragment.
@pytest.mark.parametrize("length", [7, 17, 40])
@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
@pytest.mark.parametrize(("agent", "step"), [("a_0", 2), ("a_0", 4), ("a_1", 4), ("a_1", 8), ("a_2", 8)])
def test_a_nan_observation_is_reported_with_agent_episode_and_step(
    clock: str, agent: str, step: int, length: int
) -> None:
    wrong = {"clock": clock, "wrong": "observation", "agent": agent, "step": step, "seed": SEEDS.seed(1, 1)}
    told = rf"worker 0, world 1, episode 1 with seed {wrong['seed']}, step {step}, agent '{agent}' of policy default: "
    with pytest.raises(EnvError, match=told + "the observation contains NaN"):
        train(wrong, length=length)


@pytest.mark.parametrize("length", [7, 17, 40])
@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_a_nan_reward_is_reported_with_agent_episode_and_step(clock: str, length: int) -> None:
    wrong = {"clock": clock, "wrong": "reward", "agent": "b_1", "step": 7, "seed": SEEDS.seed(1, 1)}
    told = rf"worker 0, world 1, episode 1 with seed {wrong['seed']}, step 7, agent 'b_1'.*finite number, not nan"
    with pytest.raises(EnvError, match=told):
        train(wrong, length=length)


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
@pytest.mark.parametrize(("agent", "step"), [("a_0", 2), ("a_2", 8)])
def test_a_nan_observation_in_an_evaluation_is_reported_with_agent_episode_and_step(
    clock: str, agent: str, step: int
) -> None:
    _, seeds = parallel_episodes(3, seed=5)
    wrong = {"clock": clock, "wrong": "observation", "agent": agent, "step": step, "seed": seeds.seed(1, 0)}
    place = (
        rf"evaluation, world 1, episode \d with seed {wrong['seed']}, step {step}, agent '{agent}' of policy default"
    )
    with training_in(wrong) as training, pytest.raises(EnvError, match=f"{place}: the observation contains NaN"):
        training.evaluate(3, seed=5)


def test_a_world_that_calls_exit_raises_an_env_error() -> None:
    wrong = {"clock": "parallel", "wrong": "exit", "agent": "a_0", "step": 3, "seed": SEEDS.seed(1, 1)}
    told = rf"raised an exception in step\(\) \(worker 0, world 1, episode 1 with seed {wrong['seed']}, step 3\)"
    with pytest.raises(EnvError, match=told):
        train(wrong)


class WrongArrays(CartPoleArrays):
    """In its third step, gives the second pole of world 1 a reward that is not a number, or exits."""

    def __init__(self, num_worlds: int, wrong: str) -> None:
        super().__init__(num_worlds)
        self.wrong, self.taken = wrong, 0

    def step(self, actions: Mapping[str, Any]) -> ArrayStep:
        shown = super().step(actions)
        self.taken += 1
        if self.taken == 3 and self.wrong == "exit":
            raise SystemExit(0)
        if self.taken == 3:
            shown.groups["pole"].rewards[1, 1] = np.inf
        return shown


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            "reward",
            rf"world 1, episode 0 with seed {SEEDS.seed(1, 0)}, step 3, agent 'pole_1' of policy default: "
            "the reward must be a finite number, not inf",
        ),
        ("exit", rf"world 1, episode 0 with seed {SEEDS.seed(1, 0)}, step 3\)"),
    ],
)
def test_mistakes_of_an_array_world_are_reported_with_world_episode_and_step(wrong: str, said: str) -> None:
    with pytest.raises(EnvError, match=said):
        train({"wrong": wrong}, "WrongArrays")


def train(wrong: dict[str, Any], world_class: str = "Wrong", length: int = 7) -> None:
    with training_in(wrong, world_class, length) as training:
        for _ in range(5):
            training.step()


def training_in(wrong: dict[str, Any], world_class: str = "Wrong", length: int = 7) -> Training:
    world = EnvConfig(world=f"{__name__}:{world_class}", kwargs=wrong)
    sizes = {"rollout_fragment_length": length, "train_batch_size": 4 * length, "minibatch_size": 4 * length}
    settings = {"num_envs_per_worker": 2, **sizes}
    return Training(world, PPO(PPO.Config.parse({**settings, "compile": False, "model": {"hiddens": [4]}})))
