"""`rlrun regress` on real training: a target that is reached, a trial that fails, a gate too weak, a baseline."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from rlrun.cli.main import cli
from rlrun.engine.messages.errors import Interrupted
from rlrun.experiments.runs.events import RunEvent, TrialEvent
from rlrun.experiments.spec.load import load_experiments
from rlrun.experiments.trial.results import read_results
from rlrun.report.regression import suite

# A random policy returns about 3.6 of 10. After 1,000 env steps, the likeliest actions are mostly right.
MATCH = """
  algorithm: ppo
  env: rlrun.toys:MultiDiscreteMatch
  stop: {env_steps: 1_000_000}
  config: {num_envs_per_worker: 16, train_batch_size: 512, minibatch_size: 128, num_epochs: 8, lr: 3.0e-3, gamma: 0,
           min_env_steps_per_iteration: 0}
"""
SPECS = {
    "match.yaml": f"match: {MATCH}  expect: {{episode_return_mean: 8, within_env_steps: 3_000, seeds: 2}}\n",
    "weak.yaml": f"weak: {MATCH}  expect: {{episode_return_mean: 2, within_env_steps: 600}}\n",
    "crash.yaml": (
        "crash:\n  algorithm: ppo\n  env: {id: rlrun.toys:Crashing, kwargs: {crash_at: 5}}\n"
        "  stop: {iteration: 2}\n  expect: {episode_return_mean: 1}\n"
    ),
}


def regress(folder: Path, *words: object) -> Result:
    always = ["--executor", "local", "--runs-dir", folder / "runs"]
    return CliRunner().invoke(cli, [str(word) for word in ("regress", *words, *always)])


def cases_of(result: Result) -> dict[str, list[dict[str, Any]]]:
    return {verdict["experiment"]: verdict["cases"] for verdict in json.loads(result.stdout)["experiments"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the specs, and the output of a run of all of them."""
    folder = tmp_path_factory.mktemp("regress")
    (folder / "specs").mkdir()
    for name, text in SPECS.items():
        (folder / "specs" / name).write_text(text)
    files = ["--junit", folder / "out/junit.xml", "--save-baseline", folder / "out/baseline.json"]
    result = regress(folder, "-f", folder / "specs", "--json", *files)
    (folder / "printed.json").write_text(result.stdout)
    (folder / "told.txt").write_text(f"{result.exit_code}\n{result.stderr}")
    return folder


def test_all_experiments_in_a_folder_run_even_if_one_of_them_fails(folder: Path, wording) -> None:
    crash, match, weak = json.loads((folder / "printed.json").read_text())["experiments"]
    assert (crash["passed"], match["passed"], weak["passed"]) == (False, True, True)
    assert [case["outcome"] for case in match["cases"]] == ["reached", "reached"]
    assert all(3_000 <= case["env_steps"] < 3_600 for case in match["cases"])
    assert "RuntimeError: this world crashes at step 5" in crash["cases"][0]["error"]
    code, *told = (folder / "told.txt").read_text().splitlines()
    assert code == "4"
    assert told[-1] == wording()
    assert not any("Traceback" in line for line in told[-3:])


def test_the_junit_xml_has_a_suite_per_experiment_and_a_case_per_seed(folder: Path) -> None:
    crash, match, weak = ElementTree.parse(folder / "out/junit.xml").getroot()
    assert [case.attrib["name"] for case in match.findall("testcase")] == ["000-seed=0", "001-seed=1", "verdict"]
    assert [(suite.attrib["name"], suite.attrib["failures"]) for suite in (crash, match, weak)] == [
        ("crash", "1"), ("match", "0"), ("weak", "0"),
    ]  # fmt: skip
    assert crash.find("testcase/error") is not None


def test_a_rerun_of_unchanged_code_is_judged_the_same_as_its_baseline(folder: Path) -> None:
    stored = ["--baseline", folder / "out/baseline.json"]
    result = regress(folder, "-f", folder / "specs/match.yaml", *stored)
    assert result.exit_code == 0, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if "mean return of the curve" in line]
    assert "same" in line
    assert ": +0 [" in line


def test_a_policy_that_learns_too_slowly_misses_its_gate_and_is_worse_than_the_baseline(folder: Path, wording) -> None:
    slower = ["--set", "config.lr=1e-6", "--baseline", folder / "out/baseline.json", "--json"]
    result = regress(folder, "-f", folder / "specs/match.yaml", *slower)
    assert result.exit_code == 3
    (verdict,) = json.loads(result.stdout)["experiments"]
    assert verdict["area"]["judgement"] == "worse"
    assert verdict["area"]["note"] == wording()
    assert result.stderr.splitlines()[-1] == wording()


