"""Fits of an ensemble: what they reach, when they stop, and which members become elites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlrun
from rlrun.algorithms.model_based.fit_model import FitModel, are_held_out
from rlrun.algorithms.model_based.policy import AGENT, DYNAMICS, holdout_errors
from rlrun.algorithms.model_based.settings import FEWEST_TRANSITIONS
from rlrun.algorithms.model_based.transitions import transition_form
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from tests.rounding import rounding_error

Make = Callable[..., rlrun.Training]

# Actions of the env are twice those of the policy, because Pendulum's bounds are 2.
STATE = np.array([[0.9, 0.2, 0.0], [-0.1, 0.8, 0.3], [0.0, 0.1, 0.7]])
CONTROL = np.array([0.5, -0.4, 1.0])
NOISE = 0.1


def linear_quadratic(number: int, seed: int, scale: float = 1.0) -> SampleBatch:
    """Transitions [N, 1] of a linear system with noise, and quadratic rewards with the same noise."""
    rng = np.random.default_rng(seed)
    obs, actions = scale * rng.uniform(-1, 1, (number, 3)), scale * rng.uniform(-1, 1, (number, 1))
    next_obs = obs @ STATE.T + actions * CONTROL + NOISE * rng.standard_normal((number, 3))
    rewards = -np.square(obs).sum(-1) - np.square(actions).sum(-1) + NOISE * rng.standard_normal(number)
    columns = {"obs": obs, "actions": actions, "next_obs": next_obs, "rewards": rewards}
    return SampleBatch(
        {name: column[:, None].astype(np.float32) for name, column in columns.items()},
        terminateds=np.zeros((number, 1), np.bool_),
        indices=np.arange(number),
    )


def fit_of(training: rlrun.Training) -> FitModel:
    replay = ReplayBuffer(training.description.algorithm.config.replay, num_workers=1, n_step=1, gamma=0.99, seed=0)
    return FitModel(
        training.running.trainee,
        replay,
        training.description.algorithm.config.dynamics,
        learning_starts=0,
    )


def means_of(trainee: Trainee, transitions: SampleBatch, training: rlrun.Training) -> np.ndarray[Any, Any]:
    """Returns the predictions of all members for transitions, in the targets' units, [N members, rows, K]."""
    form = transition_form(trainee.spaces, training.description.algorithm.config.dynamics)
    inputs = form.inputs(transitions["obs"][:, 0], 2 * transitions["actions"][:, 0])[:, None]
    members = training.description.algorithm.config.dynamics.num_members
    shape = (len(inputs), members)
    batch = SampleBatch(
        inputs=np.broadcast_to(inputs, (*shape, form.num_inputs)).copy(),
        noise=np.zeros((*shape, form.num_targets), np.float32),
        members=np.broadcast_to(np.arange(members), shape).copy(),
        valid=np.ones(shape, np.bool_),
    )
    return np.moveaxis(trainee.learner.evaluate(drawn_targets, batch), 1, 0)


def drawn_targets(outputs: Any, batch: SampleBatch) -> Any:
    return outputs.dynamics.draw(batch)["targets"]


LEARNS = {
    "num_members": 3,
    "hiddens": [24],
    "minibatch_size": 64,
    "max_epochs": 40,
    "patience": 8,
    "terminated": "never",
}


def test_a_fit_reaches_the_systems_noise_level_and_members_disagree_away_from_the_data(
    mbpo: Make,
) -> None:
    training = mbpo(LEARNS, dynamics_lr=1e-2)
    trainee = training.running.trainee
    fit = fit_of(training).fit(linear_quadratic(1200, seed=1))
    seen = linear_quadratic(500, seed=2)
    truth = np.concatenate([seen["next_obs"] - seen["obs"], seen["rewards"][..., None]], axis=-1)[:, 0]
    predicted = means_of(trainee, seen, training)[fit.elites].mean(0)
    assert np.square(predicted - truth).mean() <= 1.2 * NOISE**2
    far = means_of(trainee, linear_quadratic(500, seed=3, scale=4.0), training).std(0).mean()
    assert far > 3 * means_of(trainee, seen, training).std(0).mean()


