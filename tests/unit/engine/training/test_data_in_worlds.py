"""Policies of a world that learn from data, each from its own sets: alone, or next to the world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.offline.bc import BC
from rlrun.algorithms.offline.cql import CQL
from rlrun.algorithms.offline.marwil import MARWIL
from rlrun.algorithms.ppo import PPO
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import spaces_of
from rlrun.engine.messages.errors import CheckpointRefused, SpecError, UsageError
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.training import Training
from rlrun.experiments.spec.load import parse_experiments

WORLD = {"world": "rlrun.toys:CartPoles"}
BOTH = {"pole_0": "left", "pole_1": "right"}
SMALL: dict[str, Any] = {
    "model": {"hiddens": [4]},
    "minibatch_size": 8,
    "compile": False,
    "sgd_steps_per_iteration": 20,
}


def write(folder: Path, action: int, steps: int = 60) -> str:
    """A set of CartPole's spaces in which one action is always taken."""
    rng = np.random.default_rng(action)
    with SetWriter(folder, *spaces_of(EnvConfig(id="CartPole-v1"))) as writer:
        ends = np.arange(steps) == steps - 1
        rows = {"obs": rng.normal(size=(steps + 1, 4)).astype(np.float32) / 10, "actions": np.full(steps, action)}
        writer.add_episode({**rows, "rewards": np.ones(steps), "terminateds": ends, "truncateds": ends & False})
    return str(folder)


@pytest.fixture
def sets(tmp_path: Path) -> tuple[str, str]:
    return write(tmp_path / "left", 0), write(tmp_path / "right", 1)


def policies(left: Any, right: Any, **sampling: Any) -> Policies:
    return Policies({"left": left, "right": right}, WorldSamplingSettings.parse(sampling), mapping=BOTH)


def test_each_policy_learns_from_its_own_data_sets_with_equal_sgd_steps_per_iteration(
    sets: tuple[str, str], tmp_path: Path, wording
) -> None:
    learn = policies(BC(input=sets[0], lr=0.05, **SMALL), MARWIL(input=sets[1], lr=0.05, **SMALL))
    with Training(WORLD, learn, seed=1) as training:
        result = training.step()
        saved = training.save(tmp_path / "saved")
        training.step()
        expected = [trainee.learner.flat() for trainee in training.running.trainees]
        acts = [training.acting.policy(name).act(np.zeros(4, np.float32)) for name in ("left", "right")]
        evaluated = training.evaluate(1)
    assert acts == [0, 1]
    counted = ("sgd_steps", "env_steps", "policies/left/sgd_steps", "policies/right/sgd_steps")
    assert [result[name] for name in counted] == [40, 0, 20, 20]
    assert len(evaluated.lengths) == 1
    with wording.raised(CheckpointRefused, "policies.left.config.input"):
        Training.restore(saved)
    with Training.restore(saved, trust=True) as resumed:
        resumed.step()
        for trainee, parameters in zip(resumed.running.trainees, expected, strict=True):
            np.testing.assert_array_equal(trainee.learner.flat(), parameters)


def test_one_policy_can_learn_from_data_while_another_is_frozen(sets: tuple[str, str]) -> None:
    left, right = (BC(input=name, **SMALL) for name in sets)
    learn = Policies({"left": left, "right": right}, WorldSamplingSettings(), mapping=BOTH, train=("right",))
    with Training(WORLD, learn) as training:
        result = training.step()
    assert [result[f"policies/{name}/sgd_steps"] for name in ("left", "right")] == [0, 20]


def test_a_single_policy_learns_from_data_for_all_agents_of_a_world(sets: tuple[str, str]) -> None:
    with Training(WORLD, BC(input=sets[0], lr=0.05, **SMALL)) as training:
        result = training.step()
        assert training.act(np.zeros(4, np.float32)) == 0
    assert (result["sgd_steps"], result["env_steps"]) == (20, 0)


def test_one_policy_can_mix_data_with_experience_while_another_uses_experience_only(
    sets: tuple[str, str], tmp_path: Path
) -> None:
    cql = CQL(input=[{"path": sets[0], "share": 0.5}], learning_starts=20, **SMALL)
    ppo = PPO(train_batch_size=32, minibatch_size=16, num_epochs=1, model={"hiddens": [4]}, compile=False)
    learn = policies(cql, ppo, num_envs_per_worker=2, min_env_steps_per_iteration=40)
    with Training(WORLD, learn, seed=1) as training:
        plans = {policy: str(flow.describe()) for policy, flow in training.running.flows().items()}
        training.step()
        saved = training.save(tmp_path / "saved")
        result = training.step()
        expected = training.running.trainee.learner.flat()
    assert ["AddData" in plan for plan in plans.values()] == [True, False]
    assert min(result[f"policies/{name}/sgd_steps"] for name in ("left", "right")) > 0
    with Training.restore(saved, trust=True) as resumed:
        resumed.step()
        np.testing.assert_array_equal(resumed.running.trainee.learner.flat(), expected)


@pytest.mark.parametrize(
    ("right", "sampling", "message"),
    [
        (PPO(), {}, "policy left learns only from data, but policy right does not"),
        (
            BC(input="right", **SMALL),
            {"num_workers": 2},
            (
                r"config\.num_workers: leave it out, because no "
                "env is stepped"
            ),
        ),
        (BC(input="right"), {}, "give all the same sgd_steps_per_iteration"),
    ],
)
def test_combinations_of_offline_policies_that_cannot_share_a_run_are_refused(
    sets: tuple[str, str], right: Any, sampling: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        Training(WORLD, policies(BC(input=sets[0], **SMALL), right, **sampling)).description.plan()


def spec(left: dict[str, Any], right: dict[str, Any], **more: Any) -> dict[str, Any]:
    own = {"left": {"algorithm": "bc", "config": left}, "right": {"algorithm": "bc", "config": right}}
    return {"poles": {"env": WORLD, "policies": own, "mapping": BOTH, "stop": {"sgd_steps": 100}, **more}}


def test_the_schedule_of_a_policy_ends_at_its_share_of_the_runs_sgd_steps(sets: tuple[str, str]) -> None:
    left, right = ({"input": name, "lr": [[0, 1e-3], ["end", 0]]} for name in sets)
    (experiment,) = parse_experiments(spec(left, right))
    assert [config.lr for config in experiment.settings.values()] == [((0, 1e-3), (50, 0.0))] * 2
    assert experiment.learns.is_offline


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"output": "new"}, "output: bc does not collect env steps"),
        ({"env": None}, "env"),
        ({"policies": "other"}, "policies: policy left learns only from data, but policy right does not"),
        ({"policies": "missing"}, r"poles\.policies\.right\.config\.input: there is no data set nowhere"),
    ],
)
def test_errors_about_data_in_specs_of_worlds_name_the_mistake(
    sets: tuple[str, str], changed: dict[str, Any], message: str
) -> None:
    data = spec({"input": sets[0]}, {"input": "nowhere" if changed.get("policies") == "missing" else sets[1]})
    if changed.get("policies") == "other":
        data["poles"]["policies"]["right"] = {"algorithm": "ppo"}
    data["poles"] |= {key: value for key, value in changed.items() if key != "policies"}
    if changed.get("env", "") is None:
        del data["poles"]["env"]
    with pytest.raises(SpecError, match=message):
        parse_experiments(data)
