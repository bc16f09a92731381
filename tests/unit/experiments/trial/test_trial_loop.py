import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.learner.executors.numpy_kernels import KERNELS
from rlrun.engine.messages.errors import CheckpointError, TrainingFailed, UsageError
from rlrun.engine.rollout import endless_episodes
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.results import read_results
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord
from rlrun.experiments.trial.trial_loop import TrialLoop
from tests.trial_loops import run

BRANCHING = """
from rlrun.algorithms.ppo import PPO


class Own(PPO):
    def loss(self, outputs, batch, scheduled):
        if outputs.values.mean() > 0:
            outputs.values.mean()
        return super().loss(outputs, batch, scheduled)
"""
"""Plugin whose loss branches on a tensor."""

MakeTrial = Callable[..., TrialSpec]
Curve = Callable[[Path], list[dict[str, Any]]]


def record(directory: Path) -> TrialRecord:
    found = TrialDirectory(directory).read_record()
    assert found is not None
    return found


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "checkpoints").iterdir())


def test_messages_shown_to_the_user_are_stored_in_the_record(
    tmp_path: Path, small_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.delitem(KERNELS, torch.ops.aten.mm.default)
    told: list[str] = []
    trial = small_trial(stop={"env_steps": 300}, config={"compile": "auto"})
    with TrialLoop(trial, tmp_path / "t", announce=told.append) as loop:
        run(loop)
        loop._journal.note("a slow disk")
        loop.save()
    (remark, note) = record(tmp_path / "t").notes
    assert remark == wording("aten.mm.default")  # recorded, but not announced: the user need not act on it
    assert told == [note] == ["a slow disk"]


def test_the_user_is_told_that_a_custom_loss_cannot_run_in_kernels(
    tmp_path: Path, small_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "branching_plugin.py").write_text(BRANCHING)
    told: list[str] = []
    trial = small_trial(algorithm="branching_plugin:Own", config={"compile": "auto"})
    with TrialLoop(trial, tmp_path / "t", announce=told.append) as loop:
        loop.step()
    (note,) = told
    assert note.endswith("(`if`, `float()` or `.item()`) at branching_plugin.py:7")
    assert record(tmp_path / "t").notes == told


def test_a_warning_is_given_if_no_episode_has_ended_by_half_of_the_run(
    tmp_path: Path, small_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setattr(endless_episodes, "FEW_STEPS", 10)
    told: list[str] = []
    env = {"id": "rlrun.toys:ConstantReward", "kwargs": {"episode_len": 10**9}}
    trial = small_trial(env=env, stop={"iteration": 6, "env_steps": 1_000})
    with TrialLoop(trial, tmp_path / "t", announce=told.append) as loop:
        run(loop, until=2)
        assert told == []
        run(loop)
        (steps,) = [row["env_steps"] for row in read_results(tmp_path / "t") if row["iteration"] == 3]
    assert [text.partition(",")[0] for text in told] == wording(steps)
    assert record(tmp_path / "t").notes == told


def test_a_trial_runs_until_its_stop_condition_and_writes_its_record_and_results(
    tmp_path: Path, small_trial: MakeTrial, wording
) -> None:
    trial = small_trial(stop={"env_steps": 300})
    with TrialLoop(trial, tmp_path / "t") as loop:
        assert record(tmp_path / "t").status == "RUNNING"
        run(loop)
        last = loop.last_result
    assert loop.stop_reason == wording(last["env_steps"], "env_steps", "300")
    found = record(tmp_path / "t")
    assert (found.status, found.stop_reason, found.pid, found.error) == ("TERMINATED", loop.stop_reason, None, "")
    assert (found.iteration, found.env_steps) == (last["iteration"], last["env_steps"])
    assert found.exact_resume is None
    rows = read_results(tmp_path / "t")
    assert [row["iteration"] for row in rows] == list(range(1, last["iteration"] + 1))
    assert rows[-1] == last
    assert TrialSpec.from_data(TrialDirectory(tmp_path / "t").read_spec()) == trial.replace(update_executor="eager")
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [
        ".lock",
        "checkpoints",
        "events.out.tfevents.0000000000.rlrun",
        "progress.csv",
        "result.json",
        "spec.yaml",
        "trial.json",
    ]


def test_the_trial_record_describes_the_network_from_the_start(tmp_path: Path, small_trial: MakeTrial, wording) -> None:
    with TrialLoop(small_trial(config={"model": {}, "normalize_observations": True}), tmp_path):
        assert record(tmp_path).network == wording("shared_value", "64")


def test_stepping_a_finished_trial_raises_an_error(tmp_path: Path, small_trial: MakeTrial, wording) -> None:
    with TrialLoop(small_trial(stop={"iteration": 1}), tmp_path) as loop:
        loop.step()
        with wording.raised(RuntimeError):
            loop.step()


def test_checkpoints_are_written_at_intervals_and_at_the_end_of_a_trial(tmp_path: Path, small_trial: MakeTrial) -> None:
    with TrialLoop(small_trial(stop={"iteration": 5}), tmp_path) as loop:
        run(loop)
    content = read_checkpoint(tmp_path / "checkpoints" / "iteration_000005")
    assert names(tmp_path)[-2:] == ["iteration_000004", "iteration_000005"]
    assert content.manifest["result"] == read_results(tmp_path)[-1]
    assert TrialSpec.from_data(content.spec) == loop.trial.replace(update_executor="eager")


def test_no_checkpoint_is_written_if_every_is_null_and_at_end_is_false(tmp_path: Path, small_trial: MakeTrial) -> None:
    trial = small_trial(stop={"iteration": 3}, checkpoint={"every": None, "at_end": False})
    with TrialLoop(trial, tmp_path) as loop:
        run(loop)
    assert not (tmp_path / "checkpoints").exists()
    assert record(tmp_path).status == "TERMINATED"


def test_whichever_stop_criterion_comes_first_ends_the_trial(tmp_path: Path, small_trial: MakeTrial) -> None:
    with TrialLoop(small_trial(stop={"iteration": 100, "sgd_steps": 3, "episode_return_mean": 1e9}), tmp_path) as loop:
        run(loop)
    assert loop.stop_reason.startswith("sgd_steps ")


def test_a_closed_trial_resumes_exactly(tmp_path: Path, small_trial: MakeTrial, curve: Curve, wording) -> None:
    trial = small_trial(stop={"iteration": 7})
    with TrialLoop(trial, tmp_path / "whole") as loop:
        run(loop)
    with TrialLoop(trial, tmp_path / "parts") as loop:
        run(loop, until=3)
    assert record(tmp_path / "parts").status == "PENDING"
    with TrialLoop(trial, tmp_path / "parts", resume=True) as loop:
        assert loop.resumption is not None
        assert (loop.resumption.iteration, loop.resumption.rows_cut, loop.resumption.is_exact) == (2, 1, True)
        assert loop.resumption.message == wording(tmp_path / "parts" / "checkpoints" / "iteration_000002")
        assert [row["iteration"] for row in read_results(tmp_path / "parts")] == [1, 2]
        run(loop)
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")
    times = [row["time_total_s"] for row in read_results(tmp_path / "parts")]
    assert times == sorted(times)
    assert record(tmp_path / "parts").exact_resume is True


def test_a_trial_whose_settings_were_edited_in_spec_yaml_is_not_resumed(
    tmp_path: Path, small_trial: MakeTrial, wording
) -> None:
    trial = small_trial(stop={"iteration": 7})
    with TrialLoop(trial, tmp_path) as loop:
        run(loop, until=3)
    changed = trial.replace(config=trial.config.replace(lr=0.125))
    with wording.raised(CheckpointError, "spec.yaml", "config.lr", "iteration_000002"):
        TrialLoop(changed, tmp_path, resume=True)
    with TrialLoop(trial, tmp_path, resume=True) as loop:
        run(loop)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 7}, "seed: 7, but {point} was written with 0"),
        ({"env": "Acrobot-v1"}, "env.id: 'Acrobot-v1', but {point} was written with 'CartPole-v1'"),
        (
            {"env": {"id": "CartPole-v1", "kwargs": {"sutton_barto_reward": True}}},
            "env.kwargs.sutton_barto_reward: true, but {point} was written with null",
        ),
        (
            {"env": {"id": "CartPole-v1", "max_episode_steps": 20}},
            "env.max_episode_steps: 20, but {point} was written with null",
        ),
        ({"evaluation": {"every": 3, "episodes": 1}}, "evaluation.every: 3, but {point} was written with 2"),
        ({"evaluation": None}, "evaluation.every: null, but {point} was written with 2"),
    ],
)
@pytest.mark.parametrize("generation", [None, 1])
def test_a_trial_whose_seed_env_or_evaluation_was_edited_is_not_resumed_even_in_a_population(
    tmp_path: Path, small_trial: MakeTrial, changed: dict[str, Any], said: str, generation: int | None, wording
) -> None:
    evaluation = {"every": 2, "episodes": 1}
    trial = small_trial(stop={"iteration": 7}, evaluation=evaluation)
    with TrialLoop(trial, tmp_path) as loop:
        loop.step()
        point = loop.save()
    other = small_trial(**{"stop": {"iteration": 7}, "evaluation": evaluation, **changed})
    exploit = None if generation is None else Exploit(generation, other, None)
    with pytest.raises(CheckpointError) as refused:
        TrialLoop(other, tmp_path, resume=True, exploit=exploit)
    assert str(refused.value) == (wording(said.format(point=point), point, "spec.yaml"))
    with TrialLoop(trial, tmp_path, resume=True) as loop:
        assert loop.training.iteration == 1


