"""``rlrun oracle``: tables of exact values, and of the values that a checkpoint has learned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlrun import PPO, QLearning, Training
from rlrun.cli.main import cli
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.training.assemble.policies import Policies


def told(*words: object) -> str:
    done = CliRunner().invoke(cli, ["oracle", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_exact_values_are_shown_for_a_spec(tmp_path: Path) -> None:
    spec = tmp_path / "ice.yaml"
    spec.write_text("ice: {algorithm: dqn, env: FrozenLake-v1, stop: {env_steps: 100}, config: {gamma: 1.0}}\n")
    lines = told(spec).splitlines()
    assert lines[0].split() == ["state", "V*", "Q*(0)", "Q*(1)", "Q*(2)", "Q*(3)"]
    assert lines[-1].split() == ["optimal", "policy", "(gamma", "1)", "0.7442"]


def test_gaps_between_learned_and_exact_values_are_shown_for_a_checkpoint(tmp_path: Path) -> None:
    with Training("FrozenLake-v1", QLearning(min_env_steps_per_iteration=100)) as training:
        training.step()
        saved = training.save(tmp_path / "saved")
    text = told(saved)
    assert "learned V" in text.splitlines()[0]
    assert "policy gap" in text
    found = json.loads(told(saved, "--json"))
    assert found["policy_gap"] == pytest.approx(found["optimal_value"] - found["policy_value"])
    assert found["states"] == [0, 1, 2, 3, 4, 6, 8, 9, 10, 13, 14]


def test_the_satisfaction_probability_is_shown_for_a_task_automaton(tmp_path: Path) -> None:
    """Reach the goal on the ice: the best probability is the best undiscounted return."""
    spec = tmp_path / "task.yaml"
    spec.write_text(
        """
ice:
  algorithm: dqn
  env:
    id: FrozenLake-v1
    wrappers:
      - {id: "rlrun.plugin:StateLabels", kwargs: {labels: {goal: [15]}}}
      - id: rlrun.plugin:TaskAutomaton
        kwargs:
          automaton:
            states: [going, there]
            transitions: [{source: going, target: there, when: [goal]}]
            accepting: [[there]]
  stop: {env_steps: 100}
"""
    )
    assert told(spec).splitlines()[1].split() == ["optimal", "policy", "0.7442"]
    assert json.loads(told(spec, "--json"))["policy_satisfaction"] is None


def test_exploitability_is_shown_for_a_game(tmp_path: Path, wording) -> None:
    policies = Policies(
        {"main": PPO(model={"hiddens": [4]}, compile=False)}, WorldSamplingSettings(), mapping={"*": "main"}
    )
    with Training(EnvConfig(world="rlrun.toys:Kuhn"), policies, seed=0) as training:
        saved = training.save(tmp_path / "saved")
    text = told(saved)
    assert text == wording("NashConv")
    found = json.loads(told(saved, "--json"))["exploitability"]
    assert 0.4 < found < 0.5  # the policy has learned nothing yet
    assert float(text.split()[-1]) == pytest.approx(found, abs=1e-3)
