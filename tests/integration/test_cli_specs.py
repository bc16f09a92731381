"""The commands that find and create specs, and the commands that tidy up runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlrun.experiments.launch.checks import check_envs
from rlrun.experiments.spec.load import load_experiments, shipped_configs
from tests.command import rlrun

pytestmark = pytest.mark.usefixtures("own_folder")

ROOT = Path(__file__).resolve().parents[2]


def write_run(name: str, status: str, best: float | None) -> None:
    """Writes the files of a run as another process would leave them."""
    trial = Path("runs") / name / "000-seed=0"
    trial.mkdir(parents=True)
    (trial.parent / "run.json").write_text(
        json.dumps({"version": 1, "experiment": "e", "trials": ["000-seed=0"], "import_paths": []})
    )
    record = {"name": "000-seed=0", "status": status, "seed": 0, "params": {}, "best_return": best, "env_steps": 10}
    (trial / "trial.json").write_text(json.dumps(record))


def names(*words: str) -> list[str]:
    return [run["name"] for run in json.loads(rlrun("runs", "--json", *words).stdout)["runs"]]


def test_a_shipped_spec_is_found_by_name_outside_a_checkout() -> None:
    for name in ("cartpole/ppo", "cartpole/ppo.yaml", "configs/cartpole/ppo.yaml"):
        result = rlrun("train", name, "--dry-run", "--json")
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["experiments"][0]["name"] == "cartpole-ppo"
    assert rlrun("train", "-f", "cartpole/ppo", "--dry-run").exit_code == 0


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("cartpole/cmaess", "cartpole/cmaes"),
        ("cartpol/ppo.yaml", "cartpole/ppo"),
        ("configs/frozen_lak/q_learning.yaml", "frozen_lake/q_learning"),
    ],
)
def test_the_error_for_a_misspelled_shipped_spec_suggests_the_closest_name(typed: str, near: str, wording) -> None:
    result = rlrun("train", typed, "--dry-run")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == wording(typed, near)


def test_the_error_for_a_missing_file_lists_all_shipped_specs_of_that_name(wording) -> None:
    result = rlrun("train", "-f", "td3.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    namesakes = sorted(f"{path.parent.name}/td3" for path in shipped_configs() if path.stem == "td3")
    assert len(namesakes) > 1
    assert result.stderr == wording(", ".join(namesakes), "td3.yaml")


def test_a_local_file_takes_precedence_over_a_shipped_spec_of_the_same_name() -> None:
    Path("cartpole").mkdir()
    Path("cartpole/ppo.yaml").write_text("mine: {algorithm: ppo, env: CartPole-v1, stop: {env_steps: 1}}\n")
    assert [experiment.name for experiment in load_experiments(["cartpole/ppo.yaml"])] == ["mine"]


def test_the_command_examples_lists_every_shipped_spec_and_searches_all_columns() -> None:
    rows = json.loads(rlrun("examples", "--json").stdout)["specs"]
    assert {row["spec"] for row in rows} == {f"{path.parent.name}/{path.stem}" for path in shipped_configs()}
    (row,) = json.loads(rlrun("examples", "cartpole/ppo_dict", "--json").stdout)["specs"]
    assert row["algorithm"] == "ppo"
    assert {row["env"] for row in json.loads(rlrun("examples", "pendulum", "--json").stdout)["specs"]} == {
        "Pendulum-v1",
        "InvertedPendulum-v5",
    }


def test_the_command_examples_lists_targets_without_the_evaluation_rules(wording) -> None:
    (row,) = json.loads(rlrun("examples", "dqn_rainbow", "--json").stdout)["specs"]
    assert row["must reach"] == wording("episode_return_mean", "within_env_steps", "400")


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("watch", "`rlrun status RUN --watch`"),
        ("external", "`rlrun client`"),
        ("wandb", "loggers: [wandb]"),
    ],
)
def test_the_error_for_an_unknown_command_suggests_an_alternative(command: str, answer: str) -> None:
    result = rlrun(command)
    assert result.exit_code == 2
    assert answer in result.stderr


def test_the_error_for_the_unknown_option_steps_suggests_stop_env_steps(wording) -> None:
    result = rlrun("train", "cartpole/ppo", "--steps", "5000")
    assert result.exit_code == 2
    assert wording("--steps", "stop.env_steps") in result.stderr.splitlines()


def test_regress_accepts_spec_files_with_and_without_the_option_f(wording) -> None:
    assert wording("my.yaml") in rlrun("regress").stderr.splitlines()
    for words in (["t.yaml"], ["-f", "t.yaml"]):
        result = rlrun("regress", *words)
        assert (result.exit_code, result.stderr) == (2, wording("t.yaml"))


@pytest.mark.parametrize("words", [[], ["--env", "CartPole-v1"], ["--algorithm", "ppo"]])
def test_init_requires_both_an_algorithm_and_an_env(words: list[str], wording) -> None:
    done = rlrun("init", *words)
    assert done.exit_code == 2
    assert wording("--algorithm and --env") in done.stderr.splitlines()


def test_init_writes_a_valid_spec_and_never_overwrites_a_file() -> None:
    assert rlrun("init", "--algorithm", "sac", "--env", "Acrobot-v1").exit_code == 0
    (experiment,) = load_experiments(["acrobot-v1-sac.yaml"])
    assert (experiment.name, experiment.algorithm, experiment.env.id) == ("acrobot-v1-sac", "sac", "Acrobot-v1")
    assert experiment.evaluation is not None
    again = rlrun("init", "--algorithm", "sac", "--env", "Acrobot-v1")
    assert again.exit_code == 2
    assert "acrobot-v1-sac.yaml exists" in again.stderr


@pytest.mark.parametrize(
    ("env", "algorithm"),
    [("mpe2.simple_spread_v3", "ppo"), ("rlrun.toys:CartPoles", "dqn"), ("Acrobot-v1", "es")],
)
def test_init_writes_a_trainable_spec_for_every_kind_of_env(env: str, algorithm: str) -> None:
    assert rlrun("init", "--algorithm", algorithm, "--env", env).exit_code == 0
    (file,) = Path().glob("*.yaml")
    (experiment,) = load_experiments([file])
    assert (experiment.env.id, experiment.algorithm) == (env, algorithm)
    check_envs([experiment])


@pytest.mark.parametrize(
    ("env", "algorithm", "reason"),
    [
        ("Pendulum-v1", "DQN", "Box"),
        ("Pendulum-v1", "r2d3", "Box"),
        ("mpe2.simple_spread_v3", "es", ""),
    ],
)
def test_init_refuses_an_algorithm_that_cannot_learn_in_the_env(env: str, algorithm: str, reason: str) -> None:
    result = rlrun("init", "--algorithm", algorithm, "--env", env)
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.stderr
    assert not [*Path().iterdir()]


@pytest.mark.parametrize("algorithm", ["marwil", "rlpd"])
def test_init_writes_an_offline_spec_and_validate_asks_for_the_data(algorithm: str, wording) -> None:
    env = "Acrobot-v1" if algorithm == "marwil" else "Pendulum-v1"
    assert rlrun("init", "--algorithm", algorithm, "--env", env).exit_code == 0
    (file,) = Path().glob("*.yaml")
    assert f"stop: {{{'sgd' if algorithm == 'marwil' else 'env'}_steps: " in file.read_text()
    result = rlrun("validate", str(file))
    assert result.exit_code == 2
    assert result.output == wording("config.input")


def test_init_leaves_a_placeholder_for_an_unknown_expected_return() -> None:
    assert rlrun("init", "--algorithm", "ppo", "--env", "FrozenLake-v1").exit_code == 0
    assert "expect: {episode_return_mean: GOAL}" in Path("frozenlake-v1-ppo.yaml").read_text()


def test_init_writes_required_settings_as_null_and_validate_asks_for_their_values(wording) -> None:
    assert rlrun("init", "--algorithm", "r2d3", "--env", "CartPole-v1").exit_code == 0
    lines = Path("cartpole-v1-r2d3.yaml").read_text().splitlines()
    line = lines.index("    demonstrations: null") + 1
    told = rlrun("validate", "cartpole-v1-r2d3.yaml")
    assert told.exit_code == 2
    assert told.output == wording(
        line, "cartpole-v1-r2d3.yaml", "cartpole-v1-r2d3.config.demonstrations", "rlrun demonstrate"
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_the_error_for_an_experiment_that_cannot_learn_in_its_env_names_it_and_its_file(as_json: bool) -> None:
    Path("swing.yaml").write_text("swing: {algorithm: mbmpo, env: FrozenLake-v1, stop: {env_steps: 9}}\n")
    told = rlrun("validate", "--env", "swing.yaml", *["--json"] * as_json)
    why = "learned dynamics need vector observations (a Box with one axis), not Discrete(16)"
    assert told.exit_code == 2
    if as_json:
        (problem,) = json.loads(told.stdout)["error"]["problems"]
        assert problem == {"path": "swing", "message": why, "file": "swing.yaml", "line": 0, "column": 0}
    else:
        assert told.stderr.strip() == f"swing.yaml: swing: {why}"


def test_init_copies_a_matching_shipped_spec_if_there_is_one(wording) -> None:
    done = rlrun("init", "--algorithm", "ppo", "--env", "CartPole-v1")
    assert (done.exit_code, done.stderr.splitlines()[-1].rpartition(": ")[2]) == (0, wording("rlrun.schema.json"))
    for_editors = "# yaml-language-server: $schema=rlrun.schema.json\n"
    shipped = (ROOT / "configs/cartpole/ppo.yaml").read_text()
    assert Path("cartpole-v1-ppo.yaml").read_text() == for_editors + shipped


def test_runs_are_sorted_filtered_and_limited() -> None:
    for name, status, best in (("a", "TERMINATED", 1.0), ("b", "ERROR", None), ("c", "TERMINATED", 3.0)):
        write_run(name, status, best)
    assert names("--sort", "name") == ["a", "b", "c"]
    assert names("--sort", "best") == ["c", "a", "b"]
    assert names("--sort", "best", "--limit", "1") == ["c"]
    assert names("--status", "error") == ["b"]


def test_a_run_is_deleted_only_after_confirmation(wording) -> None:
    write_run("a", "TERMINATED", 1.0)
    kept = rlrun("runs", "--delete", "a", stdin="n\n")
    assert (kept.exit_code, kept.stdout) == (0, "")
    assert kept.stderr == wording("runs/a", "y/N")
    assert names() == ["a"]
    assert rlrun("runs", "--delete", "a", stdin="y\n").exit_code == 0
    assert names() == []
    assert rlrun("runs", "--delete", "a", "--yes").exit_code == 2


def test_a_run_is_not_deleted_without_an_answer_on_stdin(wording) -> None:
    write_run("a", "TERMINATED", 1.0)
    done = rlrun("runs", "--delete", "a", stdin="")
    assert done.exit_code == 2
    assert done.stderr == wording()
    assert names() == ["a"]


def test_a_deletion_is_reported_as_json() -> None:
    write_run("a", "TERMINATED", 1.0)
    for answer, words, is_deleted in (("n\n", [], False), ("", ["--yes"], True)):
        done = rlrun("runs", "--delete", "a", "--json", *words, stdin=answer)
        assert done.exit_code == 0
        assert json.loads(done.stdout) == {"schema": 1, "name": "a", "directory": "runs/a", "deleted": is_deleted}


def test_a_status_without_runs_is_reported_and_an_unknown_status_is_refused(wording) -> None:
    for name in ("a", "b"):
        write_run(name, "TERMINATED", 1.0)
    none = rlrun("runs", "--status", "Running")
    assert (none.exit_code, none.stdout) == (0, wording())
    wrong = rlrun("runs", "--status", "runing")
    assert wrong.exit_code == 2
    assert wrong.stderr == wording("running")


def test_status_names_an_existing_run_and_lists_where_it_looked_for_a_missing_one(tmp_path: Path) -> None:
    write_run("second-try", "TERMINATED", 1.0)
    assert rlrun("status", "second-try").stdout.startswith("second-try: ended")
    missing = rlrun("status", "secnd-try")
    assert missing.exit_code == 2
    assert f"in the current folder ({tmp_path}) or in {tmp_path}/runs; did you mean 'second-try'?" in missing.stderr
