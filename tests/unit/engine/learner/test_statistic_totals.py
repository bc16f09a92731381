import torch

from rlrun.engine.learner.statistic_totals import StatisticTotals


def test_means_cover_all_minibatches_that_measured_a_statistic_and_restart_when_taken():
    totals = StatisticTotals()
    totals.add(("value", "policy"), torch.tensor([1.0, 10.0]))
    totals.add(("value",), torch.tensor([4.0]))
    totals.add(("value",), torch.tensor([7.0]))
    assert totals.total_of("value") == (12.0, 3)
    assert totals.total_of("policy") == (10.0, 1)
    assert totals.total_of("other") == (0, 0)
    assert totals.take() == {"value": 4.0, "policy": 10.0}
    assert totals.take() == {}


def test_tensors_may_change_after_they_were_added_to_the_totals():
    totals, measured = StatisticTotals(), torch.tensor([1.0])
    totals.add(("value",), measured)
    measured.zero_()
    assert totals.take() == {"value": 1.0}


def test_the_means_of_an_update_cover_only_statistics_added_since_the_update_began():
    totals = StatisticTotals()
    totals.add(("value",), torch.tensor([100.0]))
    totals.begin_update()
    assert totals.update_means() == {}
    totals.add(("value",), torch.tensor([1.0]))
    totals.add(("value",), torch.tensor([4.0]))
    totals.add(("value", "policy"), torch.tensor([7.0, 10.0]))
    assert totals.update_means() == {"value": 4.0, "policy": 10.0}
    assert totals.take() == {"value": 28.0, "policy": 10.0}
    assert totals.update_means() == {}
