"""`rlrun show`, `rlrun compare` and `rlrun report` on runs in every state."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from rlrun.cli.outcome import next_steps
from rlrun.engine.checkpoint.plain_yaml import dump_plain_yaml
from rlrun.experiments.runs.run_directory import RunDirectory, RunTable
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord
from tests.command import rlrun


def make_run(runs: Path, name: str, returns: dict[float, list[list[float]]], **spec: Any) -> Path:
    """Writes a run from a mapping of ``lr`` to the returns of each seed, 100 env steps each."""
    path = runs / name
    index = 0
    for number, (lr, seeds) in enumerate(returns.items()):
        for seed, values in enumerate(seeds):
            trial = TrialDirectory(path / f"{index:03d}-lr={lr}-seed={seed}")
            trial.write_record(TrialRecord(trial.path.name, "TERMINATED", seed, {"lr": lr}))
            trial.write_spec({"configuration": number})
            rows = [
                {"iteration": n, "env_steps": 100 * n, "time_total_s": 1.0, "episode_return_mean": v}
                for n, v in enumerate(values, start=1)
            ]
            (trial.path / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
            index += 1
    trials = tuple(sorted(trial.parent.name for trial in path.glob("*/trial.json")))
    table = RunTable("pole", "2026-01-01T00:00:00+00:00", "rlrun train", "local", (), {"rlrun": "0.1.0"}, trials)
    (path / "run.json").write_text(json.dumps(asdict(table)))
    entry = {"algorithm": "ppo", "env": {"id": "CartPole-v1"}, "stop": {"env_steps": 200.0}, **spec}
    (path / "spec.yaml").write_text(dump_plain_yaml({"pole": entry}))
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    make_run(folder, "sweep", {0.1: [[1, 2], [3, 4]], 0.2: [[5, 8], [7, 6]]})
    make_run(folder, "other", {0.1: [[1, 1], [1, 1]]})
    return folder


def test_a_run_whose_spec_names_an_unknown_metric_is_ranked_by_the_default_metric(tmp_path: Path, wording) -> None:
    run = make_run(tmp_path, "heater", {0.1: [[1, 2]]}, checkpoint={"best": "info/sucess"})
    file = run / "000-lr=0.1-seed=0" / "result.json"
    rows = [json.dumps({**json.loads(line), "info/is_success": 1.0}) for line in file.read_text().splitlines()]
    file.write_text("\n".join([*rows, ""]))
    shown = rlrun("show", run)
    assert (shown.exit_code, shown.stderr.splitlines()) == (0, wording("checkpoint.best", "info/is_success"))
    assert "(return 2)" in shown.stdout
    assert wording("checkpoint.best", "info/is_success") in next_steps(RunDirectory.open(run).results())


def test_the_show_command_lists_network_inputs_and_the_settings_of_a_preset(tmp_path: Path, wording) -> None:
    env = {"id": "ALE/Pong-v5", "preset": "atari", "evaluation_kwargs": {"episodic_life": False}}
    config = {"clip_rewards": None, "model": {"conv": "nature"}}
    run = make_run(tmp_path, "pong", {0.1: [[1], [2]]}, env=env, config=config)
    for path in sorted(run.glob("*/trial.json")):
        record = {**json.loads(path.read_text()), "network": ["observations: image 4x84x84, scaled by 1/255"]}
        path.write_text(json.dumps(record))
    lines = rlrun("show", run).stdout.splitlines()
    assert wording("clip_rewards", "model.conv", "episodic_life") in lines
    at = lines.index("  network")
    assert lines[at + 1] == wording("255")
    path.write_text(json.dumps({**record, "network": ["observations: unprocessed, to mine:Net"]}))
    lines = rlrun("show", run).stdout.splitlines()
    assert lines[lines.index("  network of 000-lr=0.1-seed=0") + 1] == wording("255")
    (_, second) = json.loads(rlrun("show", run, "--json").stdout)["trials"]
    assert second["network"] == ["observations: unprocessed, to mine:Net"]


def test_a_run_is_shown_with_the_results_of_its_seeds_aggregated(runs: Path, wording) -> None:
    done = rlrun("show", "sweep", "--runs-dir", runs)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == wording("CartPole-v1")
    assert "  stop        env_steps 200" in lines
    assert "    lr: 0.1, 0.2" in lines
    table = lines[lines.index("final episode_return_mean across seeds") :]
    assert table[2].split() == ["lr=0.2", "2", "terminated", "200", "7", "6", "to", "8", "7", "8"]
    assert [line.split()[0] for line in table[6:10]] == [
        "002-lr=0.2-seed=0", "003-lr=0.2-seed=1", "001-lr=0.1-seed=1", "000-lr=0.1-seed=0",
    ]  # fmt: skip
    assert lines[-2:] == wording("002", "0.2")


def test_the_json_of_show_contains_configurations_trials_the_best_trial_and_problems(runs: Path) -> None:
    shown = json.loads(
        rlrun("show", runs / "sweep", "--json", "--metric", "episode_return_mean", "--mode", "min").stdout
    )
    assert (shown["metric"], shown["mode"]) == ("episode_return_mean", "min")
    assert [row["label"] for row in shown["configurations"]] == ["lr=0.1", "lr=0.2"]
    assert shown["best"] == {"trial": "000-lr=0.1-seed=0", "value": 1, "checkpoint": None}
    assert shown["trials"][3]["params"] == {"lr": 0.2}
    assert shown["problems"] == []


def test_failed_stopped_and_damaged_trials_are_shown_and_the_exit_code_for_damage_is_5(runs: Path, wording) -> None:
    path = runs / "sweep"
    names = [f"{n:03d}-lr={lr}-seed={n % 2}" for n, lr in enumerate([0.1, 0.1, 0.2, 0.2])]
    error = 'Traceback (most recent call last):\n  File "x.py"\nValueError: boom'
    TrialDirectory(path / names[0]).write_record(TrialRecord(names[0], "ERROR", 0, {"lr": 0.1}, error=error))
    TrialDirectory(path / names[1]).write_record(TrialRecord(names[1], "RUNNING", 1, {"lr": 0.1}))
    (path / names[2] / "trial.json").write_text("{")
    rows = (path / names[3] / "result.json").read_text()
    (path / names[3] / "result.json").write_text(f"damaged\n{rows}")
    stop = {"trial": names[3], "time": 100.0, "score": None, "reason": "asha: last"}
    (path / "decisions.jsonl").write_text(json.dumps(stop) + "\n")
    (path / "spec.yaml").write_text((path / "spec.yaml").read_text() + "  scheduler: {asha: {}}\n")
    done = rlrun("show", "sweep", "--runs-dir", runs)
    assert done.exit_code == 5, done.output
    assert done.stderr == wording(path)
    assert "status      1 error, 1 killed, 1 damaged, 1 terminated" in done.stdout
    assert "1 failed\n  000-lr=0.1-seed=0: Traceback (most recent call last): ... ValueError: boom" in done.stdout
    assert "asha stopped 1 of 4 trials" in done.stdout
    assert "damaged:\n" in done.stdout
    assert wording("trial.json") in done.stdout.splitlines()
    assert f"{path / names[3] / 'result.json'}:1: damaged" in done.stdout


def test_a_long_list_of_trials_is_cut_unless_all_are_requested(tmp_path: Path) -> None:
    make_run(tmp_path, "long", {n / 100: [[1.0 * n]] for n in range(23)})
    cut, whole = (rlrun("show", "long", *more, "--runs-dir", tmp_path).stdout for more in ([], ["--all"]))
    names = [f"{n:03d}-lr={n / 100}-seed=0" for n in reversed(range(23))]
    for shown, listed in (cut, names[:20]), (whole, names):
        assert [line.split()[0] for line in shown.splitlines() if line.startswith("0")] == listed
    assert ("3 more; list" in cut, " more; list" in whole) == (True, False)


def test_configurations_runs_and_trials_can_be_compared(runs: Path, wording) -> None:
    done = rlrun("compare", "sweep", "--runs-dir", runs)
    assert done.exit_code == 0, done.output
    assert wording("episode_return_mean", "200") in done.stdout.splitlines()
    assert wording("100", "200") in done.stdout.splitlines()
    assert done.stdout.rstrip().splitlines()[-1] == wording("0.2", "0.1")
    both = json.loads(rlrun("compare", "sweep", "other", "--pool", "--json", "--runs-dir", runs).stdout)
    assert [(side["label"], side["samples"]) for side in both["sides"]] == [("sweep", 4), ("other", 2)]
    by = json.loads(rlrun("compare", "sweep", "--by", "config.lr", "--json", "--runs-dir", runs).stdout)
    assert [(side["label"], side["samples"]) for side in by["sides"]] == [("lr=0.2", 2), ("lr=0.1", 2)]
    one = json.loads(
        rlrun("compare", "sweep/000-lr=0.1-seed=0", "other", "--x", "env_steps", "--json", "--runs-dir", runs).stdout
    )
    assert [side["label"] for side in one["sides"]] == ["sweep/000-lr=0.1-seed=0", "other, lr=0.1"]


def test_runs_of_different_envs_are_compared_with_a_warning(runs: Path, wording) -> None:
    make_run(runs, "pong", {0.1: [[1, 2], [3, 4]]}, env="ALE/Pong-v5")
    done = rlrun("compare", "other", "pong", "--runs-dir", runs)
    assert wording("ALE/Pong-v5", "CartPole-v1") in done.stdout.splitlines()
    assert "different envs" not in rlrun("compare", "other", "sweep", "--runs-dir", runs).stdout


def test_a_comparison_needs_at_least_two_groups(runs: Path, wording) -> None:
    done = rlrun("compare", "other", "--runs-dir", runs)
    assert done.exit_code == 2
    assert done.stderr == wording()
    for wrong, what in ([], "--by"), (["--by", "lr"], "--pool"):
        done = rlrun("compare", "sweep", "--pool", *wrong, "--runs-dir", runs)
        assert (done.exit_code, what in done.stderr) == (2, True)
        assert done.stderr == wording(what)
    assert rlrun("compare", "nowhere", "--runs-dir", runs).exit_code == 2


def test_the_report_command_writes_a_report_that_says_what_it_left_out(runs: Path, tmp_path: Path, wording) -> None:
    (runs / "sweep" / "000-lr=0.1-seed=0" / "trial.json").write_text("{")
    page = tmp_path / "new" / "page.html"
    done = rlrun("report", "sweep", "other", "-o", page, "--runs-dir", runs)
    assert done.exit_code == 0, done.output
    assert page.read_text().startswith("<!doctype html>")
    assert done.stdout.startswith(f"Wrote {page}")
    assert "ignored: " in done.stderr
    assert done.stderr == wording("trial.json")


def test_the_report_command_refuses_unknown_runs_and_output_files_that_are_not_html(
    runs: Path, tmp_path: Path, wording
) -> None:
    done = rlrun("report", "sweep", "-o", tmp_path / "page.pdf", "--runs-dir", runs)
    assert done.exit_code == 2
    assert done.stderr == wording()
    assert rlrun("report", "swep", "--runs-dir", runs).stderr.strip().endswith("did you mean 'sweep'?")
