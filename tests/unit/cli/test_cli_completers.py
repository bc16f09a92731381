"""Shell completion of runs, trials, tags, settings, envs and specs."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete, get_completion_class

from rlrun.cli.main import COMMANDS, cli
from rlrun.experiments.runs.labels import Labels, write_labels
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.spec.load import parse_experiments

SPEC = {"algorithm": "dqn", "env": "CartPole-v1", "seeds": 2, "stop": {"env_steps": 1000}}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (experiment,) = parse_experiments({"pole": SPEC})
    RunDirectory.create(tmp_path / "runs", "pole", experiment, experiment.trials(), "local")
    write_labels(tmp_path / "runs/pole", Labels(("good", "lr")))
    (tmp_path / "mine.yaml").write_text("mine: {algorithm: sac}\n")
    (tmp_path / "broken.yaml").write_text("a: [\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def offered(*words: str) -> list[str]:
    """Completions of the last word; "(file)" and "(dir)" where the shell completes paths."""
    found = ShellComplete(cli, {}, "rlrun", "_RLRUN_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return [item.value if item.type == "plain" else f"({item.type})" for item in found]


@pytest.mark.parametrize("command", ["status", "show", "resume", "label", "report", "plot", "diagnose", "evaluate"])
def test_run_names_are_completed_for_commands_that_take_a_run(command: str) -> None:
    assert offered(command, "po") == ["pole"]
    assert offered(command, "elsewhere/") == ["(dir)"]


def test_a_run_name_followed_by_a_slash_is_completed_with_trial_names() -> None:
    assert offered("compare", "pole/00") == ["pole/000-seed=0", "pole/001-seed=1"]


def test_completion_looks_for_runs_in_the_given_runs_dir(folder: Path) -> None:
    assert offered("show", "--runs-dir", str(folder), "po") == ["(dir)"]


def test_every_argument_that_takes_a_run_or_a_spec_is_completed() -> None:
    context = click.Context(cli)
    arguments = [
        (name, parameter)
        for name in COMMANDS
        for parameter in getattr(cli.get_command(context, name), "params", [])
        if isinstance(parameter, click.Argument)
        and any(word in parameter.make_metavar(context) for word in ("RUN", "FILE"))
    ]
    assert len(arguments) > 15
    own = [name for name, parameter in arguments if parameter._custom_shell_complete is None]
    assert own == ["translate"]  # its argument is a file of another library


def test_tags_are_completed_from_the_given_run_or_otherwise_from_all_runs() -> None:
    assert offered("label", "pole", "--untag", "") == ["good", "lr"]
    assert offered("runs", "--tag", "g") == ["good"]


def test_setting_names_are_completed_for_the_given_algorithm_or_spec() -> None:
    assert offered("train", "--algorithm", "ppo", "--set", "config.gae") == ["config.gae_lambda="]
    assert offered("train", "mine.yaml", "--set", "config.target_e") == ["config.target_entropy="]
    assert offered("train", "broken.yaml", "--set", "config.num_env") == ["config.num_envs_per_worker="]
    assert offered("train", "mine.yaml", "--set", "checkpoint.k") == ["checkpoint.keep="]
    assert offered("train", "mine.yaml", "--set", "stop.env") == ["stop.env_steps="]
    assert offered("train", "mine.yaml", "--set", "env.max_e") == ["env.max_episode_steps="]
    assert offered("train", "mine.yaml", "--set", "config.lr=1") == []


def test_env_ids_and_specs_are_completed() -> None:
    assert "CartPole-v1" in offered("train", "--algorithm", "ppo", "--env", "CartP")
    assert offered("init", "--env", "Acro") == ["Acrobot-v1"]
    assert offered("train", "mi")[0] == "mine.yaml"
    assert "cartpole/ppo" in offered("validate", "cartpole/p")
    assert offered("train", "no-such") == ["(file)"]
    assert offered("diff", "pole") == ["pole"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_completes_run_and_trial_names_that_contain_slashes_and_equals_signs(shell: str) -> None:
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    complete = shell_class(cli, {}, "rlrun", "_RLRUN_COMPLETE")
    for written, names in (("po", ["pole"]), ("pole/00", ["pole/000-seed=0", "pole/001-seed=1"])):
        told = [complete.format_completion(item) for item in complete.get_completions(["compare"], written)]
        assert told == [
            {"bash": f"plain,{name}", "zsh": f"plain\n{name}\n_", "fish": f"plain,{name}"}[shell] for name in names
        ]
