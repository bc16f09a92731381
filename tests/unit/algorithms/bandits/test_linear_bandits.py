"""LinUCB and LinTS: choices by hand, exact resume, regret, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.bandits.linear_arms import LinearArms, PosteriorSampling, UpperConfidenceBound
from rlrun.algorithms.bandits.regressions import RidgeRegressions
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.weights import Weights
from rlrun.engine.settings.config import SpecError
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.training import Training
from tests.rounding import rounding_error

LINEAR = "rlrun.toys:LinearBandit"


def training_of(name: str, *, seed: int = 3, env: dict[str, Any] | None = None, **settings: Any) -> Training:
    cls = algorithm_class(name)
    where = EnvConfig.parse({"id": LINEAR, **(env or {})})
    return Training(where, cls(cls.Config.parse({"min_env_steps_per_iteration": 30, **settings})), seed=seed)


def fitted_arms(number: int, rows: int, draws: np.random.Generator) -> tuple[LinearArms, RidgeRegressions]:
    regressions = RidgeRegressions(number, 2, ridge=1.0)
    for i in range(rows):
        regressions.add(i % number, draws.standard_normal(2), draws.standard_normal())
    arms = LinearArms(number, 2)
    flat = np.concatenate([regressions.coefficients().ravel(), regressions.roots.ravel()])
    arms.load(flat.astype(np.float32))
    return arms, regressions


@pytest.mark.parametrize("number", [3, 1])
def test_linucb_pulls_the_arm_with_the_largest_upper_bound(number: int) -> None:
    draws = np.random.default_rng(0)
    arms, regressions = fitted_arms(number, 7, draws)
    contexts = draws.standard_normal((20, 2) if number == 3 else (20, 3, 2)).astype(np.float32)
    exploration = UpperConfidenceBound("alpha")
    exploration.load(Weights(0, np.zeros(0, np.float32), schedules={"alpha": 1.5}))
    heads, _ = arms({"obs": contexts})
    chosen = exploration.sample(heads, draws, None)
    inverses = regressions.roots @ regressions.roots.transpose(0, 2, 1)
    for context, arm in zip(contexts, chosen, strict=True):
        bounds = []
        for i in range(3):
            x, which = (context, i) if number == 3 else (context[i], 0)
            bounds.append(x @ regressions.coefficients()[which] + 1.5 * np.sqrt(x @ inverses[which] @ x))
        assert arm == np.argmax(bounds)


@pytest.mark.parametrize("number", [2, 1])
def test_lints_samples_the_posterior_with_one_draw_for_shared_coefficients(number: int) -> None:
    draws = np.random.default_rng(0)
    arms, regressions = fitted_arms(number, 5, draws)
    context = draws.standard_normal((1, 2) if number == 2 else (1, 2, 2)).astype(np.float32)
    heads, _ = arms({"obs": context})
    exploration = PosteriorSampling("v", number, 2)
    spreads = np.repeat(heads["spreads"], 20_000, 0)
    added = exploration.added(spreads, exploration.noise(draws, 1, 20_000)[0])
    inverses = regressions.roots @ regressions.roots.transpose(0, 2, 1)
    if number == 2:
        expected = np.diag([context[0] @ inverse @ context[0] for inverse in inverses])
    else:
        expected = context[0] @ inverses[0] @ context[0].T
    np.testing.assert_allclose(np.cov(added.T), expected, atol=0.05 * expected.max())
    np.testing.assert_allclose(added.mean(0), 0.0, atol=0.05)


def test_discrete_observations_work_as_contexts() -> None:
    training = training_of("linucb", env={"id": "rlrun.toys:BernoulliBandit"})
    training.step()
    coefficients = training.running.trainee.learner.flat()[:2]
    assert (coefficients > 0.2).any()
    assert training.act(0) == coefficients.argmax()
    training.close()


@pytest.mark.parametrize("name", ["linucb", "lints"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_restored_run_continues_bit_for_bit(name: str, shared: bool, tmp_path: Path) -> None:
    training = training_of(name, env={"kwargs": {"shared": shared, "pulls": 25}})
    training.step()
    training.save(tmp_path / "checkpoint")
    training.step()
    expected = training.running.trainee.learner.flat().tobytes()
    training.close()
    restored = Training.restore(tmp_path / "checkpoint")
    restored.step()
    assert restored.running.trainee.learner.flat().tobytes() == expected
    restored.close()


def test_several_env_slots_learn_a_single_regression_over_all_their_pulls() -> None:
    training = training_of("linucb", num_envs_per_worker=3, rollout_fragment_length=4, env={"kwargs": {"pulls": 6}})
    seen: list[Any] = []
    flow = training.running.flow
    for _ in range(3):
        item = next(flow)
        valid, steps = item["valid"], item.steps()
        seen += zip(steps["obs"][valid], steps["actions"][valid], steps["rewards"][valid], strict=True)
    whole = RidgeRegressions(5, 10, ridge=1.0)
    for context, arm, reward in reversed(seen):
        whole.add(int(arm), context, float(reward))
    found = training.running.trainee.learner.flat()[:50].reshape(5, 10)
    np.testing.assert_allclose(found, whole.coefficients(), atol=rounding_error(1))
    assert len(seen) == training.running.workers.counts.env_steps
    training.close()


@pytest.mark.parametrize(("name", "bound"), [("linucb", 12.0), ("lints", 16.0)])
def test_total_regret_is_small_and_most_of_it_is_incurred_early(name: str, bound: float) -> None:
    env = {"kwargs": {"pulls": 600, "arms": 3, "features": 5}}
    training = training_of(name, seed=100, env=env, min_env_steps_per_iteration=600)
    result = training.step()
    assert -bound < result["info/minus_regret"] < 0
    assert result["info/early_regret_share"] > 0.7
    training.close()


def test_unsuitable_action_and_observation_spaces_are_refused() -> None:
    for env, message in (
        ("Pendulum-v1", r"a Discrete action space \(one action per arm\), but this env has Box"),
        (
            "rlrun.toys:DictCartPole",
            r"features of each of its 2 arms \(a Box \[2, features\]\), not Dict",
        ),
    ):
        training = training_of("linucb", env={"id": env})
        with pytest.raises(UsageError, match=message):
            training.step()


@pytest.mark.parametrize("length", [1, 7])
def test_an_env_with_multi_step_episodes_causes_one_warning(length: int, wording) -> None:
    training = training_of("linucb", env={"id": "CartPole-v1"}, num_envs_per_worker=2, rollout_fragment_length=length)
    with wording.warned(UserWarning, "q_learning"):
        training.step()
    training.step()  # a second warning would be an error
    training.close()


def test_settings_for_networks_and_gradient_learning_are_refused_with_the_reason(wording) -> None:
    config = algorithm_class("lints").Config
    with wording.raised(SpecError):
        config.parse({"model": {"hiddens": [8]}})
    with wording.raised(SpecError):
        config.parse({"gamma": 0.9})
