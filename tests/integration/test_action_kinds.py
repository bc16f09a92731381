"""Greedy and sampled actions: which kind counts, how the other compares with it, and which commands use it later."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun import DQN, PPO, SAC, AlphaZero, Random, Training, resume, run
from rlrun.cli.serve import load_policy
from rlrun.engine.checkpoint.format import Content, read_checkpoint
from rlrun.engine.data.action_kind import ACTION_KINDS, ActionKind
from rlrun.engine.functional.softmax import log_softmax
from rlrun.engine.messages.errors import CheckpointError, SpecError
from rlrun.engine.training.save.checkpointing import saved_training
from rlrun.experiments.runs.run_state import read_run_state
from rlrun.experiments.spec.load import parse_experiments
from tests.aliased_corridor import ALWAYS, greedy_return, sampled_return
from tests.command import rlrun

MOST = 60
SMALL = {
    "train_batch_size": 64,
    "minibatch_size": 64,
    "num_epochs": 1,
    "min_env_steps_per_iteration": 0,
    "model": {"hiddens": [4]},
    "compile": False,
}
EPISODES = 200
CLIENTS = {
    "observation": {"type": "Box", "shape": [1], "low": 0, "high": 1},
    "action": {"type": "Discrete", "n": 2},
}


def entry(actions: ActionKind, iterations: int = 2, **evaluation: Any) -> dict[str, Any]:
    return {
        "algorithm": "ppo",
        "env": {"id": "tests.aliased_corridor:AliasedCorridor", "kwargs": {"most": MOST}},
        "config": SMALL,
        "stop": {"iteration": iterations},
        "evaluation": {"every": 2, "episodes": EPISODES, "actions": actions, **evaluation},
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs in the corridor, one judged by greedy actions and one by sampled ones."""
    folder = tmp_path_factory.mktemp("runs")
    for actions in ACTION_KINDS:
        run({actions: entry(actions)}, runs_dir=folder, executor="local")
    return folder


def rows_of(run: Path) -> list[dict[str, Any]]:
    (path,) = run.glob("*/result.json")
    return [json.loads(line) for line in path.read_text().splitlines()]


def checkpoint_of(run: Path) -> Path:
    (path,) = run.glob("*/checkpoints/*")
    return path


def probability_of_right(checkpoint: Path) -> float:
    with Training.restore(checkpoint, trust=True, for_training=False) as training:
        outputs = training.acting.policy().behavior().outputs(ALWAYS[None])
    return float(np.exp(log_softmax(outputs))[0, 1])


def test_greedy_and_sampled_returns_are_analytic_and_the_chosen_action_kind_sets_the_score(runs: Path) -> None:
    for actions, other, sign in (("greedy", "sampled", 1.0), ("sampled", "greedy", -1.0)):
        before, row = rows_of(runs / actions)
        own, compared = "evaluation/", f"evaluation/{other}/"
        greedy, sampled = (own, compared) if actions == "greedy" else (compared, own)
        assert row[f"{greedy}episode_return_mean"] == row[f"{greedy}episode_return_min"] == greedy_return(MOST)
        played = EPISODES if actions == "sampled" else EPISODES // 4
        expected = sampled_return(probability_of_right(checkpoint_of(runs / actions)), MOST)
        tolerated = 4.0 * row[f"{sampled}episode_return_std"] / math.sqrt(played)
        assert row[f"{sampled}episode_return_mean"] == pytest.approx(expected, abs=tolerated)
        assert row[f"{sampled}episode_len_mean"] == -row[f"{sampled}episode_return_mean"]
        assert math.copysign(1.0, row[f"{compared}episode_return_gap"]) == sign
        assert abs(row[f"{compared}episode_return_gap"]) < row[f"{sampled}episode_return_mean"] - greedy_return(MOST)
        assert tuple(before) == tuple(row)
        assert {before[name] for name in before if name.startswith(own)} == {None}
        (trial,) = read_run_state(runs / actions).trials
        assert (trial.judged_by, trial.best_score) == (f"{own}episode_return_mean", row[f"{own}episode_return_mean"])


def test_summaries_evaluations_and_reports_say_when_greedy_and_sampled_returns_differ(
    tmp_path: Path, runs: Path
) -> None:
    row = rows_of(runs / "greedy")[-1]
    sampled = f"{row['evaluation/sampled/episode_return_mean']:.4g}"
    line = (
        f"Sampled actions return {sampled} on average, greedy ones -60: their 95% intervals do not overlap. "
        "Results use greedy actions (evaluation.actions)."
    )
    spec = tmp_path / "spec.yaml"
    spec.write_text(json.dumps({"greedy": entry("greedy")}))
    trained = rlrun("train", "-f", spec, "--runs-dir", tmp_path, "-q").stdout.splitlines()
    assert trained[trained.index("Best evaluation: -60") + 1] == line
    reported = rlrun("report", "greedy", "--runs-dir", runs, "-o", tmp_path / "report.html")
    assert reported.stdout.splitlines()[0] == line
    assert line in (tmp_path / "report.html").read_text()
    evaluated = rlrun("evaluate", "greedy", "--runs-dir", runs, "--episodes", 40).stdout
    assert "mean return  -60  (95% interval -60 to -60)" in evaluated
    assert evaluated.splitlines()[-1].startswith("Sampled actions return -")
    found = json.loads(rlrun("diagnose", "greedy", "--runs-dir", runs, "--json").stdout)["findings"]
    assert found[0]["name"] == "greedy loops"  # greedy actions walk back and forth between cells that look alike


