"""Messages about envs and worlds that are stepped together, when one hangs or ends the process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_watch import waits_for
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env, spaces_of
from rlrun.engine.envs.step_marks import enable_step_marks, end_marks, stepped_env
from rlrun.engine.worlds.array_worlds import ArrayVectorWorld
from rlrun.toys.cartpoles import GROUP, CartPoleArrays

SEEDS = EpisodeSeeds(run_seed=3, worker_index=0)
TRIAL: list[Path] = []


@pytest.fixture(autouse=True)
def _trial(tmp_path: Path) -> Iterator[None]:
    TRIAL[:] = [tmp_path]
    enable_step_marks(tmp_path)
    yield
    end_marks()


def told() -> tuple[str, str]:
    """Returns the message of a watch that finds this process hung, and of a later process about its death."""
    return waits_for(sys._getframe()), str(stepped_env(TRIAL[0]))


class TellsWorlds(CartPoleArrays):
    """Worlds whose episodes end after two steps."""

    def __init__(self, num_worlds: int) -> None:
        super().__init__(num_worlds, max_steps=2)
        self.told: list[tuple[str, str]] = []

    def reset(self, worlds: Sequence[int], seeds: Sequence[int]) -> Any:
        self.told.append(told())
        return super().reset(worlds, seeds)

    def step(self, actions: Any) -> Any:
        self.told.append(told())
        return super().step(actions)


def test_reports_about_array_worlds_name_all_current_episodes(wording) -> None:
    arrays = TellsWorlds(2)
    worlds = ArrayVectorWorld(arrays, "poles", {GROUP: "balancer"}, SEEDS)
    assert list(TRIAL[0].iterdir()) == []  # worlds that are made only to read their spaces leave no step marks
    worlds.reset()
    actions = {"balancer": np.zeros(worlds.slots["balancer"], int)}
    for _ in range(3):  # the last step begins the next episodes
        worlds.step(actions)
        assert stepped_env(TRIAL[0]) is None
    seeds = [[SEEDS.seed(world, episode) for world in range(2)] for episode in range(2)]
    first, second = (
        "env poles ("
        + "; ".join(f"world {world}, episode {number} with seed {seeds[number][world]}" for world in range(2))
        + ")"
        for number in range(2)
    )
    places = "worker 0, " + "; ".join(
        f"world {world}, episode 0 with seed {seeds[0][world]}, step 2" for world in range(2)
    )
    assert arrays.told[0] == (wording(seeds[0]), first)
    assert arrays.told[2] == (places, first)
    assert arrays.told[-1] == (wording(seeds[1]), second)


class TellsEnvs(gymnasium.vector.VectorEnv[Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Env slots whose episodes end at every second step."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int) -> None:
        self.num_envs, self.steps = num_envs, 0
        self.single_observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.told: list[tuple[str, str]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.told.append(told())
        return np.zeros((self.num_envs, 1), np.float32), {}

    def step(self, actions: Any) -> Any:
        self.told.append(told())
        self.steps += 1
        ended = np.full(self.num_envs, self.steps == 2)
        return np.zeros((self.num_envs, 1), np.float32), np.ones(self.num_envs), ended, ~ended & False, {}


def test_reports_about_third_party_vector_envs_name_all_current_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        gymnasium.registry, "Tells-v0", gymnasium.envs.registration.EnvSpec("Tells-v0", vector_entry_point=TellsEnvs)
    )
    spaces_of(EnvConfig(id="Tells-v0"))
    assert list(TRIAL[0].iterdir()) == []
    env: Any = make_vector_env(EnvConfig(id="Tells-v0"), 2, SEEDS)
    env.reset()
    for _ in range(4):  # the third step begins the next episodes
        env.step(np.zeros(2, int))
        assert stepped_env(TRIAL[0]) is None
    seeds = [[SEEDS.seed(slot, episode) for slot in range(2)] for episode in range(2)]
    shown = [
        [f"env {slot}, episode {number} with seed {seeds[number][slot]}" for slot in range(2)] for number in range(2)
    ]
    noted = [f"env Tells-v0 ({'; '.join(own)})" for own in shown]
    places = [f"worker 0, {', step {0}; '.join(own)}, step {{0}}" for own in shown]
    assert env._env.told == [
        (places[0].format(0), noted[0]),
        (places[0].format(1), noted[0]),
        (places[0].format(2), noted[0]),
        (places[0].format(2), noted[0]),
        (places[1].format(1), noted[1]),
    ]
