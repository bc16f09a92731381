"""What `rlrun evaluate` reports about endless episodes and about numbers in infos."""

from __future__ import annotations

import gymnasium
import pytest

from rlrun.cli.evaluate import MOST_INFOS, evaluation_text, lost_limit
from rlrun.cli.main import warning_text
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.rollout import evaluation
from rlrun.engine.rollout.evaluation import EvaluationResult


def test_a_limited_number_of_info_means_is_printed_with_rates_first() -> None:
    infos = {"kwh": [1.0, 4.0], "late": [3.0], "is_success": [1.0, 1.0]}
    lines = evaluation_text(EvaluationResult([1.0, 2.0], [5, 5], infos=infos)).splitlines()
    assert [line.split()[1] for line in lines[-3:]] == ["is_success", "kwh", "late"]
    assert [line.split("  ")[-1].strip() for line in lines[-2:]] == ["2.5", "(in 1 episode)"]
    many = {f"n{number}": [0.5, 3.0] for number in range(MOST_INFOS + 2)}
    *_, last, others = evaluation_text(EvaluationResult([1.0, 2.0], [5, 5], infos=many)).splitlines()
    assert (last.split()[1], others.split()[1]) == (f"n{MOST_INFOS - 1}", "2")


@pytest.mark.parametrize(
    ("given", "is_lost"),
    [
        ({"id": "rlrun.toys:ConstantReward"}, True),
        ({"id": "rlrun.toys:ConstantReward", "max_episode_steps": 9}, False),
        ({"id": "CartPole-v1"}, False),
    ],
)
def test_evaluating_in_an_env_without_the_time_limit_used_in_training_is_reported(
    given: dict[str, object], *, is_lost: bool
) -> None:
    told = lost_limit(EnvConfig(id="Pendulum-v1"), EnvConfig.parse(given))
    assert ("max_episode_steps: 200" in told) == bool(told) == is_lost
    assert lost_limit(EnvConfig(id="not-here:Env-v0"), EnvConfig.parse(given)) == ""


def test_warnings_of_rlrun_take_one_line_and_warnings_of_other_code_keep_their_source_location() -> None:
    assert warning_text("slow", UserWarning, evaluation.__file__, 3) == "warning: slow\n"
    assert "space.py:3: UserWarning" in warning_text("slow", UserWarning, f"{gymnasium.__path__[0]}/space.py", 3)
