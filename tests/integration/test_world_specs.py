"""Worlds from YAML: kills and resumes, policies added at a resume, sweeps, and populations on real Ray Tune."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import rlrun
from rlrun.cli.main import cli
from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.messages.errors import CheckpointError
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.spec.settings import with_settings
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.results import Row
from rlrun.experiments.trial.trial_loop import TrialLoop
from tests.results import numbers

SMALL = {"model": {"hiddens": [8]}, "compile": False}
PPO = {"algorithm": "ppo", "config": {**SMALL, "train_batch_size": 64, "minibatch_size": 32, "num_epochs": 1}}
DQN = {"algorithm": "dqn", "config": {**SMALL, "learning_starts": 20, "minibatch_size": 16}}
ENTRY: dict[str, Any] = {
    "env": {"world": "rlrun.toys:CartPoles"},
    "policies": {"a": PPO, "b": DQN},
    "mapping": {"pole_0": "a", "*": "b"},
    "config": {"num_envs_per_worker": 2, "min_env_steps_per_iteration": 64},
    "stop": {"iteration": 4},
    "checkpoint": {"every": 1},
    "evaluation": {"every": 2, "episodes": 2},
}
RANDOM = "rlrun.toys:RandomLegal"
LEAGUE: dict[str, Any] = {
    "env": {"world": "rlrun.toys:TicTacToe"},
    "policies": {"main": PPO},
    "mapping": "rlrun.plugin:alternate",
    "seats": {"opponent": {"plays_against": "main", "scripted": {RANDOM: 0.2}}},
    "league": {"snapshot_every": 1, "pool": 2, "rating_episodes": 2},
}


def trial_of(**changed: Any) -> TrialSpec:
    (found,) = parse_experiments({"world": {**ENTRY, **changed}})
    return found.first_trial()


def run_until_done(loop: TrialLoop) -> list[Row]:
    rows = []
    while not loop.done:
        rows.append(loop.step())
    return rows


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The directory of a trial whose process died after two iterations."""
    with TrialLoop(trial_of(), tmp_path / "running") as loop:
        loop.step()
        loop.step()
        loop.checkpoints.wait()
        shutil.copytree(tmp_path / "running", tmp_path / "killed")
    return tmp_path / "killed"


def test_a_killed_trial_with_two_policies_resumes_exactly(killed: Path, tmp_path: Path) -> None:
    with TrialLoop(trial_of(), tmp_path / "undisturbed") as loop:
        undisturbed = run_until_done(loop)
    with TrialLoop(trial_of(), killed, resume=True) as loop:
        assert loop.resumption is not None
        assert loop.resumption.is_exact
        rows = run_until_done(loop)
    assert list(map(numbers, rows)) == list(map(numbers, undisturbed[2:]))
    assert rows[-1]["policies/a/sgd_steps"] > 0 < rows[-1]["policies/b/sgd_steps"]
    assert rows[-1]["evaluation/policies/b/episode_return_mean"] > 0


def test_a_policys_metric_can_stop_a_trial_and_choose_its_best_checkpoint(tmp_path: Path) -> None:
    stop = {"policies/b/sgd_steps": 40, "iteration": 50}
    chosen = {"every": 1, "keep": 1, "best": "policies/b/episode_return_mean"}
    with TrialLoop(trial_of(stop=stop, checkpoint=chosen, evaluation=None), tmp_path / "trial") as loop:
        rows = run_until_done(loop)
        loop.checkpoints.wait()
    assert rows[-1]["policies/b/sgd_steps"] >= 40 > rows[-2]["policies/b/sgd_steps"]
    scores = [row["policies/b/episode_return_mean"] for row in rows]
    kept = sorted(path.name for path in (tmp_path / "trial" / "checkpoints").iterdir())
    assert kept == [f"iteration_{number:06}" for number in sorted({1 + scores.index(max(scores)), len(rows)})]


def test_policies_missing_from_a_checkpoint_start_fresh_while_saved_policies_continue(killed: Path, wording) -> None:
    replaced = trial_of(policies={"a": PPO, "b": PPO})
    with TrialLoop(replaced, killed, resume=True) as loop:
        assert loop.resumption is not None
        assert not loop.resumption.is_exact
        assert loop.resumption.message == wording()
        before = loop.last_result["policies/a/sgd_steps"]
        rows = run_until_done(loop)
    assert rows[0]["iteration"] == 3
    assert rows[0]["policies/a/sgd_steps"] > before
    assert json.loads((killed / "trial.json").read_text())["exact_resume"] is False


