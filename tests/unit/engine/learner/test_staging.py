import numpy as np
import torch

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.staging import Staging, over_memory


def test_on_the_cpu_a_read_only_batch_is_not_copied():
    leaf = np.arange(6, dtype=np.float32).reshape(3, 2)
    leaf.flags.writeable = False
    staged = Staging(torch.device("cpu")).batch(SampleBatch(obs={"a": leaf}))["obs"]["a"]
    assert np.shares_memory(staged.numpy(), leaf)
    np.testing.assert_array_equal(staged.numpy(), leaf)


def test_the_spare_row_added_to_a_staged_batch_contains_zeros():
    staged = Staging(torch.device("cpu")).batch(SampleBatch(obs=np.ones((2, 1), np.float32)), spare=3)
    assert staged["obs"].tolist() == [[1.0], [1.0], [0.0]]


def test_staged_settings_are_named_float32_scalars():
    settings = Staging(torch.device("cpu")).settings({"lr": 0.1, "clip": 1.0})
    assert {name: (value.dtype, value.shape, float(value)) for name, value in settings.items()} == {
        "lr": (torch.float32, (), np.float32(0.1)),
        "clip": (torch.float32, (), 1.0),
    }


def test_a_copied_strided_array_keeps_the_order_of_its_elements():
    array = np.arange(6).reshape(2, 3).T
    assert over_memory(array).tolist() == array.tolist()
