"""The package's files, read once for all tests of how it is built."""

import pytest

from scripts.house import ROOT, House


@pytest.fixture(scope="session")
def house() -> House:
    return House(ROOT)
