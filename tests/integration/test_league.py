"""Policies that learn against frozen opponents, in this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.algorithm_config import SamplingSettings
from rlrun.algorithms.dqn import DQN
from rlrun.algorithms.ppo import PPO
from rlrun.checkpoint.format import read_checkpoint, write_checkpoint
from rlrun.envs.env_config import EnvConfig
from rlrun.errors import CheckpointError, CheckpointRefused, UsageError
from rlrun.league.league_settings import LeagueSettings, SeatSettings
from rlrun.training.policies import Policies
from rlrun.training.training import Training
from rlrun.worlds.world_config import WorldConfig

GAME = WorldConfig(world="rlrun.worlds.board_games:TicTacToe")
RANDOM = "rlrun.worlds.scripted:RandomLegal"
SMALL = {"train_batch_size": 96, "minibatch_size": 32, "num_epochs": 1, "model": {"hiddens": [8]}, "compile": False}
TIMES = ("time", "per_s")


def ppo(**more: Any) -> PPO:
    return PPO(PPO.Config.parse({**SMALL, **more}))


def sampling(**more: Any) -> SamplingSettings:
    return SamplingSettings.parse({"num_envs_per_worker": 4, "rollout_fragment_length": 13, **more})


def self_play(algorithm: Any = None, *, league: dict[str, Any] | None = None, **seat: Any) -> Policies:
    return Policies(
        {"main": algorithm or ppo()},
        sampling(),
        mapping="rlrun.league.sides:alternate",
        seats={"opponent": SeatSettings.parse({"plays_against": "main", **seat})},
        league=LeagueSettings.parse({"snapshot_every": 1, "pool": 2, "rating_episodes": 2, **(league or {})}),
    )


def with_exploiter(**settings: Any) -> Policies:
    return Policies(
        {"main": ppo(**settings), "exploiter": ppo(**settings)},
        sampling(),
        mapping="rlrun.league.sides:alternate_with_exploiter",
        seats={
            "opponent": SeatSettings(
                plays_against="main", selves_of=("main", "exploiter"), self_play_share=0.3, scripted={RANDOM: 0.3}
            ),
            "exploited": SeatSettings(plays_against="exploiter", selves_of=("main",)),
        },
        league=LeagueSettings(snapshot_every=1, pool=2, rating_episodes=2),
    )


def numbers(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if not any(word in name for word in TIMES)}


def spec_of(training: Training) -> dict[str, Any]:
    return {**training.policies.to_data(), "env": training.env.to_data(), "seed": training.seed}


def copied(training: Training, directory: Path) -> Any:
    write_checkpoint(directory, training.content(spec_of(training)))
    return read_checkpoint(directory)


@pytest.mark.parametrize("settings", [{"normalize_observations": True}, {"model": {"hiddens": [8], "core": "lstm"}}])
def test_a_league_restored_in_mid_game_goes_on_bit_for_bit(settings: dict[str, Any], tmp_path: Path) -> None:
    with Training(GAME, with_exploiter(**settings), seed=3) as training:
        for _ in range(3):
            training.step()
        content = copied(training, tmp_path / "checkpoint")
        training.evaluate(3)
        expected = [numbers(training.step()) for _ in range(3)]
        flat = training.trainee.learner.flat()
    with Training(GAME, with_exploiter(**settings), seed=3) as restored:
        restored.load(content)
        assert restored.env_slots_restarted == 0
        assert [numbers(restored.step()) for _ in range(3)] == expected
        np.testing.assert_array_equal(restored.trainee.learner.flat(), flat)


def test_results_tell_of_the_league_and_all_of_it_is_declared() -> None:
    with Training(GAME, with_exploiter(), seed=0) as training:
        first, second = training.step(), training.step()
    told = {name for name in second if name.startswith("league/")}
    assert told == {"league/members", "league/elo_main", "league/elo_exploiter", "league/win_rate_against_pool"}
    assert (first["league/members"], second["league/members"]) == (4, 4)
    assert 0.0 <= second["league/win_rate_against_pool"] <= 1.0
    assert second["agent_steps"] > second["policies/main/agent_steps"] + second["policies/exploiter/agent_steps"]
    assert not any(name.startswith("policies/opponent") for name in second)


def test_members_survive_a_restart_bit_for_bit(tmp_path: Path) -> None:
    with Training(GAME, self_play(), seed=0) as training:
        for _ in range(3):
            training.step()
        content = copied(training, tmp_path / "checkpoint")
    with Training(GAME, self_play(), seed=0) as restored:
        restored.load(content)
        again = restored.content(spec_of(restored))
    saved, found = content.state["league"]["state"], again.state["league"]["state"]
    assert [member["name"] for member in found["pool"]["members"]] == ["main:0", "main:3"]
    for before, after in zip(saved["pool"]["members"], found["pool"]["members"], strict=True):
        np.testing.assert_array_equal(before["weights"]["acting"], after["weights"]["acting"])
    assert found["table"] == saved["table"]


def test_a_pool_of_another_network_is_refused() -> None:
    with Training(GAME, self_play(), seed=0) as training:
        content = training.content(spec_of(training))
        content.state["league"]["state"]["pool"]["members"][0]["weights"]["acting"] = np.zeros(3, np.float32)
        with pytest.raises(CheckpointError, match="main:0 has no weights of shape"):
            training.load(content)


def test_a_run_without_seats_goes_on_in_a_league_that_begins_with_its_weights() -> None:
    alone = Policies({"main": ppo()}, sampling(), mapping={"*": "main"})
    with Training(GAME, alone, seed=0) as training:
        training.step()
        content = training.content(spec_of(training))
        flat = training.trainee.learner.acting_flat()
    with Training(GAME, self_play(), seed=0) as training:
        training.load(content)
        saved = training.content(spec_of(training)).state["league"]["state"]["pool"]["members"]
        assert [member["name"] for member in saved] == ["main:0"]
        np.testing.assert_array_equal(saved[0]["weights"]["acting"], flat)
        assert training.step()["league/members"] == 2


def test_a_learner_of_another_kind_plays_against_its_past_too() -> None:
    settings = {"learning_starts": 20, "minibatch_size": 16, "model": {"hiddens": [8]}, "compile": False}
    dqn = DQN(DQN.Config.parse({**settings, "exploration": "parameter_noise"}))
    with Training(GAME, self_play(dqn, scripted={RANDOM: 0.2}), seed=0) as training:
        for _ in range(6):
            result = training.step()
    assert result["sgd_steps"] > 0
    assert result["league/members"] == 2


def test_seats_that_cannot_be_filled_are_refused() -> None:
    with pytest.raises(UsageError, match=r"seats\.opponent: there is no policy 'mian' that learns.*main"):
        Policies({"main": ppo()}, sampling(), seats={"opponent": SeatSettings(plays_against="mian")})
    with pytest.raises(UsageError, match="'main' is a policy and a seat"):
        Policies({"main": ppo()}, sampling(), seats={"main": SeatSettings(plays_against="main")})


def test_a_league_that_was_saved_can_be_restored_by_its_path_and_played_against(tmp_path: Path) -> None:
    with Training(GAME, with_exploiter(), seed=0) as training:
        for _ in range(2):
            training.step()
        training.save(tmp_path / "checkpoint")
        expected = numbers(training.step())
    with pytest.raises(CheckpointRefused, match=r"seats\.opponent\.scripted rlrun\.worlds\.scripted:RandomLegal"):
        Training.restore(tmp_path / "checkpoint")
    with Training.restore(tmp_path / "checkpoint", trust=True) as restored:
        against_script = restored.versus(RANDOM, 6, policy="exploiter")
        assert against_script.games == 6
        against_other = restored.versus(restored, 5, opponent_policy="exploiter", explore=True)
        assert against_other.games == 6
        assert restored.versus(restored, 5, opponent_policy="exploiter", explore=True) == against_other
        with pytest.raises(UsageError, match="there is no policy 'exploitr'; did you mean"):
            restored.versus(RANDOM, policy="exploitr")
        assert numbers(restored.step()) == expected


def test_only_policies_of_a_world_play_one_another() -> None:
    training = Training(EnvConfig(id="CartPole-v1"), ppo())
    with pytest.raises(UsageError, match="env CartPole-v1 has one agent"):
        training.versus(RANDOM)


def test_self_play_against_the_past_learns_to_beat_chance_at_tic_tac_toe() -> None:
    algorithm = ppo(
        train_batch_size=512,
        minibatch_size=128,
        num_epochs=8,
        lr=5e-3,
        gae_lambda=1.0,
        entropy_coeff=0.05,
        gamma=1.0,
        model={"hiddens": [64]},
    )
    policies = self_play(algorithm, league={"snapshot_every": 10, "pool": 4}, self_play_share=0.5)
    policies = replace(policies, sampling=SamplingSettings(num_envs_per_worker=16))
    with Training(GAME, policies, seed=0) as training:
        while training.step()["env_steps"] < 12_000:
            pass
        outcomes = training.versus(RANDOM, 200)
    assert outcomes.win_rate > 0.65  # two random players win as many as one another, and 200 games tell to 0.035
