import numpy as np

from rlrun.engine.flow.clock import Clock
from rlrun.engine.flow.trainee import Filters
from rlrun.engine.functional.moments import Moments
from rlrun.engine.rollout.counts import RolloutCounts


class Learner:
    sgd_steps = 0


def test_scheduled_settings_follow_the_env_steps_and_schedules_may_be_replaced():
    counts = RolloutCounts()
    clock = Clock({"lr": ((0, 1.0), (100, 0.0)), "clip": 0.2}, counts, Learner)
    assert clock.scheduled() == {"lr": 1.0, "clip": 0.2}
    counts.env_steps = 25
    assert clock.env_steps == 25
    assert clock.scheduled() == {"lr": 0.75, "clip": 0.2}
    assert clock.value("lr") == 0.75
    assert clock.scheduled() is clock.scheduled()  # evaluated once for all minibatches between two env steps
    clock.schedules = {"lr": 0.5, "clip": ((0, 0.0), (50, 1.0))}
    assert clock.scheduled() == {"lr": 0.5, "clip": 0.5}


def test_an_operators_in_place_change_to_a_constant_setting_takes_effect_at_once():
    clock = Clock({"lr": 0.5, "clip": 0.2}, RolloutCounts(), Learner)
    assert clock.scheduled() == {"lr": 0.5, "clip": 0.2}
    clock.schedules["lr"] = 0.25
    assert clock.scheduled() == {"lr": 0.25, "clip": 0.2}
    assert clock.scheduled() is clock.scheduled()


def test_env_steps_of_an_iteration_are_counted_from_its_start():
    counts = RolloutCounts()
    clock = Clock({}, counts, Learner)
    counts.env_steps = 30
    assert clock.env_steps_this_iteration == 30
    clock.begin_iteration()
    counts.env_steps = 34
    assert (clock.env_steps_this_iteration, clock.env_steps) == (4, 34)


def test_without_env_steps_schedules_and_iterations_follow_the_sgd_steps():
    counts, learner = RolloutCounts(), Learner()
    clock = Clock({"lr": ((0, 1.0), (100, 0.0))}, counts, lambda: learner, "sgd_steps")
    learner.sgd_steps = 25
    clock.begin_iteration()
    assert (clock.scheduled(), clock.value("lr"), clock.steps) == ({"lr": 0.75}, 0.75, 25)
    learner.sgd_steps, counts.env_steps = 50, 7
    assert (clock.value("lr"), clock.steps_this_iteration, clock.env_steps_this_iteration) == (0.5, 25, 7)


def test_filters_merge_the_moments_of_workers_and_restore_them_from_a_checkpoint():
    filters, restored = Filters(), Filters()
    filters.merge({"returns": Moments.of(np.array([1.0, 2.0]), 1)})
    filters.merge({"returns": Moments.of(np.array([6.0]), 1), "observations/": Moments.of(np.array([[1.0, 4.0]]), 1)})
    restored.merge({"other": Moments.of(np.array([9.0]), 1)})
    restored.load_state(filters.state())
    assert set(restored.moments) == {"returns", "observations/"}
    returns = restored.moments["returns"]
    assert (returns.count, returns.mean, returns.squares) == (3, 3.0, 14.0)
    np.testing.assert_array_equal(restored.moments["observations/"].mean, [1.0, 4.0])
