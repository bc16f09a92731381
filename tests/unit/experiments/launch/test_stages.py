"""Stages: chains of experiments per seed, what a stage starts from, mistakes at their lines, resumes of a chain."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlrun
from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.messages.errors import CheckpointError, SpecError, UsageError
from rlrun.engine.training.save import saved_state
from rlrun.engine.training.training import Training
from rlrun.experiments.launch.run import resume, run
from rlrun.experiments.runs.events import RunEvent, TrialEvent
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.spec.keys import ENTRY_KEYS
from rlrun.experiments.spec.load import load_experiments, parse_experiments
from rlrun.experiments.spec.overrides import apply_overrides
from rlrun.experiments.spec.stages import stages_of
from rlrun.experiments.spec.yaml_source import Document
from rlrun.report.reading import EVALUATION_METRIC, read_run
from rlrun.report.switch import Switch, switches
from tests.results import numbers

CONFIG = {
    "num_envs_per_worker": 2,
    "train_batch_size": 32,
    "minibatch_size": 32,
    "num_epochs": 1,
    "normalize_observations": True,
    "model": {"hiddens": [4]},
    "min_env_steps_per_iteration": 32,
}
AROUND = {"algorithm": "ppo", "env": "CartPole-v1", "config": CONFIG, "stop": {"env_steps": 64}}
ENV = {"env": "CartPole-v1", "output": "seen"}
STILL = {**CONFIG, "lr": 0.0}
"""A config that changes no weights, so a stage ends with the weights that it started from."""


def chain(second: dict[str, Any], *, seeds: int = 1) -> dict[str, Any]:
    """Returns a spec of two stages."""
    return {"pole": {**AROUND, "seeds": seeds, "stages": {"first": {}, "second": {"config": STILL, **second}}}}


def content(trial: TrialResult) -> Any:
    assert trial.checkpoint is not None
    return read_checkpoint(trial.checkpoint)


def weights(trial: TrialResult) -> dict[str, Any]:
    return dict(content(trial).tensors["policies/default"])


def seen(trial: TrialResult) -> float:
    """Returns the number of observations in the trial's filter."""
    count: float = content(trial).state["trainees"]["default"]["filters"]["state"]["observations/"]["count"]
    return count


def test_each_seed_of_a_stage_starts_with_its_weights_from_the_previous_stage_and_a_new_clock(tmp_path: Path) -> None:
    trials = run(chain({}, seeds=2), runs_dir=tmp_path, executor="local")
    assert [trial.directory.parent.name for trial in trials] == ["pole.first"] * 2 + ["pole.second"] * 2
    assert [trial.seed for trial in trials] == [0, 1, 0, 1]
    for before, after in zip(trials[:2], trials[2:], strict=True):
        np.testing.assert_equal(weights(after), weights(before))
        assert after.results()[0]["env_steps"] <= 64
        assert after.record is not None
        assert after.record.from_checkpoint == str(before.checkpoint)
    assert not np.array_equal(weights(trials[0])["policy_head.weight"], weights(trials[1])["policy_head.weight"])


@pytest.mark.parametrize(("begins", "goes_on"), [({}, False), ({"begins": {"filters": "running"}}, True)])
def test_filters_are_frozen_in_a_stage_unless_it_says_otherwise(
    begins: dict[str, Any], goes_on: bool, tmp_path: Path
) -> None:
    before, after = run(chain(begins), runs_dir=tmp_path)
    assert seen(after) == (2 if goes_on else 1) * seen(before) > 60


@pytest.mark.parametrize("taken", [False, True])
def test_optimizer_states_are_taken_over_from_the_previous_stage_only_on_request(taken: bool, tmp_path: Path) -> None:
    before, after = run(chain({"begins": {"optimizers": taken}}), runs_dir=tmp_path)
    steps = [
        float(next(t for name, t in content(trial).tensors["optimizers/default"].items() if "step" in name).max())
        for trial in (before, after)
    ]
    assert steps[1] == steps[0] * (2 if taken else 1) > 1


