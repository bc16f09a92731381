"""``rlrun card``: what a card says about its run, what it contains, and how others use it."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import yaml
from click.testing import Result

import rlrun as package
from rlrun import Training
from rlrun.deploy.card.evidence import CardEvidence, SeedResult, configuration_named, gather
from rlrun.deploy.card.folder import entry_of, policy_alone, without_places
from rlrun.engine.checkpoint.format import read_checkpoint, write_checkpoint
from rlrun.engine.checkpoint.plain_yaml import dump_plain_yaml
from rlrun.engine.messages.errors import CheckpointError, UsageError
from rlrun.experiments.runs.labels import Labels
from rlrun.experiments.runs.run_directory import RunTable
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.spec.load import parse_experiments
from rlrun.report.configurations import Group
from rlrun.report.reading import RunView
from rlrun.report.statistics import bootstrapped, iqm
from tests.command import rlrun

POLES: dict[str, Any] = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "seeds": 3,
    "stop": {"iteration": 1},
    "config": {
        "num_envs_per_worker": 2,
        "train_batch_size": 64,
        "minibatch_size": 32,
        "compile": False,
        "model": {"hiddens": [4]},
    },
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with `poles`, of three seeds."""
    folder = tmp_path_factory.mktemp("card") / "runs"
    package.run({"poles": POLES}, runs_dir=folder, executor="local")
    return folder


@pytest.fixture(scope="module")
def card(runs: Path) -> Path:
    """The card of `poles`."""
    done = written(runs, "poles", runs.parent / "poles")
    assert done.exit_code == 0, done.output
    return runs.parent / "poles"


def written(runs: Path, target: str, output: Path, *more: object) -> Result:
    """Writes a card with two episodes per seed."""
    return rlrun("card", target, "-o", output, "--episodes", 2, "--runs-dir", runs, *more)


def returns_of(checkpoint: Path) -> list[float]:
    """Returns of the card's two episodes."""
    with Training.restore(checkpoint, for_training=False) as training:
        return training.evaluate(2).returns


def front_matter(card: Path) -> dict[str, Any]:
    """Metadata of a card for Hugging Face."""
    _, metadata, _ = (card / "README.md").read_text().split("---\n", 2)
    found: dict[str, Any] = yaml.safe_load(metadata)
    return found


def test_a_card_gives_the_interval_over_all_seeds_and_holds_the_weights_of_the_median_seed(
    runs: Path, card: Path
) -> None:
    results = json.loads((card / "results.json").read_text())
    trials = sorted((runs / "poles").glob("*/checkpoints/*"))
    means = {path.parents[1].name: float(np.mean(returns_of(path))) for path in trials}
    assert {seed["trial"]: seed["episode_return_mean"] for seed in results["seeds"]} == means
    expected = bootstrapped(iqm, [list(means.values())])
    found = results["interquartile_mean"]
    assert (found["value"], found["low"], found["high"]) == (expected.value, expected.low, expected.high)
    assert results["weights"] == sorted(means, key=lambda name: means[name])[1]
    assert float(np.mean(returns_of(card / "checkpoint"))) == means[results["weights"]]
    assert "interval over seeds. With so few seeds it tends to be too narrow." in (card / "README.md").read_text()


def test_the_front_matter_of_a_card_describes_a_model_with_results(card: Path) -> None:
    metadata = front_matter(card)
    assert metadata["library_name"] == "rlrun"
    assert metadata["pipeline_tag"] == "reinforcement-learning"
    assert {"reinforcement-learning", "ppo", "CartPole-v1"} <= set(metadata["tags"])
    ((result,),) = [model["results"] for model in metadata["model-index"]]
    assert result["dataset"] == {"type": "CartPole-v1", "name": "CartPole-v1"}
    assert result["metrics"][0]["type"] == "mean_reward"
    value, estimate = (
        result["metrics"][0]["value"],
        json.loads((card / "results.json").read_text())["interquartile_mean"],
    )
    assert value == round(estimate["value"], 4)
    assert result["metrics"][0]["name"].endswith("]")


