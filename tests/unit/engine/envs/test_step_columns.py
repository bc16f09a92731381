"""Numbers in infos that an env's config names: kept at every step, or refused with the step that lacks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlrun.engine.envs.backend import backend_of
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.messages.errors import SpecError
from rlrun.toys.known_optimum import ConstantReward

SEEDS = EpisodeSeeds(0, worker_index=2)


class Tells(ConstantReward):
    """Reports a cost of 0.5 at each step of its 3-step episodes, but the given value at the second."""

    def __init__(self, second: Any = 0.5) -> None:
        super().__init__(episode_len=3)
        self.second = second

    def step(self, action: int) -> Any:
        *result, _ = super().step(action)
        cost = self.second if self._elapsed == 2 else 0.5
        return *result, {} if cost == "nothing" else {"cost": cost, "speed": self._elapsed}


def env_of(**more: Any) -> EnvConfig:
    return EnvConfig(id=f"{__name__}:Tells", columns=("cost", "speed"), **more)


def test_env_columns_hold_the_named_numbers_from_each_steps_info() -> None:
    env = make_vector_env(env_of(), 2, SEEDS)
    env.reset()
    for elapsed in (1, 2, 3):
        env.step(np.zeros(2, np.int64))
        assert {name: column.tolist() for name, column in env.columns.items()} == {
            "cost": [0.5, 0.5],
            "speed": [elapsed, elapsed],
        }


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ("nothing", "it is missing (entries: []); return 0 in steps without it"),
        (float("nan"), "nan"),
        ("much", "'much'"),
        (None, "None"),
        (10**400, str(10**400)),
    ],
)
def test_a_step_whose_info_lacks_a_columns_number_is_refused_with_the_env_key_and_step(second: Any, told: str) -> None:
    env = make_vector_env(env_of(kwargs={"second": second}), 1, SEEDS)
    env.reset()
    env.step(np.zeros(1, np.int64))
    with pytest.raises(EnvError) as raised:
        env.step(np.zeros(1, np.int64))
    message = str(raised.value)
    assert f"env {__name__}:Tells" in message
    assert "worker 2, env 0, episode 0" in message
    assert "step 2" in message
    assert "env.columns needs a finite number 'cost' in every step's info" in message
    assert message.endswith(told)


def test_env_columns_require_the_loop_backend(wording) -> None:
    assert backend_of(EnvConfig(id="CartPole-v1")) == "cartpole"
    assert backend_of(EnvConfig(id="CartPole-v1", columns=("cost",))) == "loop"
    with wording.raised(SpecError):
        EnvConfig(id="CartPole-v1", columns=("cost",), backend="vector")


@pytest.mark.parametrize(
    ("columns", "told"),
    [(("cost", "cost"), "twice"), (("rewards",), "'rewards' is already the name of a batch column")],
)
def test_column_names_that_are_repeated_or_already_taken_are_refused(columns: tuple[str, ...], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        EnvConfig(id="CartPole-v1", columns=columns)