def test_a_control_run_misses_a_sound_gate_and_exposes_a_gate_that_is_too_weak(folder: Path, wording) -> None:
    result = regress(folder, "-f", folder / "specs/match.yaml", "-f", folder / "specs/weak.yaml", "--control", "--json")
    assert result.exit_code == 3
    cases = cases_of(result)
    assert [case["outcome"] for case in cases["match"]] == ["missed", "missed"]
    assert all(1.0 < case["values"]["episode_return_mean"] < 6.0 for case in cases["match"])
    assert all(case["env_steps"] < 1_600 for case in cases["match"])
    assert [case["outcome"] for case in cases["weak"]] == ["reached"]
    assert result.stderr.splitlines()[-1] == wording()


def test_a_run_may_be_judged_by_the_mean_of_its_last_evaluations(folder: Path) -> None:
    sets = ["--set", "expect.last_evaluations=2", "--set", "evaluation.every=1", "--set", "evaluation.episodes=3"]
    for case in cases_of(regress(folder, "-f", folder / "specs/match.yaml", *sets, "--json"))["match"]:
        rows = read_results(Path(case["directory"]))
        first, second = (row["evaluation/episode_return_mean"] for row in rows[-2:])
        assert case["values"]["episode_return_mean"] == pytest.approx((first + second) / 2)
    sets[1] = "expect.last_evaluations=1000"
    result = regress(folder, "-f", folder / "specs/match.yaml", *sets, "--json")
    assert result.exit_code == 3
    assert [case["values"]["episode_return_mean"] for case in cases_of(result)["match"]] == [None, None]


def test_training_ends_when_its_time_budget_is_used_up(folder: Path) -> None:
    result = regress(folder, "-f", folder / "specs/match.yaml", "--set", "expect.within_seconds=0.001", "--json")
    for case in cases_of(result)["match"]:
        assert case["env_steps"] <= 512  # one iteration
        record = json.loads((Path(case["directory"]) / "trial.json").read_text())
        assert record["stop_reason"].startswith("time_total_s ")


def test_an_interrupt_ends_regress_without_a_verdict(folder: Path, wording) -> None:
    def interrupt(event: RunEvent) -> None:
        if isinstance(event, TrialEvent) and event.result is not None:
            os.kill(os.getpid(), signal.SIGINT)

    experiments = load_experiments([folder / "specs/match.yaml"])
    with wording.raised(Interrupted):
        suite.regress(experiments, runs_dir=folder / "interrupted", executor="local", watch=interrupt)


def test_trials_cut_short_because_ray_ended_count_as_failed_for_that_reason(folder: Path, wording) -> None:
    sets = ["--set", "algorithm=strange_plugins:EndsRay", "--junit", folder / "out/ended.xml"]
    result = regress(folder, "-f", folder / "specs/match.yaml", *sets)
    assert result.exit_code == 4
    *_, second, last = result.stderr.splitlines()
    ended = "Ray ended on this machine while trials were running: its raylet was killed or crashed"
    assert second == wording(ended, "match/001-seed")
    assert last == wording()
    suite = ElementTree.parse(folder / "out/ended.xml").getroot()[0]
    assert [error.attrib["message"].startswith(ended) for error in suite.iter("error")] == [True, True]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--control", "--save-baseline", "x.json"],
            "--control freezes the policies, so there are no curves to compare with a baseline or to save",
        ),
        (["--fail-on-speed"], "--fail-on-speed needs a --baseline"),
        (["--baseline", "no-such.json"], "no-such.json: does not exist; create it with --save-baseline"),
        (["--junit", "{folder}/printed.json/junit.xml"], "printed.json is a file"),
        (["--set", "expect=null"], "crash, match, weak expect nothing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_prints_one_message_before_anything_runs(words: list[str], message: str, folder: Path) -> None:
    before = sorted((folder / "runs").iterdir())
    result = regress(folder, "-f", folder / "specs", *(word.format(folder=folder) for word in words))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted((folder / "runs").iterdir()) == before


def test_speed_is_not_compared_with_a_baseline_from_another_machine(folder: Path) -> None:
    stored = json.loads((folder / "out/baseline.json").read_text())
    stored["machine"]["processor"] = "abacus"
    (folder / "elsewhere.json").write_text(json.dumps(stored))
    words = ["-f", folder / "specs/match.yaml", "--baseline", folder / "elsewhere.json", "--fail-on-speed"]
    result = regress(folder, *words)
    assert result.exit_code == 2
    assert "made on another machine, so speeds cannot be compared (processor: " in result.stderr
