import numpy as np
import pytest

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.operators.value_estimates import MeasureValues


def batch(values, targets, valid=None):
    """A batch [T, 1]; one more value closes it."""
    column = np.array(targets, np.float32)[:, None]
    return SampleBatch(
        values=np.array([*values, 1e3], np.float32)[:, None],
        value_targets=column,
        valid=np.ones_like(column, bool) if valid is None else np.array(valid)[:, None],
    )


def test_value_metrics_cover_all_batches_of_an_iteration_together():
    operator = MeasureValues()
    for values, targets in (([0.0, 1.0], [0.0, 2.0]), ([2.0, 4.0], [4.0, 8.0])):
        item = batch(values, targets)
        assert operator(item) is item
    measured = operator.metrics()
    assert measured["learner/value_mean"] == pytest.approx(7 / 4)
    assert measured["learner/explained_variance"] == pytest.approx(0.75)
    assert operator.metrics() == {}


def test_invalid_steps_do_not_affect_value_metrics():
    operator = MeasureValues()
    operator(batch([1.0, np.nan, 3.0], [1.0, np.nan, 3.0], [True, False, True]))
    assert operator.metrics() == {"learner/value_mean": 2.0, "learner/explained_variance": 1.0}


def test_all_reported_value_metrics_are_declared():
    operator = MeasureValues()
    operator(batch([1.0, 2.0], [5.0, 5.0]))
    measured = operator.metrics()
    assert measured["learner/explained_variance"] == 0.0
    assert {metric.name for metric in operator.declared_metrics} == measured.keys()
