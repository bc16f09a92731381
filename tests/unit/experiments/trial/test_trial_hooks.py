"""Hooks of a trial: they measure without changing it, may stop it, and resume with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.hook import Hook, Stop
from rlrun.engine.messages.errors import SpecError, TrainingFailed
from rlrun.engine.settings.metric import Metric
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.results import read_results
from rlrun.experiments.trial.trial_directory import TrialDirectory
from rlrun.experiments.trial.trial_loop import TrialLoop
from tests.trial_loops import run

MakeTrial = Callable[..., TrialSpec]
Curve = Callable[[Path], list[dict[str, Any]]]

TIRED = "its own reason"


class Measures(Hook):
    """Subscribes to everything, and draws random numbers."""

    declared_metrics = (
        Metric("angle", "rad", "Mean angle"),
        Metric("drawn", "", "A random number"),
        Metric("fragments", "", "Fragments so far"),
        Metric("seen/<event>", "", "Times that an event of the trial came"),
    )

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale
        self.fragments = 0
        self.seen = {"result": 0, "evaluation": 0, "checkpoint": 0}

    def on_episode_start(self, episode, observation):
        episode.notes["angle"] = 0.0

    def on_episode_step(self, episode, step):
        episode.notes["angle"] += self.scale * abs(float(step.observation[2]))

    def on_episode_end(self, episode):
        return {"angle": episode.notes["angle"] / episode.length, "drawn": self.rng.random()}

    def on_fragment(self, fragment):
        self.fragments += 1
        return {"fragments": self.fragments}

    def count(self, event):
        self.seen[event] += 1
        return {f"seen/{event}": self.seen[event], "drawn": self.rng.random()}

    def on_result(self, result):
        assert result["iteration"] >= 1
        return self.count("result")

    def on_evaluation(self, evaluation):
        assert np.isfinite(evaluation["evaluation/episode_return_mean"])
        return self.count("evaluation")

    def on_checkpoint(self, iteration):
        return self.count("checkpoint")


class Tires(Hook):
    """Stops the run in an episode, or with a result."""

    def __init__(self, episode: int | None = None, result: int | None = None) -> None:
        self.episode, self.result, self.ended = episode, result, 0

    def on_episode_end(self, episode):
        self.ended += 1
        return Stop(TIRED) if self.ended == self.episode else None

    def on_result(self, result):
        return Stop(TIRED) if result["iteration"] == self.result else None


class Halves(StatefulOperator):
    """Halves the rewards of every second fragment."""

    def __init__(self, trainee, begins: int = 0) -> None:
        self.number = begins

    def __call__(self, batch):
        self.number += 1
        return SampleBatch(batch, rewards=batch["rewards"] / 2) if self.number % 2 else batch

    def state(self):
        return {"number": self.number}

    def load_state(self, state):
        self.number = state["number"]


MEASURES = ({f"{__name__}:Measures": {"scale": 2.0}},)


def without_hooks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if not name.startswith("hooks/")} for row in rows]


def test_a_hook_that_only_measures_leaves_the_run_bit_identical(
    tmp_path: Path, small_trial: MakeTrial, curve: Curve
) -> None:
    for name, hooks in {"plain": (), "measured": MEASURES}.items():
        evaluation = {"every": 2, "episodes": 2}
        with TrialLoop(small_trial(stop={"iteration": 4}, evaluation=evaluation, hooks=hooks), tmp_path / name) as loop:
            run(loop)
    measured, plain = curve(tmp_path / "measured"), curve(tmp_path / "plain")
    assert without_hooks(measured) == plain
    tensors = [
        read_checkpoint(tmp_path / name / "checkpoints" / "iteration_000004").tensors["policies/default"]
        for name in ("plain", "measured")
    ]
    for name, tensor in tensors[0].items():
        np.testing.assert_array_equal(tensors[1][name], tensor)
    assert 0 < measured[-1]["hooks/angle"] < 1
    assert measured[-1]["hooks/seen/result"] == 4
    assert measured[-1]["hooks/seen/evaluation"] == 2
    assert measured[2]["hooks/seen/checkpoint"] == 1  # the checkpoint of iteration 2 counts in the next result


def test_a_resumed_trial_continues_exactly_with_the_saved_state_of_its_hooks(
    tmp_path: Path, small_trial: MakeTrial, curve: Curve
) -> None:
    trial = small_trial(stop={"iteration": 6}, hooks=MEASURES, evaluation={"every": 2, "episodes": 1})
    with TrialLoop(trial, tmp_path / "whole") as loop:
        run(loop)
    loop = TrialLoop(trial, tmp_path / "t")
    run(loop, until=3)  # after the checkpoint of iteration 2
    loop.close()
    with TrialLoop(trial, tmp_path / "t", resume=True) as loop:
        assert loop.training.iteration == 2
        run(loop)
    rows = curve(tmp_path / "t")
    assert rows == curve(tmp_path / "whole")
    assert len({row["hooks/drawn"] for row in rows}) == 6


def test_a_trial_rebuilt_for_an_exploit_keeps_the_state_of_its_hooks(tmp_path: Path, small_trial: MakeTrial) -> None:
    with TrialLoop(small_trial(hooks=MEASURES), tmp_path / "t") as loop:
        run(loop, until=2)
        other = small_trial(hooks=MEASURES, config={"gamma": 0.5})
        loop.apply_exploit(Exploit(1, other, loop.save()))
        row = loop.step()
    assert row["hooks/seen/result"] == 3


@pytest.mark.parametrize("when", [{"episode": 5}, {"result": 2}])
def test_a_hook_can_stop_a_trial_and_give_the_reason(
    tmp_path: Path, small_trial: MakeTrial, when: dict[str, int]
) -> None:
    trial = small_trial(hooks=({f"{__name__}:Tires": when},))
    with TrialLoop(trial, tmp_path / "t") as loop:
        run(loop)
    found = TrialDirectory(tmp_path / "t").read_record()
    assert found is not None
    assert (found.status, found.stop_reason) == ("TERMINATED", f"Tires: {TIRED}")


class Fails(Hook):
    declared_metrics = (Metric("angle", "rad", "Mean angle"),)

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def on_episode_step(self, episode, step):
        if episode.length == 7 and self.answer is None:
            raise KeyError("my own mistake")
        return self.answer


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {},
            r"raised an exception in on_episode_step \(env CartPole-v1: worker 0, env 0, seed \d+, step 7\):\n.*my own",
        ),
        ({"answer": {"an\ngle": 1}}, r"on_episode_step \(env .*step 1\): returned 'an\\ngle', which is not a"),
        ({"answer": {"angle": "x"}}, "returned angle, which must be a finite number, not 'x'"),
        ({"answer": [1]}, r"must return a dict of metrics, a Stop or None, not \[1\]"),
    ],
)
def test_the_message_for_an_error_in_a_hook_names_the_hook_event_env_and_step(
    tmp_path: Path, small_trial: MakeTrial, settings: dict[str, Any], said: str
) -> None:
    path = f"{__name__}:Fails"
    with (
        TrialLoop(small_trial(hooks=({path: settings},)), tmp_path / "t") as loop,
        pytest.raises(TrainingFailed, match=rf"(?s)hook {path}.*{said}"),
    ):
        loop.step()


def test_numbers_that_a_hook_does_not_declare_are_logged_with_a_single_warning(
    tmp_path: Path, small_trial: MakeTrial, wording
) -> None:
    hooks = ({f"{__name__}:Fails": {"answer": {"angle": 1, "angel": 2, "angels": 3}}},)
    told: list[str] = []
    with TrialLoop(small_trial(stop={"iteration": 3}, hooks=hooks), tmp_path / "t", announce=told.append) as loop:
        run(loop)
    rows = read_results(tmp_path / "t")
    assert [(row["hooks/angle"], row["hooks/angel"], row["hooks/angels"]) for row in rows] == [(1, 2, 3)] * 3
    warned = [
        text
        for text in told
        if "unit, meaning) to the hook's declared_metrics, so that `stop`, schedulers and searchers can use it" in text
    ]
    assert [text.partition(" ")[0] for text in warned] == ["hooks/angel", "hooks/angels"]
    assert warned[0] == wording("angel", "declared_metrics")


def test_an_operator_before_learning_affects_the_results_and_resumes_exactly(
    tmp_path: Path, small_trial: MakeTrial, curve: Curve
) -> None:
    def trial(**config: Any) -> TrialSpec:
        return small_trial(stop={"iteration": 4}, config=config)

    halved = trial(before_learning=({f"{__name__}:Halves": {"begins": 1}},))
    for name, one in {"plain": trial(), "whole": halved}.items():
        with TrialLoop(one, tmp_path / name) as loop:
            run(loop)
    assert "time/Halves_s" in read_results(tmp_path / "whole")[-1]
    loop = TrialLoop(halved, tmp_path / "t")
    run(loop, until=3)
    loop.close()
    with TrialLoop(halved, tmp_path / "t", resume=True) as loop:
        run(loop)
    assert curve(tmp_path / "t") == curve(tmp_path / "whole")
    losses = [[row["learner/value_loss"] for row in curve(tmp_path / name)] for name in ("plain", "whole")]
    assert losses[0] != losses[1]


ENTRY = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1000}}


class Misspelt(Hook):
    def on_episode_stop(self, episode):
        return None


class Idle(Hook):
    pass


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"hooks": [f"{__name__}:Measured"]}, "hooks.0: the hook .* has no 'Measured'; did you mean 'Measures'"),
        ({"hooks": [{f"{__name__}:Measures": {"scal": 1}}]}, "hooks.0: .*'scal'; did you mean 'scale'"),
        ({"hooks": [f"{__name__}:Misspelt"]}, "unknown event 'on_episode_stop'; did you mean 'on_episode_st"),
        ({"hooks": [f"{__name__}:Idle"]}, "does nothing: define at least one of on_episode_start"),
        (
            {"hooks": ["rlrun.plugin:Metric"]},
            "'rlrun.plugin:Metric' is not a Hook: derive it from rlrun.plugin.Hook",
        ),
        ({"hooks": f"{__name__}:Idle"}, "hooks: must be a list of package.module:Class"),
        ({"hooks": [{f"{__name__}:Measures": {}}] * 2}, "two hooks declare a metric 'angle'"),
        ({"hooks": MEASURES, "stop": {"hooks/angel": 1}}, "unknown metric 'hooks/angel'.* 'hooks/angle'"),
        (
            {"hooks": MEASURES, "algorithm": "es"},
            "es does not collect fragments .* use on_result, on_evaluation, on_check",
        ),
        ({"config": {"before_learning": [{f"{__name__}:Halves": {"begin": 1}}]}}, "did you mean 'begins'"),
        (
            {"config": {"before_learning": [f"{__name__}:Tires"]}},
            "' is not an operator: derive it from rlrun.plugin.Operator or StatefulOperator",
        ),
    ],
)
def test_the_error_for_an_invalid_hook_or_operator_in_a_spec_explains_what_is_wrong(
    part: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        parse_experiments({"a": {**ENTRY, **part}})


def test_declared_metrics_of_hooks_can_be_used_as_stop_conditions(tmp_path: Path, small_trial: MakeTrial) -> None:
    stop = {"iteration": 9, "hooks/seen/result": 3}
    (experiment,) = parse_experiments({"a": {**ENTRY, "hooks": MEASURES, "stop": stop}})
    assert experiment.trials()[0].hooks == MEASURES
    with TrialLoop(small_trial(hooks=MEASURES, stop=stop), tmp_path / "t") as loop:
        run(loop)
        assert loop.training.iteration == 3
