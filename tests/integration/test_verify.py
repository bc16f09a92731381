"""`rlrun verify` on real training: digests are written, a second training matches them, and changes are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rlrun.cli.main import cli
from rlrun.experiments.spec.load import load_experiments, shipped_configs
from rlrun.report.verification import digest_file, read_digests, settings_digest

SPEC = """
match:
  algorithm: ppo
  env: rlrun.toys:MultiDiscreteMatch
  seeds: [3, 4]
  stop: {iteration: 3}
  config: {num_envs_per_worker: 8, train_batch_size: 64, minibatch_size: 32, num_epochs: 1,
           min_env_steps_per_iteration: 0}
"""


def verify(folder: Path, *words: object) -> Result:
    call = ["verify", *words, "--quiet", "--runs-dir", folder / "runs"]
    return CliRunner().invoke(cli, [str(word) for word in call])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spec whose digests have been written."""
    spec = tmp_path_factory.mktemp("verify") / "match.yaml"
    spec.write_text(SPEC)
    result = verify(spec.parent, spec, "--write")
    assert result.exit_code == 0, result.output
    return spec


def changed(written: Path, folder: Path, **changes: Any) -> Path:
    """Returns a copy of the spec with other digests."""
    spec = folder / "match.yaml"
    spec.write_text(SPEC)
    digests = json.loads(written.with_name("match.digest.json").read_text())
    spec.with_name("match.digest.json").write_text(json.dumps({**digests, **changes}))
    return spec


def test_retraining_the_first_seed_reproduces_its_digests(written: Path) -> None:
    digests = json.loads(written.with_name("match.digest.json").read_text())
    assert (digests["seed"], len(digests["rows"]), len({*digests["rows"], digests["weights"]})) == (3, 3, 4)
    result = verify(written.parent, written, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["is_equal"], found["first_differing_row"], found["causes"]) == (True, None, [])


def test_the_first_row_that_differs_is_reported_with_likely_causes(written: Path, tmp_path: Path) -> None:
    digests = json.loads(written.with_name("match.digest.json").read_text())
    rows = [digests["rows"][0], "0" * 16, digests["rows"][2]]
    made_with = {**digests["made_with"], "updates": "NumPy", "NumPy": "0.1"}
    spec = changed(written, tmp_path, rows=rows, made_with=made_with)
    result = verify(tmp_path, spec)
    assert result.exit_code == 1
    first, cause, other = result.stdout.splitlines()
    assert "row 2 of 3, at 120 env steps" in first
    assert cause.startswith("likely cause: updates: ")
    assert other.startswith("also: NumPy: ")


def test_final_weights_that_differ_from_the_digest_are_reported(written: Path, tmp_path: Path) -> None:
    result = verify(tmp_path, changed(written, tmp_path, weights="0" * 16))
    assert result.exit_code == 1
    assert "final weights differ" in result.stdout


def test_verifying_a_spec_without_digests_says_how_to_write_them(tmp_path: Path) -> None:
    (tmp_path / "match.yaml").write_text(SPEC)
    result = verify(tmp_path, tmp_path / "match.yaml")
    assert result.exit_code == 2
    assert "--write" in result.stderr


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 99}', '{"format": 1, "seed": -1}'])
def test_the_error_for_a_digest_file_without_valid_digests_names_the_file(
    written: Path, tmp_path: Path, content: str
) -> None:
    spec = changed(written, tmp_path)
    spec.with_name("match.digest.json").write_text(content)
    result = verify(tmp_path, spec)
    assert result.exit_code == 2
    assert str(spec.with_name("match.digest.json")) in result.stderr


def test_verifying_a_sweep_or_several_experiments_is_refused(written: Path, tmp_path: Path) -> None:
    spec = changed(written, tmp_path)
    spec.write_text(SPEC.replace("num_epochs: 1", "num_epochs: {grid_search: [1, 2]}"))
    sweep = verify(tmp_path, spec)
    spec.write_text(SPEC + SPEC.replace("match:", "rematch:"))
    two = verify(tmp_path, spec)
    assert (sweep.exit_code, two.exit_code) == (2, 2)
    assert "one trial" in sweep.stderr
    assert "match, rematch" in two.stderr


def test_published_digests_match_the_settings_of_the_shipped_specs() -> None:
    """After a change to one of these specs, run `rlrun verify SPEC --write` to publish its new results."""
    specs = [path for path in shipped_configs() if digest_file(path).exists()]
    assert len(specs) >= 10
    for spec in specs:
        (experiment,) = load_experiments([spec])
        assert read_digests(digest_file(spec)).made_with["spec"] == settings_digest(experiment), spec


def test_the_error_for_a_misspelled_shipped_spec_suggests_the_right_name(tmp_path: Path) -> None:
    result = verify(tmp_path, "cartpole/pppo")
    assert result.exit_code == 2
    assert "'cartpole/ppo'" in result.stderr


QUICK = ("cartpole/cem", "cartpole/ppo")
SLOW = (
    "acrobot/ppo",
    "cartpole/a2c",
    "cartpole/ppo_lstm_position_only",
    "cartpole/pqn",
    "pendulum/ddpg",
    "pendulum/ppo",
    "pendulum/sac",
    "regression/dqn_cartpole",
)


@pytest.mark.parametrize("spec", [*QUICK, *(pytest.param(spec, marks=pytest.mark.regress) for spec in SLOW)])
def test_training_a_shipped_spec_reproduces_its_digests(spec: str, tmp_path: Path) -> None:
    result = verify(tmp_path, spec)
    assert result.exit_code == 0, result.output


def test_every_shipped_file_of_digests_is_verified() -> None:
    found = [path for path in shipped_configs() if digest_file(path).exists()]
    assert sorted(f"{path.parent.name}/{path.stem}" for path in found) == sorted([*QUICK, *SLOW])
