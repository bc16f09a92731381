import pytest

from rlrun.algorithm_config import AlgorithmConfig
from rlrun.errors import SpecError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_learners": 2, "num_gpus": 3}, r"num_gpus \(3\) must not exceed num_learners \(2\): a learner uses one"),
        ({"num_parameter_servers": 1}, "num_parameter_servers needs num_learners"),
        ({"num_learners": -1}, "num_learners"),
        ({"precision": "float16"}, "precision"),
    ],
    ids=str,
)
def test_settings_of_learners_that_cannot_be_are_refused(settings, message):
    with pytest.raises(SpecError, match=message):
        AlgorithmConfig.parse(settings)


@pytest.mark.parametrize(
    ("settings", "needs_ray"), [({}, False), ({"num_workers": 1}, True), ({"num_learners": 1}, True)]
)
def test_processes_of_their_own_need_ray(settings, needs_ray):
    assert AlgorithmConfig.parse(settings).needs_ray is needs_ray


def test_learners_share_the_gpus_and_have_the_threads_they_use():
    config = AlgorithmConfig.parse({"num_learners": 4, "num_gpus": 2, "torch_threads": 3})
    assert (config.gpus_per_learner, config.cpus_per_learner) == (0.5, 3)
    assert AlgorithmConfig.parse({"num_gpus": 2}).gpus_per_learner == 0
