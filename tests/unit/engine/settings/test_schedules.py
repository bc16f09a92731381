"""Values of scheduled settings: constants, linear and cosine interpolation, and what schedules must look like."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rlrun import PPO, FlashSAC
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.settings.config import Cosine
from rlrun.engine.settings.schedules import value_at
from tests.wording import Wording


def test_a_schedule_is_linear_between_its_points_and_constant_outside_them() -> None:
    points = ((100, 1.0), (200, 0.0), (400, 4.0))
    assert [value_at(points, at) for at in (0, 100, 150, 200, 300, 400, 9999)] == [1.0, 1.0, 0.5, 0.0, 2.0, 4.0, 4.0]
    assert value_at(0.25, 10) == 0.25


def test_a_cosine_schedule_follows_half_a_cosine_between_its_points_and_is_constant_outside_them() -> None:
    schedule = PPO(lr={"cosine": [[100, 1.0], [400, 0.2], [500, 0.6]]}).config.lr
    assert isinstance(schedule, Cosine)
    values = {at: value_at(schedule, at) for at in (0, 100, 175, 250, 300, 400, 450, 500, 9999)}
    assert values == pytest.approx(
        {
            0: 1.0,
            100: 1.0,
            250: 0.6,
            400: 0.2,
            450: 0.4,
            500: 0.6,
            9999: 0.6,
            175: 0.2 + 0.8 * 0.5 * (1 + math.cos(math.pi / 4)),
            300: 0.2 + 0.8 * 0.5 * (1 + math.cos(math.pi * 2 / 3)),
        },
        rel=1e-12,
    )


def test_flashsac_learning_rates_follow_update_counts_and_the_actors_rate_decays_half_as_fast() -> None:
    """The authors' schedules count each network's own updates, up to 1,000,000; the actor has half as many updates."""

    def rate(updates: int) -> float:
        return 1.5e-4 + 1.5e-4 * 0.5 * (1 + math.cos(math.pi * min(updates / 1_000_000, 1.0)))

    config = FlashSAC().config
    for updates in (0, 1_000, 500_000, 990_000, 3_000_000):
        env_steps = config.learning_starts + updates
        assert value_at(config.critic_lr, env_steps) == pytest.approx(rate(updates), rel=1e-12)
        for schedule in (config.lr, config.alpha_lr):
            assert value_at(schedule, env_steps) == pytest.approx(rate(updates // 2), rel=1e-12)


@pytest.mark.parametrize(
    "lr",
    [
        {"sine": [[0, 1.0]]},
        {"cosine": [[0, -1.0]]},
        {"cosine": [[5, 1.0], [2, 0.5]]},
        {"cosine": []},
        {"adaptive_kl": -1.0},
        "fast",
    ],
)
def test_an_invalid_schedule_is_refused_with_the_reason(lr: Any, wording: Wording) -> None:
    with pytest.raises(SpecError) as raised:
        PPO(lr=lr)
    assert str(raised.value) == wording()
