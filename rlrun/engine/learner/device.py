"""Device selection and thread limits of learners (torch)."""

from __future__ import annotations

import torch
from threadpoolctl import threadpool_limits

from rlrun.engine.messages.errors import UsageError


def available_device(num_gpus: float) -> str:
    """Returns the name of the learner's torch device: `cuda` if GPUs are requested, else `cpu`.

    Raises:
        UsageError: A GPU is requested but torch finds none.
    """
    if num_gpus == 0:
        return "cpu"
    if not torch.cuda.is_available():
        raise UsageError(
            f"config.num_gpus is {num_gpus:g}, but torch {torch.__version__} finds no GPU on this machine; set it to 0"
        )
    return "cuda"


def limit_threads(threads: int) -> None:
    """Sets the number of torch and BLAS threads of this process."""
    threadpool_limits(threads, user_api="blas")
    torch.set_num_threads(threads)
