"""Tests that need a GPU; `make cuda` runs them."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _needs_a_gpu() -> None:
    """Fails instead of skipping if there is no GPU: whoever runs these tests expects one."""
    assert torch.cuda.is_available(), f"torch {torch.__version__} finds no GPU here"
