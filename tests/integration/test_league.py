"""Policies that learn against frozen opponents, in this process."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.dqn.dqn import DQN
from rlrun.algorithms.ppo import PPO
from rlrun.cli.main import cli
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.engine.checkpoint.format import read_checkpoint, write_checkpoint
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.league.league_settings import LeagueSettings, SeatSettings
from rlrun.engine.league.ratings import Outcomes, total
from rlrun.engine.messages.errors import CheckpointError, CheckpointRefused, UsageError
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.save.saved_opponents import saved_spaces
from rlrun.engine.training.training import Training
from rlrun.engine.worlds.world import World, WorldStep
from tests.results import numbers

GAME = EnvConfig(world="rlrun.toys:TicTacToe")
PENNIES = EnvConfig(world="rlrun.toys:MatrixGame", kwargs={"game": "matching_pennies"})
RANDOM = "rlrun.toys:RandomLegal"
SMALL = {"train_batch_size": 96, "minibatch_size": 32, "num_epochs": 1, "model": {"hiddens": [8]}, "compile": False}


def ppo(**more: Any) -> PPO:
    return PPO(PPO.Config.parse({**SMALL, **more}))


def sampling(**more: Any) -> WorldSamplingSettings:
    return WorldSamplingSettings.parse(
        {"num_envs_per_worker": 4, "rollout_fragment_length": 13, "min_env_steps_per_iteration": 0, **more}
    )


def self_play(algorithm: Any = None, *, league: dict[str, Any] | None = None, **seat: Any) -> Policies:
    return Policies(
        {"main": algorithm or ppo()},
        sampling(),
        mapping="rlrun.plugin:alternate",
        seats={"opponent": SeatSettings.parse({"plays_against": "main", **seat})},
        league=LeagueSettings.parse({"snapshot_every": 1, "pool": 2, "rating_episodes": 2, **(league or {})}),
    )


def with_exploiter(**settings: Any) -> Policies:
    return Policies(
        {"main": ppo(**settings), "exploiter": ppo(**settings)},
        sampling(),
        mapping="rlrun.plugin:alternate_with_exploiter",
        seats={
            "opponent": SeatSettings(
                plays_against="main", selves_of=("main", "exploiter"), self_play_share=0.3, scripted={RANDOM: 0.3}
            ),
            "exploited": SeatSettings(plays_against="exploiter", selves_of=("main",)),
        },
        league=LeagueSettings(snapshot_every=1, pool=2, rating_episodes=2),
    )


def spec_of(training: Training) -> dict[str, Any]:
    return {
        **training.description.policies.to_data(),
        "env": training.description.env.to_data(),
        "seed": training.description.seed,
    }


def copied(training: Training, directory: Path) -> Any:
    write_checkpoint(directory, training.content(spec_of(training)))
    return read_checkpoint(directory)


@pytest.mark.parametrize("settings", [{"normalize_observations": True}, {"model": {"hiddens": [8], "core": "lstm"}}])
def test_a_league_restored_mid_game_continues_bit_for_bit(settings: dict[str, Any], tmp_path: Path) -> None:
    with Training(GAME, with_exploiter(**settings), seed=3) as training:
        for _ in range(3):
            training.step()
        content = copied(training, tmp_path / "checkpoint")
        training.evaluate(3)
        expected = [numbers(training.step()) for _ in range(3)]
        flat = training.running.trainee.learner.flat()
    with Training(GAME, with_exploiter(**settings), seed=3) as restored:
        restored.load(content)
        assert restored.running.env_slots_restarted == 0
        assert [numbers(restored.step()) for _ in range(3)] == expected
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), flat)


def test_results_contain_ratings_and_win_rates_of_the_league() -> None:
    with Training(GAME, with_exploiter(), seed=0) as training:
        first, second = training.step(), training.step()
    told = {name for name in second if name.startswith("league/")}
    rated = {f"league/{what}_{policy}" for what in ("elo", "win_rate") for policy in ("main", "exploiter")}
    assert told == {"league/members", *rated}
    assert (first["league/members"], second["league/members"]) == (4, 4)
    assert all(0.0 <= second[f"league/win_rate_{policy}"] <= 1.0 for policy in ("main", "exploiter"))
    assert second["agent_steps"] > second["policies/main/agent_steps"] + second["policies/exploiter/agent_steps"]
    assert not any(name.startswith("policies/opponent") for name in second)


def test_league_members_are_restored_bit_for_bit(tmp_path: Path) -> None:
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


def test_a_league_pool_with_weights_of_a_different_network_is_refused(wording) -> None:
    with Training(GAME, self_play(), seed=0) as training:
        content = training.content(spec_of(training))
        content.state["league"]["state"]["pool"]["members"][0]["weights"]["acting"] = np.zeros(3, np.float32)
        with wording.raised(CheckpointError, "main:0"):
            training.load(content)


def test_a_run_without_seats_can_continue_as_a_league_seeded_with_its_weights() -> None:
    alone = Policies({"main": ppo()}, sampling(), mapping={"*": "main"})
    with Training(GAME, alone, seed=0) as training:
        training.step()
        content = training.content(spec_of(training))
        flat = training.running.trainee.learner.acting_flat()
    with Training(GAME, self_play(), seed=0) as training:
        training.load(content)
        saved = training.content(spec_of(training)).state["league"]["state"]["pool"]["members"]
        assert [member["name"] for member in saved] == ["main:0"]
        np.testing.assert_array_equal(saved[0]["weights"]["acting"], flat)
        assert training.step()["league/members"] == 2


def test_dqn_can_also_play_against_its_past_selves() -> None:
    settings = {"learning_starts": 20, "minibatch_size": 16, "model": {"hiddens": [8]}, "compile": False}
    dqn = DQN(DQN.Config.parse({**settings, "exploration": "parameter_noise"}))
    with Training(GAME, self_play(dqn, scripted={RANDOM: 0.2}), seed=0) as training:
        for _ in range(6):
            result = training.step()
    assert result["sgd_steps"] > 0
    assert result["league/members"] == 2


def test_seats_that_name_an_unknown_policy_or_share_a_policys_name_are_refused(wording) -> None:
    with wording.raised(UsageError, "seats.opponent", "mian"):
        Policies({"main": ppo()}, sampling(), seats={"opponent": SeatSettings(plays_against="mian")})
    with wording.raised(UsageError, "main"):
        Policies({"main": ppo()}, sampling(), seats={"main": SeatSettings(plays_against="main")})


def test_a_saved_league_can_be_restored_from_its_path_and_played_against(tmp_path: Path, wording) -> None:
    with Training(GAME, with_exploiter(), seed=0) as training:
        for _ in range(2):
            training.step()
        training.save(tmp_path / "checkpoint")
        expected = numbers(training.step())
    with Training.restore(tmp_path / "checkpoint") as restored:  # rlrun's own scripts and mappings need no trust
        against_script = restored.games.play(RANDOM, 6, policy="exploiter")
        assert [own.games for own in against_script.values()] == [3, 3]
        against_other = restored.games.play(restored.games, 5, opponent_policy="exploiter", actions="sampled")
        assert total(against_other.values()).games == 6
        assert restored.games.play(restored.games, 5, opponent_policy="exploiter", actions="sampled") == against_other
        with wording.raised(UsageError, "exploitr"):
            restored.games.play(RANDOM, policy="exploitr")
        assert numbers(restored.step()) == expected


@pytest.fixture(scope="module")
def old_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with two checkpoints of tic-tac-toe: of one policy with a filter, and of two."""
    folder = tmp_path_factory.mktemp("old")
    filtered = Policies({"both": ppo(normalize_observations=True)}, sampling(), mapping={"*": "both"})
    dqn = DQN(DQN.Config.parse({"learning_starts": 20, "model": {"hiddens": [4]}, "compile": False}))
    for name, policies in (
        ("one", filtered),
        ("two", Policies({"left": ppo(), "right": dqn}, sampling(), mapping={"x": "left", "o": "right"})),
    ):
        with Training(GAME, policies, seed=1) as training:
            training.step()
            training.save(folder / name)
    return folder