def test_a_stage_inherits_keys_of_its_experiment_and_mistakes_are_reported_with_their_lines(tmp_path: Path) -> None:
    text = """\
    pole:
      algorithm: ppo
      stop: {env_steps: 64}
      stages:
        first:
          env: CartPole-v1
          config: {lr: fast}
        second:
          env: CartPole-v1
          config: {gama: 0.9}
          begins: {filter: frozen}
    """
    file = tmp_path / "spec.yaml"
    file.write_text("\n".join(line[4:] for line in text.splitlines()))
    with pytest.raises(SpecError) as raised:
        load_experiments([file])
    assert [(problem.line, problem.path) for problem in raised.value.problems] == [
        (7, "pole.stages.first.config.lr"),
        (10, "pole.stages.second.config.gama"),
        (11, "pole.stages.second.begins.filter"),
    ]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({**AROUND, "stages": []}, r"pole\.stages: must be a mapping of names to stages"),
        ({**AROUND, "stages": {"a": {}, "b": None}}, r"pole\.stages\.b: must be a mapping"),
        ({**AROUND, "stop": {"env_stops": 3}, "stages": {"a": {}, "b": {}}}, r"^pole\.stop\.env_stops: .*\Z"),
        (
            {key: AROUND[key] for key in ("algorithm", "env")} | {"stages": {"a": {}}},
            r"pole\.stages\.a\.stop: is missing",
        ),
        (
            {**AROUND, "stages": {"a": {}, "b": {"config": {"lr": {"grid_search": [0.1, 0.2]}}}}},
            r"pole\.stages\.b\.begins: each seed starts from its weights of an earlier experiment: leave out search",
        ),
    ],
)
def test_invalid_stages_are_refused(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_experiments({"pole": entry})


CHAIN = {
    "env": "Pendulum-v1",
    "config": {"gamma": 0.9},
    "stages": {
        "first": {"algorithm": "iql", "config": {"input": "nowhere", "lr": 1e-4}, "stop": {"sgd_steps": 9}},
        "second": {"algorithm": "sac", "stop": {"env_steps": 9}},
        "third": {"algorithm": "sac", "config": {}, "stop": {"env_steps": 9}, "expect": {"episode_return_mean": -9}},
    },
}
"""Three stages: one has settings that the others lack, and one inherits the settings around the stages."""


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("config.lr=1", {"first.config.lr": 1, "second.config.lr": 1, "third.config.lr": 1}),
        ("pole.config.expectile=0.9", {"first.config.expectile": 0.9}),
        ("config.initial_alpha=2", {"second.config.initial_alpha": 2, "third.config.initial_alpha": 2}),
        ("stages.second.config.lr=1", {"second.config.lr": 1}),
        ("stop.env_steps=5", {"second.stop.env_steps": 5, "third.stop.env_steps": 5}),
        ("stop.sgd_steps=5", {"first.stop.sgd_steps": 5}),
        ("seeds=2", {f"{stage}.seeds": 2 for stage in CHAIN["stages"]}),
        ("expect.seeds=3", {"third.expect.seeds": 3}),
        ("config.lrr=1", {f"{stage}.config.lrr": 1 for stage in CHAIN["stages"]}),  # each stage then refuses it
    ],
)
def test_an_override_changes_only_the_stages_that_have_the_setting(override: str, changed: dict[str, Any]) -> None:
    document = Document({"pole": deepcopy(CHAIN)})
    assert apply_overrides([document], [override], ENTRY_KEYS) == []
    before = {stage.name.removeprefix("pole."): stage.data for stage in stages_of("pole", CHAIN)[0]}
    after = {stage.name.removeprefix("pole."): stage.data for stage in stages_of("pole", document.data["pole"])[0]}
    assert flat(after) == flat(before) | changed


def flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns the values of nested mappings by dotted path."""
    found: dict[str, Any] = {}
    for key, item in data.items():
        found |= flat(item, f"{prefix}{key}.") if isinstance(item, dict) else {f"{prefix}{key}": item}
    return found


def test_the_refusal_of_an_override_for_an_unknown_stage_suggests_the_closest_name(wording) -> None:
    (problem,) = apply_overrides([Document({"pole": deepcopy(CHAIN)})], ["stages.frist.config.lr=1"], ENTRY_KEYS)
    assert problem.message == wording("frist", "first")


def test_a_stage_is_refused_if_the_stage_it_starts_from_is_missing(tmp_path: Path, wording) -> None:
    first, second = parse_experiments(chain({}, seeds=2))
    with wording.raised(UsageError, "pole.second", "pole.first"):
        run([second], runs_dir=tmp_path)
    with wording.raised(UsageError):
        run([first.replace(seeds=(0,)), second], runs_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_chain_must_be_resumed_from_its_first_stage_and_ends_the_same(tmp_path: Path, wording) -> None:
    spec = chain({"config": CONFIG})
    expected = run(spec, runs_dir=tmp_path / "whole")

    def stop(event: RunEvent) -> None:
        if isinstance(event, TrialEvent) and event.result:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run(spec, runs_dir=tmp_path / "cut", watch=stop)
    with wording.raised(UsageError, "pole.first"):
        resume(tmp_path / "cut" / "pole.second")
    found = resume(tmp_path / "cut" / "pole.first")
    assert [trial.status for trial in found] == ["TERMINATED"] * 2
    for one, other in zip(expected, found, strict=True):
        assert [numbers(row) for row in one.results()] == [numbers(row) for row in other.results()]
        np.testing.assert_equal(weights(one), weights(other))


def recording(**changes: Any) -> dict[str, Any]:
    """Returns a chain whose first stage records what the second one learns from, with fresh weights."""
    own = {"input": "seen", "sgd_steps_per_iteration": 2, "model": {"hiddens": [4]}}
    learned = {"algorithm": "bc", "config": own, "stop": {"sgd_steps": 4}, "begins": {"weights": False}}
    stages = {"recorded": {"algorithm": "random", "config": {}, "output": "seen"}, "learned": {**learned, **changes}}
    return {"env": "CartPole-v1", "stop": {"env_steps": 64}, "stages": stages}


def test_each_seed_of_a_stage_learns_from_the_data_it_recorded_in_the_previous_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trials = run({"pole": {**recording(), "seeds": 2}}, runs_dir=tmp_path / "runs", executor="local")
    assert [trial.status for trial in trials] == ["TERMINATED"] * 4
    for before, after in zip(trials[:2], trials[2:], strict=True):
        read = RunDirectory.open(after.directory.parent).trial(after.name).config
        assert isinstance(read, DataSettings)
        assert read.input is not None
        assert [part.path for part in read.input] == [str(tmp_path / "seen" / before.name)]
        assert after.record is not None
        assert after.record.from_checkpoint is None  # a random policy has no weights to start from


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({**recording(), "output": "all"}, r"pole\.output: stages cannot share one output"),
        (
            {**recording(begins={"weights": False, "optimizers": True})},
            r"begins: optimizers: optimizer state cannot be taken over",
        ),
        (
            {
                "stop": {"env_steps": 64},
                "stages": {**recording()["stages"], "recorded": {"algorithm": "random", **ENV}},
            },
            r"pole\.stages\.learned\.env: is missing: name the env, because the spaces of data from an earlier",
        ),
    ],
)
def test_stages_that_cannot_use_data_of_earlier_stages_are_refused(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_experiments({"pole": entry})


def test_the_drop_at_a_switch_is_from_the_last_evaluation_before_to_the_lowest_early_one_after(tmp_path: Path) -> None:
    often = {"evaluation": {"every": 1, "episodes": 1}}
    spec = chain({**often, "config": {**CONFIG, "lr": 0.1}, "stop": {"iteration": 5}})
    spec["pole"]["stages"]["first"] = often
    before, after = run(spec, runs_dir=tmp_path)
    end = before.results()[-1][EVALUATION_METRIC]
    reached = [(row["env_steps"], row[EVALUATION_METRIC]) for row in after.results()]
    regained = next((steps for steps, value in reached if value >= end), None)
    lowest = min(value for _, value in reached[:3])
    assert switches(read_run(tmp_path / "pole.second")) == [Switch(after.name, end, lowest, regained)]
    assert switches(read_run(tmp_path / "pole.first")) == []
    (tmp_path / "pole.first").rename(tmp_path / "gone")
    assert switches(read_run(tmp_path / "pole.second")) == []


def test_a_seed_that_failed_in_a_stage_also_fails_in_the_next_stage(tmp_path: Path, wording) -> None:
    first, second = parse_experiments(chain({}))
    run([first], runs_dir=tmp_path)
    opened = RunDirectory.open(tmp_path / "pole.first")
    RunDirectory.create(tmp_path, "pole.second", second, second.trials(), "local", after="pole.first")
    opened.mark(opened.table.trials[0], "ERROR", "it diverged")
    (trial,) = resume(tmp_path / "pole.second")
    assert trial.status == "ERROR"
    assert trial.error == wording()
    assert "pole.first" in trial.error


def test_weights_without_a_target_network_are_refused_by_an_algorithm_that_needs_one(tmp_path: Path, wording) -> None:
    with Training("CartPole-v1", rlrun.DQN(model={"hiddens": [4]}, compile=False)) as training:
        saved = read_checkpoint(training.save(tmp_path / "saved"))
        del saved.tensors["targets/default"]
        with wording.raised(CheckpointError):
            saved_state.load_weights(training.running, saved)


def test_the_weights_of_a_policy_without_values_can_start_the_policy_of_an_actor_critic(tmp_path: Path) -> None:
    expert = "rlrun.toys:balance_pole"
    model = {"hiddens": [4]}
    with Training("CartPole-v1", rlrun.DAgger(expert=expert, model=model), seed=1) as cloned:
        saved = read_checkpoint(cloned.save(tmp_path / "cloned"))
    with Training("CartPole-v1", rlrun.PPO(model=model), seed=2) as training:
        learner = training.running.trainee.learner
        before = learner.policy.parameters.named(learner.flat())
        saved_state.load_weights(training.running, saved, in_part=True)
        after = learner.policy.parameters.named(learner.flat())
    own = saved.tensors["policies/default"]
    np.testing.assert_equal(after, {**before, **own})
    assert 0 < len(own) < len(before)