def test_the_commands_given_in_a_card_work_in_its_folder_even_for_a_custom_env(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(card)
    assert "\nrlrun evaluate .\n" in Path("README.md").read_text()
    assert rlrun("evaluate", ".", "--episodes", 2).exit_code == 0
    monkeypatch.chdir(tmp_path)
    Path("own_pole.py").write_text("from rlrun.toys import DictCartPole as OwnPole\n")
    package.run({"own": {**POLES, "env": "own_pole:OwnPole", "seeds": 1}}, runs_dir=tmp_path / "runs", executor="local")
    assert written(tmp_path / "runs", "own", tmp_path / "shared").exit_code == 0
    monkeypatch.chdir(tmp_path / "shared")
    assert "\nrlrun evaluate . --trust\n" in Path("README.md").read_text()
    assert rlrun("evaluate", ".", "--episodes", 2, "--trust").exit_code == 0


def test_a_card_contains_a_spec_weights_a_curve_and_an_onnx_file_that_can_act(card: Path) -> None:
    names = {path.relative_to(card).as_posix() for path in card.rglob("*") if path.is_file()}
    assert {"README.md", "spec.yaml", "results.json", "curve.svg", "policy.onnx"} <= names
    assert "checkpoint/policies/default.safetensors" in names
    assert not any(name.startswith("checkpoint/optimizers") for name in names)
    assert all(f"- `{path.name}`: " in (card / "README.md").read_text() for path in card.glob("*[!d]"))
    session = onnxruntime.InferenceSession(card / "policy.onnx")
    assert session.run(["action"], {"obs": np.zeros((1, 4), np.float32)})[0].shape == (1,)


def test_the_result_of_a_single_seed_is_always_labeled_as_such(runs: Path, tmp_path: Path, wording) -> None:
    alone = tmp_path / "runs" / "alone"
    package.run({"alone": {**POLES, "seeds": 1}}, runs_dir=alone.parent, executor="local")
    done = written(alone.parent, "alone", tmp_path / "card")
    assert done.stdout == wording()
    assert "> **One seed, so no interval.**" in (tmp_path / "card" / "README.md").read_text()
    metric = front_matter(tmp_path / "card")["model-index"][0]["results"][0]["metrics"][0]
    assert metric["name"] == wording()
    results = json.loads((tmp_path / "card" / "results.json").read_text())
    assert (results["interquartile_mean"], results["note"]) == (None, wording())


def test_training_can_start_from_the_weights_and_spec_of_a_card(card: Path, tmp_path: Path) -> None:
    words = ["--from", card, "--set", "config.lr=0", "--seed", 7, "--runs-dir", tmp_path, "--executor", "local"]
    done = rlrun("train", card / "spec.yaml", *words)
    assert done.exit_code == 0, done.output
    (checkpoint,) = (tmp_path / "poles").glob("*/checkpoints/*")
    started, shared = (read_checkpoint(path).tensors["policies/default"] for path in (checkpoint, card / "checkpoint"))
    assert {name: tensor.tolist() for name, tensor in started.items()} == {
        name: tensor.tolist() for name, tensor in shared.items()
    }


def test_the_evaluate_command_accepts_the_folder_of_a_card(card: Path) -> None:
    results = json.loads((card / "results.json").read_text())
    found = json.loads(rlrun("evaluate", card, "--episodes", 2, "--json").stdout)
    shared = next(seed for seed in results["seeds"] if seed["trial"] == results["weights"])
    assert found["returns"] == shared["episode_returns"]


def test_training_cannot_be_resumed_from_a_card(card: Path) -> None:
    with pytest.raises(
        CheckpointError,
        match="contains only a policy",
    ):
        Training.restore(card / "checkpoint")


def test_evaluating_an_untrusted_card_that_names_code_is_refused(card: Path, tmp_path: Path, wording) -> None:
    strange = Path(shutil.copytree(card, tmp_path / "strange"))
    content = read_checkpoint(strange / "checkpoint")
    write_checkpoint(strange / "checkpoint", replace(content, spec={**content.spec, "algorithm": "my_lab.awr:AWR"}))
    done = rlrun("evaluate", strange)
    assert done.exit_code == 5
    assert done.stderr == wording("my_lab.awr:AWR")


def test_a_card_of_an_untrusted_run_that_names_code_is_refused(tmp_path: Path, wording) -> None:
    run = tmp_path / "theirs"
    run.mkdir()
    table = RunTable("awr", "2026-01-01", "rlrun train", "local", (str(tmp_path),), {}, ())
    (run / "run.json").write_text(json.dumps(asdict(table)))
    (run / "spec.yaml").write_text(dump_plain_yaml({"awr": {**POLES, "algorithm": "my_lab.awr:AWR"}}))
    refused = written(tmp_path / "mine", str(run), tmp_path / "card")
    assert refused.exit_code == 5
    assert refused.stderr == wording("my_lab.awr:AWR")
    assert not (tmp_path / "card").exists()


def test_the_weights_of_a_card_are_those_of_the_trial_chosen_by_name(runs: Path, card: Path, tmp_path: Path) -> None:
    median = json.loads((card / "results.json").read_text())["weights"]
    other = next(path for path in sorted((runs / "poles").glob("0*")) if path.name != median)
    done = json.loads(written(runs, f"poles/{other.name}", tmp_path / "card", "--json").stdout)
    assert done["weights"] == other.name
    assert len(done["seeds"]) == 3
    assert f"seed {other.name[-1]}: chosen by name." in (tmp_path / "card" / "README.md").read_text()


def test_an_earlier_card_is_replaced_but_foreign_files_are_kept(
    runs: Path, card: Path, tmp_path: Path, wording
) -> None:
    folder = Path(shutil.copytree(card, tmp_path / "again"))
    (folder / ".gitattributes").write_text("*.onnx filter=lfs\n")
    (folder / "replay.gif").write_bytes(b"of the former policy")
    assert written(runs, "poles", folder).exit_code == 0
    assert (folder / ".gitattributes").exists()
    assert not (folder / "replay.gif").exists()
    other = tmp_path / "project"
    other.mkdir()
    (other / "README.md").write_text("# Mine\n")
    refused = written(runs, "poles", other)
    assert (refused.exit_code, (other / "README.md").read_text()) == (2, "# Mine\n")
    assert refused.stderr == wording("README.md")


@pytest.mark.parametrize("variable", ["MY_TOKEN", "HOME"])
def test_a_card_that_would_contain_a_secret_or_a_path_of_this_machine_is_refused(
    variable: str, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setenv(variable, "CartPole-v1")  # the README names this value
    refused = written(runs, "poles", tmp_path / "card")
    assert refused.exit_code == 2
    assert wording("MY_TOKEN" if variable == "MY_TOKEN" else "home folder") in refused.stderr.splitlines()
    assert not list(tmp_path.iterdir())


def test_the_spec_of_a_card_contains_no_local_paths_services_or_secrets() -> None:
    spec = {
        "storage": "s3://bucket/runs",
        "output": "/data/out",
        "loggers": {"wandb": {"project": "mine"}},
        "env": {"id": "Room-v0", "kwargs": {"map": "/home/me/maps/a.txt", "api_key": "abc", "max_tokens": 5}},
        "config": {"input": ["~/sets/expert", "other/set"]},
    }
    assert without_places(spec) == {
        "env": {"id": "Room-v0", "kwargs": {"map": "a.txt", "api_key": "***", "max_tokens": 5}},
        "config": {"input": ["expert", "other/set"]},
    }


def test_the_spec_of_a_card_describes_a_single_configuration() -> None:
    entry = {**POLES, "num_samples": 2, "config": {**POLES["config"], "lr": {"loguniform": [1e-4, 1e-2]}}}
    (experiment,) = parse_experiments({"poles": {**entry, "scheduler": {"asha": {"max_t": 1000}}}})
    (again,) = parse_experiments({"poles": entry_of(experiment, {"lr": 0.002}, [4, 5])})
    assert [(trial.config.lr, trial.seed) for trial in again.trials()] == [(0.002, 4), (0.002, 5)]


def trial_of(seed: int, configuration: int = 0, status: Any = "TERMINATED") -> TrialResult:
    """A trial without files."""
    name, params = f"{configuration}-{seed}", {"lr": configuration}
    return TrialResult(name, Path(name), "poles", status, seed, params, configuration)


def test_a_card_of_a_run_with_several_configurations_requires_the_name_of_one(wording) -> None:
    trials = (trial_of(0), trial_of(1), trial_of(0, 1))
    table = RunTable("poles", "2026-01-01", "rlrun train", "local", (), {}, tuple(trial.name for trial in trials))
    run = RunView(Path("sweep"), "sweep", table, Labels(), {}, trials, (), (), ())
    with wording.raised(UsageError, "sweep/0-0", "sweep/1-0"):
        configuration_named(run, None)
    assert [trial.name for trial in configuration_named(run, "0-1").trials] == ["0-0", "0-1"]


def gathered(means: dict[int, float | None], trial: str | None = None) -> CardEvidence:
    """Evidence from seeds with these mean returns; None stands for a seed without a checkpoint."""
    trials = [trial_of(seed, status="TERMINATED" if mean is not None else "ERROR") for seed, mean in means.items()]
    group = Group("", "poles", {}, (tuple((each,) for each in trials),))
    table = RunTable("poles", "2026-01-01", "rlrun train", "local", (), {}, ())
    run = RunView(Path("poles"), "poles", table, Labels(), {}, tuple(trials), (), (), ())

    def checkpoint_of(member: TrialResult) -> Path:
        if means[member.seed or 0] is None:
            raise CheckpointError(f"{member.name} has no checkpoint")
        return Path(str(member.seed))

    return gather(run, group, trial, checkpoint_of, lambda path: (float(means[int(path.name)] or 0.0),))


def test_seeds_without_a_checkpoint_are_reported_and_the_lower_median_is_used_for_an_even_count(wording) -> None:
    found = gathered({0: 9.0, 1: None, 2: 1.0, 3: 5.0, 4: 4.0})
    assert found.missing == wording()
    assert found.shared.mean == 4.0
    assert found.worst == SeedResult(trial_of(2), Path("2"), (1.0,))


def test_a_card_without_a_checkpoint_is_refused(wording) -> None:
    with wording.raised(CheckpointError):
        gathered({0: 9.0, 1: None}, trial="0-1")
    with wording.raised(CheckpointError):
        gathered({1: None})


OFF_POLICY: dict[str, Any] = {
    "num_envs_per_worker": 2,
    "minibatch_size": 4,
    "learning_starts": 40,
    "min_env_steps_per_iteration": 50,
    "compile": False,
    "model": {"hiddens": [4]},
}
WORLD = {"world": "rlrun.toys:TwoStepGame"}
KINDS: dict[str, dict[str, Any]] = {
    "dqn": {"algorithm": "dqn", "env": "CartPole-v1", "config": OFF_POLICY},
    "sac": {"algorithm": "sac", "env": "Pendulum-v1", "config": OFF_POLICY},
    "qmix": {"algorithm": "qmix", "env": WORLD, "config": OFF_POLICY},
    "r2d2": {
        "algorithm": "r2d2",
        "env": "CartPole-v1",
        "config": {
            **OFF_POLICY,
            "model": {"hiddens": [4], "core_width": 4},
            "replay": {"length": 4, "burn_in": 2, "stride": 2},
        },
    },
    "ppo_league": {
        "env": {"world": "rlrun.toys:TicTacToe"},
        "policies": {"main": {"algorithm": "ppo", "config": {"train_batch_size": 64, "model": {"hiddens": [4]}}}},
        "mapping": "rlrun.plugin:alternate_with_self_play",
        "seats": {"opponent": {"plays_against": "main", "self_play_share": 0.2}},
        "league": {"snapshot_every": 1, "rating_episodes": 2},
        "config": {"min_env_steps_per_iteration": 50},
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_extracted_from_a_checkpoint_acts_like_the_checkpoint(kind: str, tmp_path: Path) -> None:
    spec = {"stop": {"iteration": 2}, **KINDS[kind]}
    (trial,) = package.run({kind: spec}, runs_dir=tmp_path / "runs", executor="local")
    assert trial.checkpoint is not None
    content = read_checkpoint(trial.checkpoint)
    alone = write_checkpoint(tmp_path / "alone", policy_alone(content, content.spec))
    found = []
    for path in (trial.checkpoint, alone):
        with Training.restore(path, trust=True, for_training=False) as training:
            found.append((training.evaluate(1).returns, training.running.workers.counts.env_steps))
    assert found[0] == found[1]
    assert (alone / "state.npz").stat().st_size <= (trial.checkpoint / "state.npz").stat().st_size