def against(*checkpoints: str) -> Policies:
    shares = dict.fromkeys(checkpoints, 0.3)
    return self_play(checkpoints=shares, self_play_share=0.1, league={"rating_episodes": 4})


def test_opponents_from_checkpoints_play_with_their_saved_weights_and_filters(old_runs: Path) -> None:
    one, right = str(old_runs / "one"), f"{old_runs / 'two'}:right"
    with Training.restore(old_runs / "one", eager=True) as saved, Training(GAME, against(one, right)) as training:
        league = training.running.league
        assert league is not None
        seat = league.acting()["opponent"]
        members = {member.name: member for member in seat._members.values()}
        weights, moments = members[one].weights, saved.running.trainee.filters.moments
        assert weights is not None
        np.testing.assert_array_equal(weights.acting, saved.running.trainee.learner.acting_flat())
        assert weights.filters.keys() == moments.keys() != set()
        for name, own in moments.items():
            np.testing.assert_equal(weights.filters[name].state(), own.state())
        assert members[right].weights is not None
        for _ in range(2):
            training.step()
        games = training.content(spec_of(training)).state["league"]["state"]["table"]
    played = {
        (each["first"], each["second"]): each["wins"] + each["draws"] + each["losses"] for each in games["payoffs"]
    }
    assert played["main:2", one] == played["main:2", right] == 4
    assert {one, right} < set(games["ratings"])
    assert (one, right) not in played