def test_resuming_a_trial_without_a_checkpoint_restarts_it(
    tmp_path: Path, small_trial: MakeTrial, curve: Curve, wording
) -> None:
    trial = small_trial(stop={"iteration": 2})
    with TrialLoop(trial, tmp_path) as loop:
        loop.step()
    first = curve(tmp_path)
    with TrialLoop(trial, tmp_path, resume=True) as loop:
        assert loop.resumption is not None
        assert loop.resumption.message == wording()
        assert read_results(tmp_path) == []
        run(loop)
    assert curve(tmp_path)[:1] == first


def test_a_damaged_checkpoint_is_skipped_and_reported(tmp_path: Path, small_trial: MakeTrial, curve: Curve) -> None:
    trial = small_trial(stop={"iteration": 6})
    with TrialLoop(trial, tmp_path) as loop:
        run(loop)
    whole = curve(tmp_path)
    newest = tmp_path / "checkpoints" / "iteration_000006" / "state.npz"
    newest.write_bytes(newest.read_bytes()[:-1])
    with TrialLoop(trial, tmp_path, resume=True) as loop:
        assert loop.resumption is not None
        assert "skipped " in loop.resumption.message
        assert "iteration_000006: state.npz is truncated" in loop.resumption.message
        assert loop.training.iteration == 4
        assert not loop.done
        run(loop)
    assert curve(tmp_path) == whole
    assert loop.checkpoints.store.newest_valid() == tmp_path / "checkpoints" / "iteration_000006"


