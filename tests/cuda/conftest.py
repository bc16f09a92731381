"""Tests that need a GPU; `make cuda` runs them."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _needs_a_gpu() -> None:
    """Fails, rather than skips, where there is none: who asks for these tests wants to know about a GPU."""
    assert torch.cuda.is_available(), f"torch {torch.__version__} finds no GPU here"
