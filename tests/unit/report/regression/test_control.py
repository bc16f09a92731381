"""How an experiment is checked: its seeds, its budget, and a policy that does not learn as a control."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.evaluation import EvaluationResult
from rlrun.experiments.launch.checks import check_chains
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.spec.experiment import Experiment, TrialSpec
from rlrun.experiments.spec.load import load_experiments, parse_experiments, shipped_configs
from rlrun.report.regression.control import CONTROL_ITERATIONS, Gate, evaluated_metrics, frozen, gates_of, metrics_of
from rlrun.report.regression.suite import leaders, regress, to_run, with_local_data

ROOT = Path(__file__).resolve().parents[4]
PBT = {"pbt": {"interval_env_steps": 10_000, "mutations": {"lr": {"loguniform": [1e-5, 1e-2]}}}}


def experiment(expect: dict[str, Any] | None, **changes: Any) -> Experiment:
    entry = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 50_000}, "expect": expect, **changes}
    (found,) = parse_experiments({"pole": entry})
    return found


def gate(expect: dict[str, Any], *, of_seeds: int | None = None, control: bool = False, **changes: Any) -> Gate:
    (found,) = gates_of([experiment(expect, **changes)], of_seeds, control=control)
    return found


def trial_with(config: dict[str, Any], **changes: Any) -> list[TrialSpec]:
    return frozen(experiment({"episode_return_mean": 9}, config=config, **changes)).trials()


@pytest.mark.parametrize(
    ("expect", "seeds", "of_seeds", "runs", "needed"),
    [
        ({}, 1, None, [0], 1),
        ({}, [4, 5, 6], None, [4, 5, 6], 2),
        ({"seeds": 3}, [4, 5], None, [0, 1, 2], 2),
        ({"seeds": 5, "passes": 2}, 1, None, [0, 1, 2, 3, 4], 2),
        ({"passes": 3}, 3, None, [0, 1, 2], 3),
        ({}, [4, 5, 6], 5, [0, 1, 2, 3, 4], 4),
        ({"seeds": 3, "passes": 3}, 1, 5, [0, 1, 2, 3, 4], 5),
        ({"seeds": 4, "passes": 2}, 1, 1, [0], 1),
        ({"seeds": 2, "passes": 1}, 1, 3, [0, 1, 2], 2),
    ],
)
def test_seeds_and_passes_of_a_gate_come_from_expect_the_spec_or_the_command_line(
    expect: dict[str, Any], seeds: Any, of_seeds: int | None, runs: list[int], needed: int
) -> None:
    found = gate({"episode_return_mean": 9, **expect}, of_seeds=of_seeds, seeds=seeds)
    assert (list(found.experiment.seeds), found.needed) == (runs, needed)


@pytest.mark.parametrize(
    ("limits", "stop"),
    [
        ({}, {"env_steps": 50_000}),
        ({"within_env_steps": 20_000}, {"env_steps": 20_000}),
        ({"within_env_steps": 90_000}, {"env_steps": 50_000}),
        ({"within_sgd_steps": 9_000}, {"env_steps": 50_000, "sgd_steps": 9_000}),
        ({"within_seconds": 30}, {"env_steps": 50_000, "time_total_s": 30}),
        ({"within_env_steps": 20_000, "within_seconds": 0.5}, {"env_steps": 20_000, "time_total_s": 0.5}),
    ],
)
def test_training_for_a_gate_stops_when_the_budget_of_its_expect_section_is_used_up(
    limits: dict[str, Any], stop: dict[str, Any]
) -> None:
    assert gate({"episode_return_mean": 9, **limits}).experiment.stop.bounds == stop


def test_a_gate_always_saves_the_final_policy_whatever_its_spec_says() -> None:
    found = gate({"episode_return_mean": 9}, checkpoint={"at_end": False})
    assert found.experiment.checkpoint.at_end


def test_the_error_for_missing_expect_sections_names_all_experiments_without_one(wording) -> None:
    silent = [experiment(None), experiment(None).replace(name="cart")]
    with wording.raised(UsageError):
        gates_of([experiment({"episode_return_mean": 9}).replace(name="mute"), *silent], None, control=False)


def test_a_gate_that_requires_more_passes_than_it_has_seeds_is_rejected(wording) -> None:
    with wording.raised(UsageError, "seeds", "expect"):
        gate({"episode_return_mean": 9, "passes": 2})


@pytest.mark.parametrize("how", [{"searcher": "optuna"}, {"scheduler": "asha"}])
def test_an_experiment_with_a_searcher_or_an_early_stopping_scheduler_cannot_be_a_gate(
    how: dict[str, Any], wording
) -> None:
    kind = next(iter(how.values()))
    with wording.raised(UsageError, kind):
        gate({"episode_return_mean": 9}, config={"lr": {"loguniform": [1e-4, 1e-2]}}, num_samples=2, **how)


def test_a_control_does_not_learn_whatever_learning_rate_its_spec_sets() -> None:
    for lr in (
        1e-3,
        [[0, 1e-3], [1000, 0.0]],
        {"adaptive_kl": 0.01},
        {"grid_search": [1e-3, 1e-4]},
        {"loguniform": [1e-4, 1e-2]},
    ):
        (trial,) = trial_with({"lr": lr}, num_samples=1)
        assert (trial.config.lr, trial.config.compile) == (0.0, False)


def test_a_control_is_judged_only_by_its_last_evaluation() -> None:
    expect = {"episode_return_mean": 9, "last_evaluations": 5}
    found = [gate(expect, control=control, evaluation={"every": 2}) for control in (False, True)]
    assert [each.expect.last_evaluations for each in found] == [5, 1]


def test_a_control_keeps_all_search_spaces_except_that_of_the_learning_rate() -> None:
    trials = trial_with({"lr": {"grid_search": [1e-3, 1e-4]}, "gamma": {"grid_search": [0.9, 0.99]}})
    assert [trial.config.gamma for trial in trials] == [0.9, 0.99]
    drawn = trial_with({"gamma": {"uniform": [0.9, 0.99]}}, num_samples=3)
    assert len({trial.config.gamma for trial in drawn}) == 3


def test_a_control_with_no_search_space_except_the_learning_rate_runs_once_per_seed() -> None:
    trials = trial_with({"lr": {"loguniform": [1e-4, 1e-2]}}, num_samples=7, seeds=2)
    assert [trial.seed for trial in trials] == [0, 1]


def test_a_control_of_a_population_has_no_scheduler_as_one_could_change_the_learning_rate() -> None:
    found = frozen(experiment({"episode_return_mean": 9}, scheduler=PBT, num_samples=4))
    assert found.scheduler is None
    assert [trial.config.lr for trial in found.trials()] == [0.0]


def test_a_control_is_short_if_its_gate_can_be_judged_by_an_evaluation_alone() -> None:
    short = gate({"episode_return_mean": 9, "evaluation/episode_len_mean": 9}, control=True, evaluation={})
    assert short.experiment.stop.bounds == {"env_steps": 50_000, "iteration": CONTROL_ITERATIONS}
    success = gate({"evaluation/info/is_success": 0.9}, control=True, evaluation={})
    assert success.experiment.stop.bounds["iteration"] == CONTROL_ITERATIONS
    whole = gate({"episode_return_mean": 9, "info/wins": 0.5}, control=True)
    assert whole.experiment.stop.bounds == {"env_steps": 50_000}


def test_a_control_is_short_if_its_gate_is_judged_by_a_column_that_the_env_records() -> None:
    env = {"id": "CartPole-v1", "columns": ["won"]}
    short = gate({"episode_columns/won_mean": 0.5}, control=True, env=env)
    assert short.experiment.stop.bounds["iteration"] == CONTROL_ITERATIONS


def test_a_control_is_short_if_its_gate_is_judged_by_games_against_an_opponent() -> None:
    (tic_tac_toe,) = load_experiments([Path("configs/worlds/tic_tac_toe_ppo.yaml")])
    (found,) = gates_of([tic_tac_toe], None, control=True)
    assert found.experiment.stop.bounds == {"agent_steps": 100_000, "iteration": CONTROL_ITERATIONS}


def test_a_control_has_its_own_run_name_and_keeps_the_name_of_its_gate() -> None:
    found = gate({"episode_return_mean": 9}, control=True)
    assert (found.name, found.experiment.name) == ("pole", "pole-control")


def test_evaluated_returns_are_reported_under_the_names_of_both_training_and_evaluation_metrics() -> None:
    found = metrics_of(EvaluationResult([1.0, 3.0], [10, 30], infos={"is_success": [0.0, 1.0]}))
    assert found.pop("evaluation/info/is_success") == 0.5  # gates judge info/is_success by the training episodes
    assert found["episode_return_mean"] == found["evaluation/episode_return_mean"] == 2.0
    assert found["episode_len_mean"] == 20.0
    assert set(found) == evaluated_metrics()


def member(
    name: str, population: int, score: float | None, status: str = "TERMINATED"
) -> tuple[TrialResult, TrialSpec]:
    (spec, *_) = experiment({"episode_return_mean": 9}).trials()
    row = {"episode_return_mean": score}
    result = TrialResult(name, Path(name), "pole", status, last_result=row)  # type: ignore[arg-type]
    return result, spec.replace(name=name, population=population)


def test_a_population_is_judged_by_its_best_member() -> None:
    members = [member("a", 0, 1.0), member("b", 0, 3.0), member("c", 0, None), member("d", 1, 5.0), member("e", 1, 2.0)]
    assert [trial.name for trial, _ in leaders(members, "episode_return_mean", "max")] == ["b", "d"]
    assert [trial.name for trial, _ in leaders(members, "episode_return_mean", "min")] == ["a", "e"]


def test_a_population_with_a_failed_member_is_judged_by_that_member() -> None:
    members = [member("a", 0, 1.0, "ERROR"), member("b", 0, 3.0)]
    assert [trial.name for trial, _ in leaders(members, "episode_return_mean", "max")] == ["a"]


@pytest.mark.parametrize("path", sorted((ROOT / "configs" / "regression").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_regression_spec_is_a_gate_over_three_seeds(path: Path) -> None:
    (found,) = gates_of(load_experiments([path]), None, control=False)
    assert len(found.experiment.seeds) == 3
    assert found.expect.within_env_steps is not None


def test_no_shipped_spec_has_a_gate_with_a_time_limit_that_a_loaded_machine_could_miss() -> None:
    assert [path for path in shipped_configs() if "within_seconds" in path.read_text(encoding="utf-8")] == []


IQL = {"algorithm": "iql", "config": {"input": [{"path": "swings", "share": 0.5}]}, "stop": {"env_steps": 9}}


def chain(**stages: dict[str, Any]) -> list[Experiment]:
    """Returns stages that record, learn from the recording and are judged, with changes or additional stages."""
    expect = {"episode_return_mean": -200, "seeds": 2}
    usual: dict[str, dict[str, Any]] = {
        "recorded": {"algorithm": "sac", "output": "swings", "stop": {"env_steps": 9}},
        "offline": {"algorithm": "iql", "config": {"input": "swings"}, "stop": {"sgd_steps": 9}},
        "online": {**IQL, "expect": expect},
    }
    merged = {name: {**usual.get(name, {}), **stages.get(name, {})} for name in (*usual, *stages)}
    return parse_experiments({"swing": {"env": "Pendulum-v1", "stages": merged}})


def running(experiments: list[Experiment], *, of_seeds: int | None = None, control: bool = False) -> list[Experiment]:
    return to_run(experiments, gates_of(experiments, of_seeds, control=control), control=control)


def test_stages_before_a_judged_stage_run_with_its_seeds_and_are_not_judged() -> None:
    experiments = chain()
    assert [gate.name for gate in gates_of(experiments, None, control=False)] == ["swing.online"]
    for of_seeds, seeds in ((None, (0, 1)), (3, (0, 1, 2))):
        found = running(experiments, of_seeds=of_seeds)
        assert [(each.name, each.seeds) for each in found] == [(each.name, seeds) for each in experiments]


def test_branches_of_a_chain_that_lead_to_no_judged_stage_are_left_out() -> None:
    side = {**IQL, "begins": {"after": "swing.recorded"}}
    found = running(chain(side=side, after={**IQL, "begins": {"after": "swing.side"}}))
    assert [each.name for each in found] == ["swing.recorded", "swing.offline", "swing.online"]


def test_the_error_for_a_chain_without_an_expect_section_names_all_its_stages(wording) -> None:
    with wording.raised(UsageError, "swing.recorded", "swing.offline", "swing.online"):
        gates_of([experiment({"episode_return_mean": 9}), *chain(online={"expect": None})], None, control=False)


def test_a_control_freezes_only_the_judged_stage_and_earlier_stages_still_learn() -> None:
    experiments = chain()
    found = running(experiments, control=True)
    check_chains(found)
    assert [each.name for each in found] == [f"{each.name}-control" for each in experiments]
    *before, judged = [each.first_trial().config for each in found]
    assert [config.lr for config in before] == [each.config.lr for each in experiments[:2]]
    assert judged.lr == 0.0


def test_data_sets_of_a_chain_get_unused_names_in_the_folder_of_runs_and_later_stages_read_them(tmp_path: Path) -> None:
    for number in ("", "-2"):
        place = f"{tmp_path}/swing.recorded-data{number}"
        recorded, offline, online = with_local_data(running(chain()), tmp_path)
        assert [trial.output for trial in recorded.trials()] == [f"{place}/00{seed}-seed={seed}" for seed in (0, 1)]
        for reader, share in ((offline, 1.0), (online, 0.5)):
            again = parse_experiments({reader.name: reader.to_data()})[0]  # as a resume reads it
            for each in (reader, again):
                read = [trial.config.to_data()["input"] for trial in each.trials()]
                assert read == [[{"path": f"{place}/00{seed}-seed={seed}", "share": share}] for seed in (0, 1)]
        (single, *_) = with_local_data(running(chain(), of_seeds=1), tmp_path / "alone")
        assert single.first_trial().output == f"{tmp_path}/alone/swing.recorded-data{number}"


def test_a_chain_is_judged_by_its_last_stage_and_leaves_nothing_outside_the_folder_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloned = {"input": "seen", "sgd_steps_per_iteration": 1, "minibatch_size": 8, "model": {"hiddens": [2]}}
    stages = {
        "recorded": {
            "algorithm": "random",
            "output": "seen",
            "config": {"min_env_steps_per_iteration": 8},
            "stop": {"env_steps": 32},
        },
        "cloned": {
            "algorithm": "bc",
            "begins": {"weights": False},
            "config": cloned,
            "stop": {"sgd_steps": 1},
            "expect": {"episode_return_mean": 5, "seeds": 2},
        },
    }
    monkeypatch.chdir(tmp_path)
    experiments = parse_experiments({"pole": {"env": "CartPole-v1", "stages": stages}})
    (verdict,) = regress(experiments, runs_dir=Path("runs"), executor="local")
    assert (verdict.experiment, verdict.message) == ("pole.cloned", "")
    assert [case.seed for case in verdict.cases] == [0, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