def test_a_trial_whose_checkpoints_are_all_damaged_is_not_silently_restarted(
    tmp_path: Path, small_trial: MakeTrial, wording
) -> None:
    trial = small_trial(stop={"iteration": 2})
    with TrialLoop(trial, tmp_path) as loop:
        run(loop)
    (tmp_path / "checkpoints" / "iteration_000002" / "spec.yaml").unlink()
    with wording.raised(CheckpointError, "spec.yaml"):
        TrialLoop(trial, tmp_path, resume=True)
    assert record(tmp_path).status == "ERROR"
    assert len(read_results(tmp_path)) == 2


def test_resuming_a_finished_trial_does_nothing_unless_its_stop_condition_was_raised(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    with TrialLoop(small_trial(stop={"iteration": 2}), tmp_path) as loop:
        run(loop)
    with TrialLoop(small_trial(stop={"iteration": 2}), tmp_path, resume=True) as loop:
        assert loop.done
        assert loop.last_result["iteration"] == 2
        assert record(tmp_path).status == "TERMINATED"
    with TrialLoop(small_trial(stop={"iteration": 3}), tmp_path, resume=True) as loop:
        assert not loop.done
        run(loop)
    assert len(read_results(tmp_path)) == 3


def test_a_trial_that_has_checkpoints_is_not_started_anew_without_resume(
    tmp_path: Path, small_trial: MakeTrial, wording
) -> None:
    with TrialLoop(small_trial(stop={"iteration": 2}), tmp_path) as loop:
        run(loop)
    before = (tmp_path / "trial.json").read_bytes()
    with wording.raised(UsageError):
        TrialLoop(small_trial(), tmp_path)
    assert (tmp_path / "trial.json").read_bytes() == before


def test_a_trial_cannot_run_twice_at_the_same_time(tmp_path: Path, small_trial: MakeTrial, wording) -> None:
    with TrialLoop(small_trial(), tmp_path), wording.raised(UsageError):
        TrialLoop(small_trial(), tmp_path, resume=True)
    assert record(tmp_path).status == "PENDING"


def test_a_trial_can_start_from_weights_of_another_run_with_counters_at_zero(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    config = {"normalize_observations": True}
    with TrialLoop(small_trial(stop={"iteration": 2}, config=config), tmp_path / "donor") as donor:
        run(donor)
        weights, flat = donor.training.running.trainee.weights(), donor.training.running.trainee.learner.flat()
    start = tmp_path / "donor" / "checkpoints" / "iteration_000002"
    trial = small_trial(seed=5, stop={"iteration": 1}, config=config)
    with TrialLoop(trial, tmp_path / "t", from_checkpoint=start) as loop:
        taken = loop.training.running.trainee.weights()
        np.testing.assert_array_equal(taken.acting, weights.acting)
        assert taken.filters.keys() == weights.filters.keys() != set()
        assert loop.training.iteration == 0
    with TrialLoop(trial, tmp_path / "t", resume=True) as loop:  # before its first checkpoint
        np.testing.assert_array_equal(loop.training.running.trainee.learner.flat(), flat)
        assert loop.step()["iteration"] == 1


def test_evaluation_metrics_are_reported_when_an_evaluation_is_due_and_are_null_otherwise(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    trial = small_trial(stop={"iteration": 4}, evaluation={"every": 2, "episodes": 3}, checkpoint={"every": None})
    with TrialLoop(trial, tmp_path) as loop:
        run(loop)
    rows = read_results(tmp_path)
    means = [row["evaluation/episode_return_mean"] for row in rows]
    assert [mean is None for mean in means] == [True, False, True, False]
    assert rows[1]["evaluation/episode_return_min"] <= means[1] <= rows[1]["evaluation/episode_return_max"]
    assert rows[1]["evaluation/episode_len_mean"] == means[1]
    assert len({tuple(row) for row in rows}) == 1


def test_a_trial_ends_with_an_evaluation_of_its_final_policy(tmp_path: Path, small_trial: MakeTrial) -> None:
    trial = small_trial(stop={"iteration": 3}, evaluation={"every": 2, "episodes": 3})
    with TrialLoop(trial, tmp_path) as loop:
        rows = [loop.step() for _ in range(3)]
        assert loop.done
    means = [row["evaluation/episode_return_mean"] for row in rows]
    assert means[0] is None
    assert None not in means[1:]


def test_evaluations_do_not_affect_training(tmp_path: Path, small_trial: MakeTrial, curve: Curve) -> None:
    for name, evaluation in (("with", {"every": 1, "episodes": 2}), ("without", None)):
        with TrialLoop(small_trial(stop={"iteration": 4}, evaluation=evaluation), tmp_path / name) as loop:
            run(loop)
    rows = [{key: value for key, value in row.items() if "evaluation" not in key} for row in curve(tmp_path / "with")]
    assert rows == curve(tmp_path / "without")


def test_a_checkpoint_is_saved_at_once_when_an_evaluation_is_the_best_so_far(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    metric = "evaluation/episode_return_mean"
    trial = small_trial(
        stop={"iteration": 8},
        evaluation={"every": 1, "episodes": 2, "actions": "sampled"},
        checkpoint={"every": None, "at_end": False, "keep": 1, "best": metric},
    )
    with TrialLoop(trial, tmp_path) as loop:
        run(loop)
        best = loop.checkpoints.store.best()
    assert best is not None
    measured = max(row[metric] for row in read_results(tmp_path))
    assert read_checkpoint(best).manifest["result"][metric] == measured
    found = record(tmp_path)
    assert (found.judged_by, found.best_score) == (metric, measured)
    assert found.best_return == max(filter(None, (row["episode_return_mean"] for row in read_results(tmp_path))))


def test_an_evaluation_metric_can_stop_a_trial(tmp_path: Path, small_trial: MakeTrial) -> None:
    trial = small_trial(stop={"evaluation/episode_len_mean": 1}, evaluation={"every": 3, "episodes": 1})
    with TrialLoop(trial, tmp_path) as loop:
        run(loop)
    assert loop.last_result["iteration"] == 3


@pytest.mark.parametrize("settings", [{"lr": 0.01}, {"lr": 0.01, "num_epochs": 3}, {"train_batch_size": 96}])
def test_a_member_continues_from_a_donor_checkpoint_and_a_kill_right_afterwards_changes_nothing(
    tmp_path: Path, small_trial: MakeTrial, curve: Curve, settings: dict[str, Any]
) -> None:
    trial = small_trial(seed=2, stop={"iteration": 6})
    with TrialLoop(small_trial(seed=1, stop={"iteration": 9}), tmp_path / "donor") as donor:
        run(donor, until=4)
        parent = donor.save()
        counted = donor.last_result["env_steps"]
    exploit = Exploit(1, trial.replace(config=trial.config.replace(**settings), params=settings), parent)
    with TrialLoop(trial, tmp_path / "t") as loop:
        run(loop, until=3)
        loop.save()
        shutil.copytree(tmp_path / "t", tmp_path / "killed")
        own = curve(tmp_path / "t")
        loop.apply_exploit(exploit)
        learner = loop.training.running.trainee.learner
        taken = learner.policy.parameters.named(learner.flat())
        np.testing.assert_equal(taken, dict(read_checkpoint(parent).tensors["policies/default"]))
        assert loop.training.running.workers.counts.env_steps == counted
        assert loop.training.description.algorithm.config == exploit.trial.config
        run(loop)
    rows = curve(tmp_path / "t")
    assert rows[:3] == own
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[3]["learner/lr"] == exploit.trial.config.lr
    assert counted < rows[3]["env_steps"] <= counted + exploit.trial.config.train_batch_size

    with TrialLoop(exploit.trial, tmp_path / "killed", resume=True, exploit=exploit) as loop:
        run(loop)
    assert curve(tmp_path / "killed") == rows
    assert record(tmp_path / "killed").params == settings


def test_settings_changed_in_place_have_the_same_effect_as_in_a_rebuilt_algorithm(
    tmp_path: Path, small_trial: MakeTrial, curve: Curve
) -> None:
    trial = small_trial(seed=2, stop={"iteration": 6})
    changed = trial.replace(config=trial.config.replace(lr=0.01, clip_param=0.1, entropy_coeff=0.02))
    for name in ("in place", "anew"):
        with TrialLoop(trial, tmp_path / name) as loop:
            run(loop, until=3)
            parent = loop.save()
            if name == "in place":
                loop.apply_exploit(Exploit(1, changed, parent))
                run(loop)
    with TrialLoop(changed, tmp_path / "anew", resume=True, exploit=Exploit(0, changed, None)) as loop:
        run(loop)
    assert curve(tmp_path / "in place") == curve(tmp_path / "anew")


def test_an_exploit_that_is_applied_again_has_no_effect(tmp_path: Path, small_trial: MakeTrial) -> None:
    trial = small_trial(stop={"iteration": 9})
    with TrialLoop(trial, tmp_path / "t") as loop:
        run(loop, until=2)
        exploit = Exploit(1, trial, loop.save())
        loop.apply_exploit(exploit)
        run(loop, until=4)
        steps = loop.training.running.workers.counts.env_steps
        loop.apply_exploit(exploit)
        assert (loop.generation, loop.training.running.workers.counts.env_steps) == (1, steps)


def test_a_trial_ended_early_by_a_scheduler_saves_a_checkpoint_and_records_the_reason(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    with TrialLoop(small_trial(), tmp_path) as loop:
        run(loop, until=3)
        loop.finish("stopped by the scheduler")
    assert (record(tmp_path).status, record(tmp_path).stop_reason) == ("TERMINATED", "stopped by the scheduler")
    assert names(tmp_path)[-1] == "iteration_000003"


def test_ctrl_c_between_iterations_saves_a_checkpoint_of_the_last_one(tmp_path: Path, small_trial: MakeTrial) -> None:
    with TrialLoop(small_trial(), tmp_path) as loop:
        run(loop, until=3)
        assert loop.interrupt() == tmp_path / "checkpoints" / "iteration_000003"
    assert record(tmp_path).status == "INTERRUPTED"
    assert record(tmp_path).iteration == 3


@pytest.mark.usefixtures("users_file")
def test_ctrl_c_during_an_iteration_abandons_it_and_the_trial_resumes_from_its_last_checkpoint(
    tmp_path: Path, small_trial: MakeTrial, curve: Curve
) -> None:
    trial = small_trial(algorithm="my_lab:IsInterrupted", stop={"iteration": 5})
    with TrialLoop(trial, tmp_path / "t") as loop:
        with pytest.raises(KeyboardInterrupt):
            run(loop)
        with pytest.raises(RuntimeError, match="interrupted"):
            loop.save()
        assert loop.interrupt() == tmp_path / "t" / "checkpoints" / "iteration_000002"
    assert record(tmp_path / "t").status == "INTERRUPTED"
    with TrialLoop(trial, tmp_path / "t", resume=True) as loop:
        run(loop)
    with TrialLoop(small_trial(stop={"iteration": 5}), tmp_path / "whole") as loop:
        run(loop)
    assert curve(tmp_path / "t") == curve(tmp_path / "whole")


@pytest.mark.usefixtures("users_file")
def test_non_finite_parameters_stop_the_trial_and_the_last_finite_ones_are_saved(
    tmp_path: Path, small_trial: MakeTrial, wording
) -> None:
    with TrialLoop(small_trial(stop={"iteration": 2}), tmp_path / "same") as loop:
        run(loop)
        before = loop.training.running.trainee.learner.flat()
    diverges = small_trial(algorithm="my_lab:Diverges")
    with TrialLoop(diverges, tmp_path / "t") as loop, pytest.raises(TrainingFailed) as caught:
        run(loop)
    message = str(caught.value)
    assert message == wording()
    assert message == wording(tmp_path / "t" / "failed")
    assert (record(tmp_path / "t").status, record(tmp_path / "t").error) == ("ERROR", message)
    assert [row["iteration"] for row in read_results(tmp_path / "t")] == [1, 2]
    with TrialLoop(small_trial(), tmp_path / "again", from_checkpoint=tmp_path / "t" / "failed") as loop:
        np.testing.assert_array_equal(loop.training.running.trainee.learner.flat(), before)


@pytest.mark.usefixtures("users_file")
def test_a_statistic_that_is_not_finite_ends_the_trial_and_is_named_in_the_error(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    message = r"diverged: learner/policy_loss is inf at iteration 1 \("
    trial = small_trial(algorithm="my_lab:ReportsInfinity")
    with TrialLoop(trial, tmp_path) as loop, pytest.raises(TrainingFailed, match=message):
        loop.step()
    batch = read_checkpoint(tmp_path / "failed").state["last_batch"]
    assert {"obs", "actions", "advantages", "valid"} <= set(batch)


def test_after_a_divergence_the_last_batch_is_saved_as_arrays_even_if_it_was_on_a_device(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    settings = {"num_envs_per_worker": 4, "train_batch_size": 32, "minibatch_size": 32, "lr": 1e30}
    trial = small_trial(algorithm="ppo", env={"tensors": "rlrun.toys:tensor_cartpole"}, config=settings)
    with TrialLoop(trial, tmp_path / "t") as loop, pytest.raises(TrainingFailed, match="diverged") as caught:
        run(loop)
    assert str(tmp_path / "t" / "failed") in str(caught.value)
    batch = read_checkpoint(tmp_path / "t" / "failed").state["last_batch"]
    assert {name: type(column) for name, column in batch.items()} == dict.fromkeys(batch, np.ndarray)
    assert batch["obs"].shape == (32, 1, 4)
    with TrialLoop(trial, tmp_path / "again", from_checkpoint=tmp_path / "t" / "failed") as loop:
        assert loop.training.running.trainee.learner.is_finite()


def test_an_error_in_a_users_algorithm_is_shown_with_its_traceback(
    tmp_path: Path, small_trial: MakeTrial, users_file: Path, wording
) -> None:
    trial = small_trial(algorithm="my_lab:Fails")
    with TrialLoop(trial, tmp_path / "t") as loop, pytest.raises(TrainingFailed) as caught:
        run(loop)
    lines = str(caught.value).splitlines()
    assert lines[0] == wording(users_file)
    assert lines[-2:] == wording("KeyError")
    assert "trial_loop.py" not in str(caught.value)
    assert record(tmp_path / "t").status == "ERROR"
    assert record(tmp_path / "t").error == str(caught.value)
    assert "KeyError: 'my own mistake'" in (tmp_path / "t" / "error.txt").read_text()
    with TrialLoop(trial, tmp_path / "t", resume=True):
        assert not (tmp_path / "t" / "error.txt").exists()
        assert record(tmp_path / "t").error == ""


def test_an_error_in_the_constructor_of_a_users_algorithm_is_shown_and_frees_the_trial(
    tmp_path: Path, small_trial: MakeTrial, users_file: Path
) -> None:
    with pytest.raises(TrainingFailed, match=f"CannotBeBuilt failed in {users_file}:") as caught:
        TrialLoop(small_trial(algorithm="my_lab:CannotBeBuilt"), tmp_path / "t")
    assert record(tmp_path / "t").status == "ERROR"
    assert record(tmp_path / "t").error == str(caught.value)
    assert not TrialDirectory(tmp_path / "t").is_claimed()


def test_a_missing_algorithm_is_recorded_as_an_error_and_releases_the_trial(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    trial = small_trial().replace(algorithm="nowhere:Nothing")
    with pytest.raises(UsageError, match="nowhere"):
        TrialLoop(trial, tmp_path)
    assert record(tmp_path).status == "ERROR"
    assert not TrialDirectory(tmp_path).is_claimed()


def test_result_json_holds_only_strict_json(tmp_path: Path, small_trial: MakeTrial) -> None:
    with TrialLoop(small_trial(stop={"iteration": 2}), tmp_path) as loop:
        run(loop)
    for line in (tmp_path / "result.json").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


def test_a_plugin_edited_before_a_resume_is_named_and_makes_the_resume_inexact(
    tmp_path: Path, small_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    plugin = tmp_path / "edited_plugin.py"
    plugin.write_text("from rlrun.algorithms.ppo import PPO\n\n\nclass Own(PPO):\n    pass\n")
    trial = small_trial(algorithm="edited_plugin:Own", checkpoint={"every": 1})
    with TrialLoop(trial, tmp_path / "t") as loop:
        loop.step()
    with TrialLoop(trial, tmp_path / "t", resume=True) as loop:
        assert loop.resumption is not None
        assert loop.resumption.is_exact
    plugin.write_text(plugin.read_text() + "    factor = 2\n")
    monkeypatch.delitem(sys.modules, "edited_plugin")  # as in a new process
    with TrialLoop(small_trial(algorithm="edited_plugin:Own"), tmp_path / "t", resume=True) as loop:
        assert loop.resumption is not None
        assert loop.resumption.message.endswith(f"an uninterrupted run, because {plugin} has changed")
    assert record(tmp_path / "t").exact_resume is False