def test_resuming_a_policy_with_changed_settings_is_refused(killed: Path, wording) -> None:
    changed = {**PPO, "config": {**PPO["config"], "gamma": 0.5}}
    with wording.raised(CheckpointError, "policies.a.config.gamma", "0.5", "0.99"):
        TrialLoop(trial_of(policies={"a": changed, "b": DQN}), killed, resume=True)


@pytest.fixture(scope="module")
def league_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Row], Path, Path]:
    """The rows and the directory of a trial with a league, and the state of that directory after two iterations."""
    folder = tmp_path_factory.mktemp("league")
    rows = []
    with TrialLoop(trial_of(**LEAGUE), folder / "undisturbed") as loop:
        while not loop.done:
            rows.append(loop.step())
            if len(rows) == 2:
                loop.checkpoints.wait()
                shutil.copytree(folder / "undisturbed", folder / "killed")
    return rows, folder / "undisturbed", folder / "killed"


def test_a_killed_trial_with_a_league_resumes_exactly(league_run: tuple[list[Row], Path, Path], tmp_path: Path) -> None:
    undisturbed, _, killed = league_run
    shutil.copytree(killed, tmp_path / "killed")
    with TrialLoop(trial_of(**LEAGUE), tmp_path / "killed", resume=True) as loop:
        assert loop.resumption is not None
        assert loop.resumption.is_exact
        rows = run_until_done(loop)
    assert list(map(numbers, rows)) == list(map(numbers, undisturbed[2:]))
    assert (rows[-1]["iteration"], rows[-1]["league/members"]) == (4, 2)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"league": {**LEAGUE["league"], "pool": 3}}, r"has league\.pool: 3, but .* was written with 2"),
        (
            {"seats": {"opponent": {**LEAGUE["seats"]["opponent"], "self_play_share": 0.1}}},
            r"has seats\.opponent\.self_play_share: 0\.1, but .* was written with 0\.5",
        ),
    ],
)
def test_resuming_with_changed_league_settings_is_refused(
    league_run: tuple[list[Row], Path, Path], changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(CheckpointError, match=said):
        TrialLoop(trial_of(**{**LEAGUE, **changed}), league_run[2], resume=True)


def test_commands_that_read_specs_and_runs_support_leagues(
    league_run: tuple[list[Row], Path, Path], tmp_path: Path, wording
) -> None:
    code, text = command("league", str(league_run[1]))
    assert (code, "main:4" in text, RANDOM in text) == (0, True, True)
    games = ("evaluate", str(league_run[1]), "--against", RANDOM, "--episodes", "4")
    code, text = command(*games)  # the script ships with rlrun, so somebody else's run needs no trust
    assert (code, "4 games" in text) == (0, True)
    path = tmp_path / "league.yaml"
    path.write_text(json.dumps({"league": {**ENTRY, **LEAGUE}}))
    code, text = command("plan", "-f", str(path))
    assert (code, wording("50%") in text.splitlines()) == (0, True)
    assert command("validate", "--env", str(path))[0] == 0


def test_a_sweep_over_a_policys_setting_gives_each_trial_its_own_value(tmp_path: Path) -> None:
    varied = {**PPO, "config": {**PPO["config"], "lr": {"grid_search": [1e-3, 1e-2]}}}
    entry = {**ENTRY, "policies": {"a": varied, "b": DQN}, "stop": {"iteration": 2}}
    trials = rlrun.run({"sweep": entry}, runs_dir=tmp_path, executor="local")
    assert [(trial.status, trial.params) for trial in trials] == [
        ("TERMINATED", {"lr": 1e-3}),
        ("TERMINATED", {"lr": 1e-2}),
    ]
    assert [trial.last_result["policies/a/learner/lr"] for trial in trials] == [1e-3, 1e-2]


def test_a_population_member_copies_all_policies_of_another_member_and_changes_one_setting(tmp_path: Path) -> None:
    with TrialLoop(trial_of(), tmp_path / "donor") as donor:
        donor.step()
        parent = donor.save()
    trial = trial_of()
    changed = with_settings(trial, {"policies.a.config.lr": 0.01})
    with TrialLoop(trial.replace(seed=2), tmp_path / "member") as loop:
        loop.step()
        loop.save()
        loop.apply_exploit(Exploit(1, changed.replace(seed=2), parent))
        for policy, trainee in zip("ab", loop.training.running.trainees, strict=True):
            taken = trainee.learner.policy.parameters.named(trainee.learner.flat())
            np.testing.assert_equal(taken, dict(read_checkpoint(parent).tensors[f"policies/{policy}"]))
        row = loop.step()
    assert [row[f"policies/{policy}/learner/lr"] for policy in "ab"] == [0.01, trial.policies["b"].config.lr]


@pytest.mark.regress
@pytest.mark.usefixtures("running_ray")
def test_a_population_mutates_only_the_named_setting_of_one_policy(tmp_path: Path) -> None:
    pbt = {
        "interval_env_steps": 64,
        "metric": "policies/a/episode_return_mean",
        "resample_probability": 0.0,
        "mutations": {"policies.a.config.lr": {"uniform": [1e-4, 1e-2]}},
    }
    entry = {**ENTRY, "num_samples": 2, "scheduler": {"pbt": pbt}, "resources": {"cpus": 0.5}}
    trials = rlrun.run({"population": {**entry, "evaluation": None}}, runs_dir=tmp_path)
    assert [trial.status for trial in trials] == ["TERMINATED"] * 2
    lineage = [json.loads(line) for line in (tmp_path / "population" / "lineage.jsonl").read_text().splitlines()]
    copies = [member for generation in lineage for member in generation["members"] if member["parent"]]
    assert copies
    assert all(list(member["params"]) == ["policies.a.config.lr"] for member in copies)
    assert [trial.last_result["policies/a/learner/lr"] for trial in trials] == [trial.params["lr"] for trial in trials]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> TrialResult:
    """A run of the world."""
    (trial,) = rlrun.run({"world": ENTRY}, runs_dir=tmp_path_factory.mktemp("runs"))
    return trial


def command(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, list(words))
    return result.exit_code, result.stdout


def test_commands_work_on_a_run_with_several_policies(done: TrialResult, tmp_path: Path, wording) -> None:
    run = str(done.directory.parent)
    code, text = command("show", run)
    assert (code, text.splitlines()[0]) == (0, wording("rlrun.toys:CartPoles"))
    table = text.splitlines()[-6:-3]
    assert table[0].split() == ["policy", "return", "evaluation", "agent", "steps", "minibatches"]
    assert [row.split()[0] for row in table[1:]] == ["a", "b"]
    code, text = command("evaluate", run, "--episodes", "2")
    assert code == 0
    assert [line for line in text.splitlines() if line.startswith("policy")] == wording()
    assert command("report", run, "-o", str(tmp_path / "page.html"))[0] == 0


def test_the_env_option_accepts_a_world_as_a_mapping(
    done: TrialResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = "{world: 'rlrun.toys:CartPoles', max_episode_steps: 3}"
    run = str(done.directory.parent)
    code, text = command("evaluate", run, "--episodes", "2", "--env", world)
    assert (code, "mean length  3" in text) == (0, True)
    assert command("evaluate", run, "--env", "CartPole-v1")[0] == 2
    monkeypatch.chdir(tmp_path)
    assert command("init", "--algorithm", "ppo", "--env", world)[0] == 0
    (spec,) = tmp_path.glob("*.yaml")
    assert command("validate", spec.name)[0] == 0
    code, text = command("metrics", "-f", spec.name)
    assert (code, "policies/default/learner/kl" in text) == (0, True)


def test_single_agent_commands_are_refused_for_a_run_in_a_multi_agent_env(done: TrialResult, tmp_path: Path) -> None:
    run = str(done.directory.parent)
    assert command("demonstrate", run, "-o", str(tmp_path / "x.npz"))[0] == 2
    assert command("record", run, "-o", str(tmp_path / "x.gif"))[0] == 2


def test_the_plan_for_several_policies_has_a_branch_for_each_policy(tmp_path: Path, wording) -> None:
    path = tmp_path / "world.yaml"
    path.write_text(json.dumps({"world": ENTRY}))
    code, text = command("plan", "-f", str(path))
    assert code == 0
    assert ("SelectPolicy(policy=a)" in text, "SelectPolicy(policy=b)" in text) == (True, True)
    assert wording("pole_0") in text.splitlines()