def test_elites_have_the_lowest_held_out_errors_at_their_best_epochs(mbpo: Make) -> None:
    training = mbpo({"max_epochs": 6})
    trainee, transitions = training.running.trainee, linear_quadratic(200, seed=1)
    fit = fit_of(training).fit(transitions)
    held_out = are_held_out(transitions["indices"], 0.2)
    form = transition_form(trainee.spaces, training.description.algorithm.config.dynamics)
    columns = {name: transitions[name][:, 0] for name in ("obs", "actions", "next_obs", "rewards")}
    targets = form.targets(columns["obs"], columns["next_obs"], columns["rewards"])
    rows = SampleBatch(
        inputs=form.inputs(columns["obs"], 2 * columns["actions"])[held_out][:, None],
        targets=targets[held_out][:, None],
        terminateds=transitions["terminateds"][held_out],
        valid=np.ones((held_out.sum(), 1), np.bool_),
    )
    errors = trainee.learner.evaluate(holdout_errors, rows)
    np.testing.assert_array_equal(errors, fit.errors)
    assert fit.elites.tolist() == np.argsort(errors)[:2].tolist()
    named = trainee.policy.parameters.named(trainee.learner.flat())
    assert named[f"{DYNAMICS}elites"].tolist() == fit.elites.tolist()


def test_fits_recur_at_intervals_of_stored_steps_and_start_anew_if_the_count_restarts(mbpo: Make) -> None:
    training = mbpo({"fit_interval": 20})
    replay = ReplayBuffer(training.description.algorithm.config.replay, num_workers=1, n_step=1, gamma=0.99, seed=0)
    fit = FitModel(training.running.trainee, replay, training.description.algorithm.config.dynamics, learning_starts=10)
    assert [steps for steps in range(0, 80, 5) if fit.is_due(steps)] == [10, 30, 50, 70]
    assert [steps for steps in range(0, 40, 5) if fit.is_due(steps)] == [10, 30]


def test_a_fit_without_progress_stops_after_patience_epochs(mbpo: Make) -> None:
    training = mbpo({"patience": 4, "max_epochs": 50}, dynamics_lr=0.0)
    assert fit_of(training).fit(linear_quadratic(100, seed=1)).epochs == 4


def test_a_fit_with_progress_stops_after_max_epochs(mbpo: Make) -> None:
    training = mbpo({"patience": 1, "max_epochs": 3}, dynamics_lr=1e-2)
    assert fit_of(training).fit(linear_quadratic(300, seed=1)).epochs == 3


def test_moments_exclude_held_out_data_and_constant_targets_are_not_scaled(mbpo: Make) -> None:
    training = mbpo()
    trainee, transitions = training.running.trainee, linear_quadratic(100, seed=1)
    transitions["rewards"][:] = 1.0
    fit_of(training).fit(transitions)
    learned = ~are_held_out(transitions["indices"], 0.2)
    inputs = np.concatenate([transitions["obs"], 2 * transitions["actions"]], axis=-1)[learned, 0]
    changes = (transitions["next_obs"] - transitions["obs"])[learned, 0]
    named = trainee.policy.parameters.named(trainee.learner.flat())
    np.testing.assert_allclose(named[f"{DYNAMICS}input_mean"], inputs.mean(0), atol=rounding_error(len(inputs)))
    np.testing.assert_allclose(named[f"{DYNAMICS}input_std"], inputs.std(0), rtol=rounding_error(len(inputs)))
    np.testing.assert_allclose(
        named[f"{DYNAMICS}target_mean"], [*changes.mean(0), 1.0], atol=rounding_error(len(inputs))
    )
    np.testing.assert_allclose(named[f"{DYNAMICS}target_std"], [*changes.std(0), 1.0], rtol=rounding_error(len(inputs)))


def test_a_model_fit_does_not_change_the_agents_parameters(mbpo: Make) -> None:
    training = mbpo()
    learner = training.running.trainee.learner
    start, size = learner.policy.parameters.range_under(AGENT)
    before = learner.flat()
    fit_of(training).fit(linear_quadratic(60, seed=1))
    changed = learner.flat() != before
    assert not changed[start : start + size].any()
    assert changed.any()


@pytest.mark.parametrize("ratio", [0.1, 0.2, 0.5])
def test_the_held_out_transitions_are_spread_evenly_and_do_not_change(ratio: float) -> None:
    held_out = are_held_out(np.arange(10_000), ratio)
    for part in np.split(held_out, 100):
        assert abs(part.mean() - ratio) <= 0.03
    np.testing.assert_array_equal(are_held_out(np.arange(500, 600), ratio), held_out[500:600])


def test_some_transitions_are_held_out_even_from_the_smallest_data_set() -> None:
    assert are_held_out(np.arange(FEWEST_TRANSITIONS), 0.05).any()
