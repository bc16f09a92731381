"""The learner's device and number of threads (torch)."""

from __future__ import annotations

import torch
from threadpoolctl import threadpool_limits

from rlrun.errors import UsageError


def available_device(num_gpus: float) -> str:
    """Torch's name of the learner's device.

    Raises:
        UsageError: A GPU is requested and torch finds none.
    """
    if num_gpus == 0:
        return "cpu"
    if not torch.cuda.is_available():
        raise UsageError(
            f"config.num_gpus is {num_gpus:g}, and torch {torch.__version__} finds no GPU here; set it to 0"
        )
    return "cuda"


def limit_threads(threads: int) -> None:
    """Limits the threads of torch and BLAS in this process."""
    threadpool_limits(threads, user_api="blas")
    torch.set_num_threads(threads)
