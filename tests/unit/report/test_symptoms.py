from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from gymnasium.spaces import Box

import rlrun
from rlrun.cli.main import cli
from rlrun.cli.outcome import next_steps
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.functional.reward_scale import UNSCALED
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.runs.trial_result import Columns, TrialResult
from rlrun.report.diagnosis.diagnose import diagnose
from rlrun.report.diagnosis.evidence import DataReturns, Evidence, continued_returns, data_returns
from rlrun.report.diagnosis.run_diagnosis import diagnose_run

BOX = Box(-1, 1, (2,))


def written(folder: Path, rewards: list[list[float]], terminated: list[bool], actions: float = 1.0) -> Path:
    """Writes a data set of random observations and random actions within a bound; NaN rewards become the action."""
    random = np.random.default_rng(0)
    with SetWriter(folder, BOX, BOX) as writer:
        for own, ends in zip(rewards, terminated, strict=True):
            steps = len(own)
            last = np.arange(steps) == steps - 1
            acted = random.uniform(-actions, actions, (steps, 2)).astype(np.float32)
            writer.add_episode(
                {
                    "obs": random.uniform(-1, 1, (steps + 1, 2)).astype(np.float32),
                    "actions": acted,
                    "rewards": np.where(np.isnan(own), acted[:, 0], own),
                    "terminateds": last & ends,
                    "truncateds": last & (not ends),
                }
            )
    return folder


def test_returns_of_truncated_episodes_are_extrapolated_using_their_mean_reward(tmp_path: Path) -> None:
    data = DataSet(written(tmp_path / "data", [[1.0, 2.0], [1.0, 3.0]], [True, False]))
    # The second episode continues with 2 per step, so it is worth 2 / (1 - 0.5) = 4 after its end.
    np.testing.assert_allclose(continued_returns(data, 0.5, UNSCALED), [2.0, 2.0, 1 + 0.5 * (3 + 0.5 * 4), 3 + 0.5 * 4])
    np.testing.assert_allclose(continued_returns(data, 1.0, UNSCALED), [3.0, 2.0, 4.0, 3.0])
    config = {"input": [{"path": str(data.folder)}], "gamma": 0.5, "clip_rewards": None}
    assert data_returns(config) == DataReturns(3.125, 5.0)
    assert data_returns({**config, "input": [{"path": str(tmp_path / "gone")}]}) is None


def symptoms_of(folder: Path, algorithm: str, data: Path, **config: Any) -> list[str]:
    """Learns from data, and returns the names of the findings."""
    small = {"model": {"hiddens": [8]}, "sgd_steps_per_iteration": 20, "minibatch_size": 16, "input": str(data)}
    spec = {"algorithm": algorithm, "config": {**small, **config}, "stop": {"sgd_steps": 200}}
    rlrun.run({"patient": spec}, runs_dir=folder, executor="local")
    found = diagnose_run(folder / "patient", 2, is_trusted=True)
    assert (found.env_check, found.random) == ("none", None)  # there is no env to play
    return [finding.name for finding in found.findings]


@pytest.mark.parametrize(("weight", "is_found"), [(0.0, True), (5.0, False)])
def test_values_above_the_returns_of_the_data_are_a_finding_unless_learning_is_conservative(
    weight: float, is_found: bool, tmp_path: Path
) -> None:
    data = written(tmp_path / "data", [[math.nan] * 8] * 20, [False] * 20, actions=0.1)
    fast = {"tau": 1.0, "target_update_interval": 5, "critic_lr": 1e-2, "lr": 1e-2, "gamma": 0.9}
    found = symptoms_of(tmp_path, "cql", data, conservative_weight=weight, **fast)
    assert ("values above the data's returns" in found) == is_found


def test_a_policy_that_chooses_actions_outside_the_data_is_a_finding(tmp_path: Path, wording) -> None:
    data = written(tmp_path / "data", [[0.0, 1.0]] * 40, [True] * 40, actions=0.05)
    found = symptoms_of(tmp_path, "td3_bc", data, value_weight=1000.0, lr=1e-2)
    assert "actions outside the data" in found
    (trial,) = RunDirectory.open(tmp_path / "patient").results()
    assert next_steps([trial])[1] == wording("20")  # the run has no env, so the command asks for one
    told = CliRunner().invoke(cli, ["diagnose", "patient", "--runs-dir", str(tmp_path)]).output
    assert told == wording("td3_bc")
    listed = CliRunner().invoke(cli, ["runs", "--runs-dir", str(tmp_path)]).output.split("\n")
    assert [row.split()[-4:-3] for row in listed[1:2]] == [["200"]], listed


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({"learner/critics/q_mean": [1.0, 9.0, 9.0, 9.0]}, ["values above the data's returns"]),
        ({"learner/critics/q_mean": [0.0, 7.0, 7.5, 8.0]}, []),  # as large as the best return in the data
        ({"learner/critics/q_mean": [99.0, 50.0, 30.0, 20.0]}, []),  # too large, but still falling
        ({"learner/actor/outside": [0.0, 0.4, 0.6]}, ["actions outside the data"]),
        ({"learner/actor/clipped": [0.0, 0.1, 0.6]}, ["saturated weights"]),
        ({"clipped": [0.0, 0.1, 0.6]}, ["saturated weights"]),
        ({"learner/actor/effective": [0.9, 0.02]}, ["few weights count"]),
        ({"effective": [0.9, 0.02]}, ["few weights count"]),
        ({"learner/entropy": [0.6, 0.001]}, []),  # a clone is as sure as its expert
    ],
)
def test_metrics_of_learning_from_data_outside_their_usual_range_are_findings(
    rows: dict[str, list[float]], expected: list[str]
) -> None:
    length = len(next(iter(rows.values())))
    columns = {name: np.array(values) for name, values in rows.items()}
    columns |= {"env_steps": np.zeros(length), "sgd_steps": np.arange(1, length + 1) * 1e3}
    trial = TrialResult("000", Path("run", "000"), "e", "TERMINATED", seed=0, configuration=0)
    trial.__dict__["columns"] = Columns(columns, tuple(columns))
    config = {"max_grad_norm": 0.5, "lr": 1e-3, "beta": 1.0, "conservative_weight": 5.0}
    found = diagnose([Evidence(trial, config, None, recorded=DataReturns(3.0, 8.0))], [])
    assert [finding.name for finding in found] == expected
    assert all(finding.advice for finding in found)


BRANCHING = """
from rlrun.algorithms.ppo import PPO


class Own(PPO):
    def loss(self, outputs, batch, scheduled):
        outputs.values.mean().item()
        return super().loss(outputs, batch, scheduled)
"""


def test_updates_of_a_custom_algorithm_that_kernels_cannot_compute_are_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "reading_plugin.py").write_text(BRANCHING)
    small = {"train_batch_size": 32, "minibatch_size": 32, "num_epochs": 1, "model": {"hiddens": [8]}}
    own = {"env": "CartPole-v1", "algorithm": "reading_plugin:Own", "config": small, "stop": {"iteration": 1}}
    (trial,) = rlrun.run({"own": own}, runs_dir=tmp_path, executor="local")
    finding = diagnose_run(tmp_path / "own", 2, is_trusted=False).findings[-1]
    assert finding.name == "slow updates"
    assert finding.found.endswith("at reading_plugin.py:7")
    assert finding.trials == (trial.name,)
