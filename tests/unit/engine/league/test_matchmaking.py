"""The probability of each opponent."""

import numpy as np
import pytest

from rlrun.engine.league.league import lineup, prioritized_weights
from rlrun.engine.league.league_settings import SeatSettings
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.policy.weights import Member, Weights

POOL = [Member(f"main:{number}", "main", Weights(number, np.zeros(1, np.float32))) for number in range(3)]
PRESENT = [Member("main@9", "main", Weights(9, np.zeros(1, np.float32)))]
SCRIPT = "rlrun.toys:RandomLegal"


def probabilities(settings: SeatSettings, win_rates: dict[str, float]) -> dict[str, float]:
    saved = {path: Member(path, path, Weights(0, np.zeros(1, np.float32))) for path in settings.checkpoints}
    found = lineup(settings, PRESENT, POOL, win_rates, saved)
    return dict(zip((member.name for member in found.members), found.probabilities.tolist(), strict=True))


def test_prioritized_opponents_are_more_likely_the_less_often_they_are_beaten() -> None:
    rates = np.array([0.2, 0.6, 1.0])
    np.testing.assert_allclose(prioritized_weights(rates, 2.0), [0.64 / 0.8, 0.16 / 0.8, 0.0])
    np.testing.assert_allclose(prioritized_weights(rates, 1.0), [0.8 / 1.2, 0.4 / 1.2, 0.0])


def test_if_all_opponents_are_always_beaten_they_are_equally_likely() -> None:
    np.testing.assert_allclose(prioritized_weights(np.ones(4), 2.0), np.full(4, 0.25))


def test_self_play_and_scripts_get_their_shares_and_the_pool_gets_the_rest() -> None:
    settings = SeatSettings(plays_against="main", self_play_share=0.3, scripted={SCRIPT: 0.2})
    found = probabilities(settings, {"main:0": 0.9, "main:1": 0.8, "main:2": 0.5})
    assert found == pytest.approx(
        {"main@9": 0.3, SCRIPT: 0.2, "main:0": 0.5 / 30, "main:1": 0.5 * 4 / 30, "main:2": 0.5 * 25 / 30}
    )


def test_an_opponent_that_has_played_no_games_is_treated_as_equally_strong() -> None:
    settings = SeatSettings(plays_against="main", self_play_share=0.0)
    assert probabilities(settings, {"main:0": 0.5}) == pytest.approx(
        {"main@9": 0.0, "main:0": 1 / 3, "main:1": 1 / 3, "main:2": 1 / 3}
    )


def test_uniform_matchmaking_ignores_win_rates() -> None:
    settings = SeatSettings(plays_against="main", self_play_share=0.4, matchmaking="uniform")
    found = probabilities(settings, {"main:0": 1.0})
    assert found == pytest.approx({"main@9": 0.4, "main:0": 0.2, "main:1": 0.2, "main:2": 0.2})


def test_shares_that_sum_to_more_than_1_are_refused(wording) -> None:
    with wording.raised(SpecError, "1.2"):
        SeatSettings(plays_against="main", self_play_share=0.9, scripted={SCRIPT: 0.3})