def test_a_run_resumes_exactly_even_if_the_opponents_checkpoint_is_gone(
    old_runs: Path, tmp_path: Path, wording
) -> None:
    gone = tmp_path / "gone"
    shutil.copytree(old_runs / "one", gone)
    with Training(GAME, against(str(gone)), seed=4) as training:
        training.step()
        training.save(tmp_path / "checkpoint")
        expected = [numbers(training.step()) for _ in range(2)]
    shutil.rmtree(gone)
    with wording.raised(CheckpointRefused, "seats.opponent.checkpoints"):
        Training.restore(tmp_path / "checkpoint")
    with Training.restore(tmp_path / "checkpoint", trust=True) as restored:
        assert [numbers(restored.step()) for _ in range(2)] == expected
    with Training(GAME, against(str(gone))) as training, pytest.raises(CheckpointError, match="gone"):
        training.step()


def test_a_checkpoint_with_custom_code_is_refused_as_an_opponent(old_runs: Path, tmp_path: Path, wording) -> None:
    content = read_checkpoint(old_runs / "one")
    content.spec["policies"]["both"]["algorithm"] = "somebodys_own:Algorithm"
    write_checkpoint(tmp_path / "strange", content)
    with (
        Training(GAME, against(str(tmp_path / "strange"))) as training,
        wording.raised(CheckpointRefused, "somebodys_own:Algorithm"),
    ):
        training.step()


def test_a_copied_opponent_with_non_finite_weights_is_refused(old_runs: Path) -> None:
    with Training(GAME, against(str(old_runs / "one"))) as training:
        content = training.content(spec_of(training))
    (copied,) = content.state["league"]["state"]["checkpoints"].values()
    name = next(iter(copied["tensors"]))
    copied["tensors"][name] = np.full_like(copied["tensors"][name], np.nan)
    with (
        Training(GAME, against(str(old_runs / "one"))) as restored,
        pytest.raises(CheckpointError, match=r"league section is invalid: .*contains NaN"),
    ):
        restored.load(content)


