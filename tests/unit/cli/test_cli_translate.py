"""`rlrun translate` prints a spec on stdout, or exits with code 2 if it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rlrun.cli.main import cli
from rlrun.experiments.spec.load import load_experiments

THEIRS = (
    "pole:\n  run: DQN\n  env: CartPole-v0\n  stop: {timesteps_total: 50000}\n  config: {lr: 0.1, callbacks: a.B}\n"
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("theirs.yaml").write_text(THEIRS)


def test_a_refused_key_can_be_left_out_with_lenient_and_the_output_is_a_valid_spec(wording) -> None:
    refused = CliRunner().invoke(cli, ["translate", "theirs.yaml"])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == wording("theirs.yaml:5:21", "pole.config.callbacks")
    printed = CliRunner().invoke(cli, ["translate", "theirs.yaml", "--lenient", "--version", "1.13"])
    assert printed.exit_code == 0
    Path("ours.yaml").write_text(printed.stdout)
    checked = CliRunner().invoke(cli, ["validate", "ours.yaml"])
    assert (checked.exit_code, checked.stderr) == (0, "")
    assert checked.stdout.splitlines()[1].split() == ["pole", "dqn", "CartPole-v1", "1"]


def test_a_dry_run_of_an_rllib_file_reports_its_translation(wording) -> None:
    Path("theirs.yaml").write_text(THEIRS.replace(", callbacks: a.B", ""))
    planned = CliRunner().invoke(cli, ["train", "-f", "theirs.yaml", "--dry-run"])
    assert planned.exit_code == 0
    assert planned.stderr == wording("theirs.yaml", "1.13")
    assert planned.stderr == wording("rlrun translate theirs.yaml")


def test_the_error_for_a_missing_file_names_it(wording) -> None:
    done = CliRunner().invoke(cli, ["translate", "nowhere.yaml"])
    assert (done.exit_code, done.stderr) == (2, wording("nowhere.yaml"))


def test_an_env_registered_in_code_is_refused_unless_a_replacement_is_given_with_env(wording) -> None:
    Path("theirs.yaml").write_text(
        "first:\n  run: SAC\n  env: registered\n  stop: {info/num_steps_sampled: 10000}\n  log_to_file: true\n"
        "  config: {target_entropy: auto, replay_buffer_config: {min_size_for_sampling: 500}}\n"
        "second: {run: PPO, stop: {timesteps_total: 500}}\n"
    )
    refused = CliRunner().invoke(cli, ["translate", "theirs.yaml"])
    assert refused.exit_code == 2
    assert refused.stderr == wording("registered", "package.module:Class")
    printed = CliRunner().invoke(cli, ["translate", "theirs.yaml", "--env", "rlrun.toys:DoubleIntegrator"])
    assert (printed.exit_code, printed.stderr) == (0, "")
    Path("ours.yaml").write_text(printed.stdout)
    first, second = load_experiments(["ours.yaml"])
    assert (first.env.id, second.env.id) == ("rlrun.toys:DoubleIntegrator", "rlrun.toys:DoubleIntegrator")
    assert first.stop.bounds == {"env_steps": 10_000}
    assert first.config.to_data()["learning_starts"] == 500
    assert first.config.to_data()["target_entropy"] is None


def test_none_and_auto_settings_of_rl_zoo3_are_accepted() -> None:
    Path("sac.yml").write_text("Pendulum-v1: {n_timesteps: 500, policy_kwargs: None, target_entropy: auto}\n")
    printed = CliRunner().invoke(cli, ["translate", "sac.yml", "--env", "Pendulum-v1"])
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert "target_entropy: null" in printed.stdout


def test_a_mapping_given_as_the_env_is_refused(wording) -> None:
    done = CliRunner().invoke(cli, ["translate", "theirs.yaml", "--env", "{world: 'rlrun.toys:CartPoles'}"])
    assert (done.exit_code, done.stderr) == (2, wording("--env"))
