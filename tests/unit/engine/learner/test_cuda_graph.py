"""Refusals of what a CUDA graph cannot hold, before it is captured; graphs themselves are tested on a GPU."""

import pytest
import torch

from rlrun.engine.kernels.steps import NoKernel
from rlrun.engine.learner.executors.cuda_graph import OnTheGpu

HOST, ELSEWHERE = torch.arange(3.0), torch.empty(3, device="meta")
"""A tensor of the host, and one of a device that is not the host."""


@pytest.mark.parametrize(
    "operation",
    [
        lambda: HOST.sum().item(),
        lambda: HOST[HOST > 1],
        lambda: HOST.nonzero(),
        lambda: HOST.to("meta"),
        lambda: torch.empty(3, device="meta").copy_(HOST),
        lambda: torch.tensor(0.5).to("meta"),
    ],
    ids=["item", "boolean index", "nonzero", "to the device", "into a tensor", "a scalar to the device"],
)
def test_waiting_for_the_gpu_and_copies_from_the_host_are_refused(operation):
    with pytest.raises(NoKernel), OnTheGpu():
        operation()


def test_what_stays_on_the_device_and_scalars_of_the_host_are_not():
    with OnTheGpu():
        found = (ELSEWHERE * torch.tensor(0.5) + 1).sum()
        ELSEWHERE.index_select(0, torch.empty(2, dtype=torch.int64, device="meta"))
        HOST[torch.tensor([0, 2])]
        HOST.mul(2).sum()  # constants that are made on the host and stay there
    assert found.device.type == "meta"
