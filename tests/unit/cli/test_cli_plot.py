from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import rlrun
from rlrun.cli.main import cli


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    config = {
        "train_batch_size": 64,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 64,
        "num_epochs": 1,
        "model": {"hiddens": [8]},
    }
    spec = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "seeds": 2,
        "stop": {"iteration": 3},
        "config": {**config, "lr": {"grid_search": [1e-3, 3e-4]}},
    }
    rlrun.run({"tiny": spec}, runs_dir=folder, executor="local")
    return folder


def plot(runs: Path, *words: object) -> Result:
    return CliRunner().invoke(cli, ["plot", "tiny", "--runs-dir", str(runs), *map(str, words)])


def test_the_seeds_of_a_configuration_form_one_curve_and_plotting_again_writes_the_same_file(
    runs: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "curve.svg"
    done = plot(runs, "-o", picture)
    assert done.exit_code == 0, done.output
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert done.stdout == f"Drawn: {picture}\n"
    curves = re.findall(r"<!-- (lr=.*) -->", picture.read_text())
    assert sorted(curves) == ["lr=0.0003 (2 seeds)", "lr=0.001 (2 seeds)"]
    first = picture.read_bytes()
    plot(runs, "-o", picture)
    assert picture.read_bytes() == first


def test_without_an_output_file_the_plot_is_drawn_in_the_terminal(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    done = plot(runs)
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 60
    assert "a  lr=0.0" in done.stdout
    assert ", 2 seeds" in done.stdout
    assert "\033" not in done.stdout


def test_an_unknown_metric_is_refused_with_the_closest_name(runs: Path, wording) -> None:
    assert plot(runs, "--metric", "env_step").stderr == wording("env_steps")


def test_unsupported_image_formats_are_refused(runs: Path, tmp_path: Path, wording) -> None:
    done = plot(runs, "-o", tmp_path / "curve.bmp")
    assert done.exit_code == 2
    assert done.stderr == wording()


def test_the_error_for_a_missing_matplotlib_names_the_extra_to_install(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    done = plot(runs, "-o", tmp_path / "curve.svg")
    assert done.exit_code == 6
    assert "pip install 'rlrun[plot]'" in done.stderr


def test_json_contains_the_curves_and_an_image_file_can_be_written_at_the_same_time(runs: Path, tmp_path: Path) -> None:
    done = plot(runs, "--json", "-o", tmp_path / "curve.svg")
    found = json.loads(done.stdout)
    assert (found["metric"], found["axis"]) == ("episode_return_mean", "env_steps")
    assert [curve["seeds"] for curve in found["curves"]] == [2, 2]
    for curve in found["curves"]:
        values = [curve[key] for key in ("low", "mean", "high")]
        assert {len(one) for one in values} == {len(curve["x"])}
        assert all(low <= mean <= high for low, mean, high in zip(*values, strict=True) if low is not None)
    assert found["file"] == str(tmp_path / "curve.svg")
    assert (tmp_path / "curve.svg").exists()


def test_the_report_command_prints_the_name_of_its_file_as_json(runs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = CliRunner().invoke(cli, ["report", "tiny", "--runs-dir", str(runs), "-o", str(page), "--json"])
    found = json.loads(done.stdout)
    assert (found["file"], found["bytes"], found["left_out"]) == (str(page), page.stat().st_size, [])


def test_training_returns_are_plotted_if_there_are_few_evaluations(tmp_path: Path, wording) -> None:
    config = {"train_batch_size": 64, "min_env_steps_per_iteration": 0, "minibatch_size": 64, "num_epochs": 1}
    spec = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "stop": {"iteration": 9},
        "evaluation": {"every": 4, "episodes": 1},
        "config": {**config, "model": {"hiddens": [8]}},
    }
    rlrun.run({"tiny": spec}, runs_dir=tmp_path, executor="local")
    done = plot(tmp_path, "--json")
    drawn = json.loads(done.stdout)
    assert (drawn["metric"], len(drawn["curves"][0]["x"]) > 3) == ("episode_return_mean", True)
    assert done.stderr == wording("--metric")
    asked = json.loads(plot(tmp_path, "--json", "--metric", "evaluation/episode_return_mean").stdout)
    assert asked["metric"] == "evaluation/episode_return_mean"