def test_a_checkpoint_opponent_named_like_a_policy_is_refused(wording) -> None:
    with wording.raised(UsageError, "seats.opponent.checkpoints", "./main"):
        against("main")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("missing", r"spec.yaml:8:29: try.seats.opponent.checkpoints.missing: .*missing"),
        ("{old}/two", r"spec.yaml:8:29: .*two contains 2 policies: name one, such as .*two:left"),
        ("{old}/two:rihgt", r"spec.yaml:8:29: .*two has no policy 'rihgt', only left, right; did you mean 'right'"),
        (
            "{old}/one",
            r"spec.yaml:8:29: .*one: has .*MultiBinary\(9\).* have .*MultiBinary\(7\).* and Discrete\(7\)",
        ),
    ],
)
def test_an_unusable_opponent_checkpoint_is_reported_with_its_line_in_the_spec(
    written: str, told: str, old_runs: Path, tmp_path: Path
) -> None:
    spec = tmp_path / "spec.yaml"
    world = "ConnectFour" if written == "{old}/one" else "TicTacToe"
    spec.write_text(
        f"""\
try:
  env: {{world: "rlrun.toys:{world}"}}
  policies: {{main: {{algorithm: ppo}}}}
  mapping: rlrun.plugin:alternate
  seats:
    opponent:
      plays_against: main
      checkpoints: {{        "{written.format(old=old_runs)}": 0.2}}
  stop: {{env_steps: 100}}
"""
    )
    done = CliRunner().invoke(cli, ["validate", str(spec)])
    assert done.exit_code == 2
    assert re.search(told, " ".join(done.output.split())), done.output


def with_roles(share: float) -> Policies:
    """Returns two policies of matching pennies, each of which meets past selves of the other."""
    settings = {"train_batch_size": 128, "minibatch_size": 128, "num_epochs": 2, "lr": 1e-2, "entropy_coeff": 0.3}
    return Policies(
        {name: ppo(**settings, gamma=1.0, gae_lambda=1.0) for name in ("first", "second")},
        sampling(num_envs_per_worker=16, rollout_fragment_length=8, min_env_steps_per_iteration=256),
        mapping="rlrun.plugin:alternate_roles",
        seats={
            "first_opponent": SeatSettings(
                plays_against="first", selves_of=("second",), self_play_share=share, matchmaking="uniform"
            ),
            "second_opponent": SeatSettings(
                plays_against="second", selves_of=("first",), self_play_share=share, matchmaking="uniform"
            ),
        },
        league=LeagueSettings(snapshot_every=2, pool=6, rating_episodes=10),
    )


def test_in_a_game_with_roles_policies_are_rated_only_against_the_opposing_side(wording) -> None:
    with Training(PENNIES, with_roles(0.5), seed=0) as training:
        for _ in range(2):
            result = training.step()
        found = training.content(spec_of(training)).state["league"]["state"]["table"]
        by_side = training.games.play(training.games, 20)
    assert {(each["first"][:-2], each["second"][:-2]) for each in found["payoffs"]} == {
        ("first", "second"),
        ("second", "first"),
    }
    assert all(each["wins"] + each["losses"] == 10 for each in found["payoffs"])
    assert result["policies/first/agent_steps"] > 0 < result["policies/second/agent_steps"]
    assert by_side["first"] == by_side["second"].swapped()
    assert by_side["first"].games == 10
    with (
        Training(PENNIES, with_roles(0.5), seed=0) as training,
        wording.raised(UsageError),
    ):
        training.games.play(training.games, policy="first", opponent_policy="first")


class Search(World):
    """Two hunters look into one of two holes each while the prey hides in one of three: found or not after a step."""

    possible_agents = ("hunter_0", "hunter_1", "prey_0")

    def spaces(self, agent: str) -> Spaces:
        is_hunter = agent.startswith("hunter")
        return Spaces(Box(-1.0, 1.0, (2 if is_hunter else 1,)), Discrete(2 if is_hunter else 3))

    def reset(self, seed: int) -> Mapping[str, Any]:
        return {
            agent: np.zeros(self.spaces(agent).observation.shape or (), np.float32) for agent in self.possible_agents
        }

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        is_found = actions["prey_0"] in (actions["hunter_0"], actions["hunter_1"])
        paid = {agent: float(is_found == agent.startswith("hunter")) for agent in self.possible_agents}
        return WorldStep(self.reset(0), paid, dict.fromkeys(paid, True), {}, {}, True)