def test_nothing_is_reported_if_the_intervals_of_greedy_and_sampled_returns_overlap(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(json.dumps({"lots": {**entry("greedy"), "env": "tests.aliased_corridor:Lottery"}}))
    assert "actions return" not in rlrun("train", "-f", spec, "--runs-dir", tmp_path, "-q").stdout
    assert rows_of(tmp_path / "lots")[-1]["evaluation/sampled/episode_return_gap"] == 0.0
    data = json.loads(rlrun("diagnose", "lots", "--runs-dir", tmp_path, "--json").stdout)
    assert "greedy and sampled actions differ" not in [one["name"] for one in data["findings"]]


def test_a_quarter_of_the_episodes_but_at_least_five_are_replayed_with_the_other_action_kind() -> None:
    with Training("tests.aliased_corridor:Lottery", PPO(**SMALL)) as training:
        for episodes, played in ((40, 10), (22, 6), (8, 5), (3, 5)):
            returns = training.evaluate(episodes, seed=3).returns
            other = training.acting.evaluate_other_kind(episodes, seed=3)
            assert other is not None
            assert len(other.returns) == played
            assert other.returns[:episodes] == returns[:played]


def test_evaluations_with_greedy_and_sampled_actions_resume_exactly(tmp_path: Path) -> None:
    whole = run({"whole": entry("greedy", 4, episodes=12)}, runs_dir=tmp_path, executor="local")
    run({"parts": entry("greedy", 2, episodes=12)}, runs_dir=tmp_path, executor="local")
    (parts,) = resume(tmp_path / "parts", extend={"iteration": 4}, executor="local")
    expected, found = (
        [{name: row[name] for name in row if name.startswith("evaluation/")} for row in trial.results()]
        for trial in (*whole, parts)
    )
    assert found == expected
    assert found[-1]["evaluation/sampled/episode_return_mean"] is not None


def test_commands_act_with_the_kind_of_actions_stored_in_the_checkpoint(tmp_path: Path, runs: Path, wording) -> None:
    saved = checkpoint_of(runs / "sampled")
    assert read_checkpoint(saved).manifest["actions"] == "sampled"
    words = ("evaluate", saved, "--runs-dir", runs, "--episodes", 40, "--json")
    own, greedy = json.loads(rlrun(*words).stdout), json.loads(rlrun(*words, "--actions", "greedy").stdout)
    assert (own["actions"], greedy["actions"]) == ("sampled", "greedy")
    assert greedy["returns"] == [-60.0] * 40
    assert own["greedy"]["returns"] == [-60.0] * 10
    assert own["returns"][:10] == greedy["sampled"]["returns"]
    assert load_policy(saved, runs, False, "", None).schema()["actions"] == "sampled"
    assert load_policy(saved, runs, False, "", None, "greedy").actions == "greedy"
    exported = json.loads(rlrun("export", saved, "--runs-dir", runs, "-o", tmp_path / "own.onnx", "--json").stdout)
    assert exported["metadata"]["actions"] == "sampled"
    assert "noise" in exported["inputs"]
    rlrun("card", "sampled", "--runs-dir", runs, "-o", tmp_path / "card", "--episodes", 10)
    results = json.loads((tmp_path / "card" / "results.json").read_text())
    assert results["seeds"][0]["episode_return_mean"] > -60.0
    assert wording("10") in (tmp_path / "card" / "README.md").read_text().splitlines()
    with Training.restore(saved, trust=True) as training:
        again = training.save(tmp_path / "again")
        assert {int(training.act(ALWAYS)) for _ in range(50)} == {0, 1}
        assert len({int(training.act(ALWAYS, "greedy")) for _ in range(50)}) == 1
    assert read_checkpoint(again).manifest["actions"] == "sampled"


def test_a_checkpoint_with_an_unknown_kind_of_actions_is_refused(runs: Path, wording) -> None:
    content = read_checkpoint(checkpoint_of(runs / "greedy"))
    altered = Content({**content.manifest, "actions": "noisy"}, content.spec, content.tensors, content.state)
    with wording.raised(CheckpointError, "noisy"):
        saved_training(altered, "saved", trust=True)


@pytest.mark.parametrize(
    ("algorithm", "env", "compared"),
    [
        (PPO(**SMALL), "CartPole-v1", True),
        (PPO(**SMALL), "Pendulum-v1", False),
        (SAC(learning_starts=10, compile=False), "CartPole-v1", True),
        (DQN(compile=False), "CartPole-v1", False),
        (Random(), "CartPole-v1", False),
        (AlphaZero(compile=False), {"world": "rlrun.toys:TicTacToe"}, False),
        (PPO(**SMALL), {"world": "rlrun.toys:TicTacToe"}, True),
        (PPO(**SMALL), {"external": {"spaces": CLIENTS}}, False),
    ],
)
def test_only_policies_with_learned_discrete_probabilities_compare_greedy_and_sampled_returns(
    algorithm: Any, env: Any, compared: bool
) -> None:
    with Training(env, algorithm) as training:
        training.start(for_training=False)
        assert training.acting.other_kind() == ("sampled" if compared else None)
        assert training.acting.other_kind("sampled") == ("greedy" if compared else None)


def test_a_metric_of_the_action_kind_not_chosen_cannot_be_a_stop_target() -> None:
    spec = {**entry("greedy"), "stop": {"evaluation/sampled/episode_return_mean": 9}}
    said = (
        "'evaluation/sampled/episode_return_mean' cannot be a target: set evaluation.actions: sampled, and "
        "use evaluation/episode_return_mean"
    )
    with pytest.raises(SpecError, match=re.escape(said)):
        parse_experiments({"try": spec})
