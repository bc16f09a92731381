"""A trial writes its steps to a data set, which does not affect learning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.datasets.check import check_set
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.messages.errors import DataSetError, SpecError, UsageError
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.trial_loop import TrialLoop
from tests.trial_loops import run

MakeTrial = Callable[..., TrialSpec]
Curve = Callable[[Path], list[dict[str, Any]]]
LEARNING = {"normalize_observations": True, "clip_rewards": 0.5}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_recording_leaves_a_trial_bit_identical_and_saves_all_its_steps(
    tmp_path: Path, small_trial: MakeTrial, curve: Curve
) -> None:
    stop = {"iteration": 5}
    with TrialLoop(small_trial(stop=stop, config=LEARNING), tmp_path / "plain") as loop:
        run(loop)
    trial = small_trial(stop=stop, config=LEARNING, output=str(tmp_path / "set"))
    with TrialLoop(trial, tmp_path / "recorded") as loop:
        run(loop)
        steps = loop.training.running.workers.counts.env_steps
    assert curve(tmp_path / "recorded") == curve(tmp_path / "plain")
    plain, recorded = (
        read_checkpoint(tmp_path / name / "checkpoints" / "iteration_000005") for name in ("plain", "recorded")
    )
    for name, tensor in plain.tensors["policies/default"].items():
        np.testing.assert_array_equal(recorded.tensors["policies/default"][name], tensor)
    found = DataSet(tmp_path / "set")
    assert found.num_steps == steps
    assert found.manifest.about == {"env": {"id": "CartPole-v1"}}
    rows = found.rows(np.arange(found.num_rows))
    assert set(rows["rewards"][rows["valid"]]) == {1.0}  # rewards are not clipped
    assert np.abs(rows["obs"]).max() < 4  # observations are not normalized
    assert not [finding for finding in check_set(tmp_path / "set") if finding.is_wrong]


def test_a_resumed_trial_drops_steps_after_its_checkpoint_and_writes_an_identical_data_set(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    whole = small_trial(stop={"iteration": 6}, output=str(tmp_path / "whole"))
    with TrialLoop(whole, tmp_path / "uninterrupted") as loop:
        run(loop)
    trial = small_trial(stop={"iteration": 6}, output=str(tmp_path / "set"))
    loop = TrialLoop(trial, tmp_path / "t")
    run(loop, until=3)  # after the checkpoint of iteration 2
    loop.close()  # saves unfinished episodes as truncated ones
    assert DataSet(tmp_path / "set").num_steps
    with TrialLoop(trial, tmp_path / "t", resume=True) as loop:
        assert loop.training.iteration == 2
        run(loop)
    assert contents(tmp_path / "set") == contents(tmp_path / "whole")


def test_a_restarted_trial_without_a_checkpoint_overwrites_its_own_data_set(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    trial = small_trial(stop={"iteration": 2}, checkpoint={"every": None}, output=str(tmp_path / "set"))
    loop = TrialLoop(trial, tmp_path / "t")
    run(loop, until=1)
    loop.close()
    with TrialLoop(trial, tmp_path / "t", resume=True) as loop:
        run(loop)
        steps = loop.training.running.workers.counts.env_steps
    assert DataSet(tmp_path / "set").num_steps == steps


def test_a_trial_cannot_overwrite_the_data_set_of_another_trial(
    tmp_path: Path, small_trial: MakeTrial, wording
) -> None:
    trial = small_trial(stop={"iteration": 1}, output=str(tmp_path / "set"))
    with TrialLoop(trial, tmp_path / "t") as loop:
        run(loop)
    before = contents(tmp_path / "set")
    with wording.raised(UsageError):
        TrialLoop(trial, tmp_path / "other")
    with pytest.raises(UsageError, match="set already exists"):
        TrialLoop(trial, tmp_path / "other", resume=True)
    assert contents(tmp_path / "set") == before


def test_the_error_for_resuming_with_an_incomplete_data_set_names_the_missing_file(
    tmp_path: Path, small_trial: MakeTrial, wording
) -> None:
    trial = small_trial(stop={"iteration": 4}, output=str(tmp_path / "set"))
    loop = TrialLoop(trial, tmp_path / "t")
    run(loop, until=2)
    loop.close()
    (tmp_path / "set" / "manifest.json").unlink()
    with wording.raised(DataSetError, "manifest.json"):
        TrialLoop(trial, tmp_path / "t", resume=True)


def test_a_member_of_a_population_continues_its_data_set_after_its_settings_change(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    trial = small_trial(stop={"iteration": 4}, output=str(tmp_path / "set"))
    with TrialLoop(trial, tmp_path / "t") as loop:
        run(loop, until=2)
        counts = loop.training.running.workers.counts
        other = trial.replace(config=trial.config.replace(num_epochs=2))
        loop.apply_exploit(Exploit(1, other, loop.save()))
        after = loop.training.running.workers.counts
        assert after is not counts  # the workers were built again
        run(loop)
        steps = after.env_steps  # steps up to the copied checkpoint, here the trial's own, and new steps
    assert DataSet(tmp_path / "set").num_steps == steps


def test_each_policy_of_a_world_has_its_own_data_set(tmp_path: Path) -> None:
    small = {"compile": False, "train_batch_size": 128, "minibatch_size": 64, "num_epochs": 1}
    (experiment,) = parse_experiments(
        {
            "poles": {
                "env": {"world": "rlrun.toys:CartPoles"},
                "policies": {name: {"algorithm": "ppo", "config": small} for name in ("left", "right")},
                "mapping": {"pole_0": "left", "pole_1": "right"},
                "stop": {"iteration": 1},
                "config": {"num_envs_per_worker": 2, "rollout_fragment_length": 32, "min_env_steps_per_iteration": 64},
                "output": str(tmp_path / "sets"),
            }
        }
    )
    (trial,) = experiment.trials()
    assert trial.output == str(tmp_path / "sets")
    with TrialLoop(trial, tmp_path / "t") as loop:
        run(loop)
        agent_steps = dict(loop.training.running.workers.counts.agent_steps)
    for policy, agent in (("left", "pole_0"), ("right", "pole_1")):
        found = DataSet(tmp_path / "sets" / policy)
        assert found.agents == (agent,)
        assert found.num_steps == agent_steps[policy]
        assert "logp" in found.manifest.columns


def test_each_trial_of_a_sweep_has_its_own_data_set() -> None:
    entry = {"algorithm": "ppo", "env": "CartPole-v1", "seeds": 2, "stop": {"env_steps": 100}, "output": "data/poles"}
    (experiment,) = parse_experiments({"poles": entry})
    expected = [str(Path("data/poles", name).absolute()) for name in ("000-seed=0", "001-seed=1")]
    assert [trial.output for trial in experiment.trials()] == expected
    (alone,) = parse_experiments({"poles": {**entry, "seeds": 1}})
    assert alone.first_trial().output == str(Path("data/poles").absolute())


@pytest.mark.parametrize("algorithm", ["es", "value_iteration", "alphazero"])
def test_output_is_rejected_for_algorithms_that_collect_no_steps(algorithm: str, wording) -> None:
    env = {"value_iteration": "FrozenLake-v1", "alphazero": {"world": "rlrun.toys:TicTacToe"}}
    entry = {"algorithm": algorithm, "env": env.get(algorithm, "CartPole-v1"), "stop": {"iteration": 1}}
    with wording.raised(SpecError, algorithm):
        parse_experiments({"x": {**entry, "output": "data"}})


def test_output_is_rejected_for_trials_that_learn_only_from_data(wording) -> None:
    entry = {"algorithm": "cql", "env": "CartPole-v1", "stop": {"sgd_steps": 1}, "output": "data"}
    entry["config"] = {"input": "configs/cartpole/data/expert"}
    with wording.raised(SpecError):
        parse_experiments({"x": entry})