def hunt(agent: str, episode: int) -> str:
    """Hunters learn in even episodes, and the prey in odd ones."""
    kind = agent.partition("_")[0]
    return kind if (kind == "hunter") == (episode % 2 == 0) else f"past_{kind}"


def test_sides_with_different_spaces_and_team_sizes_play_against_past_opponents(tmp_path: Path, wording) -> None:
    policies = Policies(
        {"hunter": ppo(), "prey": ppo()},
        sampling(),
        mapping=f"{__name__}:hunt",
        seats={
            "past_prey": SeatSettings(plays_against="hunter", selves_of=("prey",), scripted={f"{__name__}:hides": 0.3}),
            "past_hunter": SeatSettings(plays_against="prey", selves_of=("hunter",)),
        },
        league=LeagueSettings(snapshot_every=1, pool=2, rating_episodes=6),
    )
    with Training(EnvConfig(world=f"{__name__}:Search"), policies, seed=0) as training:
        for _ in range(2):
            result = training.step()
        training.save(tmp_path / "checkpoint")
        found = training.content(spec_of(training)).state["league"]["state"]["table"]["payoffs"]
        against_script = training.games.play(f"{__name__}:hides", 4, policy="hunter")
    assert {tuple(sorted({each["first"][:4], each["second"][:4]})) for each in found} == {
        ("hunt", "prey"),
        ("hunt", f"{__name__}"[:4]),
    }
    assert all(each["wins"] + each["draws"] + each["losses"] == 6 for each in found)
    assert {"league/elo_hunter", "league/elo_prey"} <= result.keys()
    assert against_script == {"first": Outcomes(0, 0, 4)}  # hunters never look into the third hole
    assert saved_spaces(f"{tmp_path / 'checkpoint'}:prey") == wording("-1.0")


def hides(observation: Any) -> int:
    """Hides where no hunter looks."""
    return 2


def test_a_league_with_roles_keeps_matching_pennies_near_its_mixed_equilibrium() -> None:
    """In equilibrium, each side shows heads half of the time; against selves of its own side, it would always do so."""
    shown = np.zeros((1000, 1), np.float32)
    heads = []
    with Training(PENNIES, with_roles(0.5), seed=0) as training:
        for iteration in range(30):
            training.step()
            for acting in training.start().acting.values():
                behavior = acting.behavior()
                behavior.begin_episodes(np.zeros(len(shown), np.bool_))
                heads.append(np.mean(behavior.actions(shown, np.random.default_rng(iteration)) == 0))
    first, second = np.array(heads).reshape(-1, 2)[10:].mean(axis=0)
    assert abs(first - 0.5) < 0.2
    assert abs(second - 0.5) < 0.2


def test_playing_policies_against_each_other_requires_a_multi_agent_env(wording) -> None:
    training = Training(EnvConfig(id="CartPole-v1"), ppo())
    with wording.raised(UsageError, "CartPole-v1"):
        training.games.play(RANDOM)


def test_self_play_against_past_selves_learns_to_beat_random_play_at_tic_tac_toe() -> None:
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
    policies = replace(policies, sampling=WorldSamplingSettings(num_envs_per_worker=16, min_env_steps_per_iteration=0))
    with Training(GAME, policies, seed=0) as training:
        while training.step()["env_steps"] < 12_000:
            pass
        outcomes = total(training.games.play(RANDOM, 200).values())
    assert outcomes.win_rate > 0.65  # two random players win equally often; the standard error of 200 games is 0.035
