"""What tests of flows share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rlrun.flow.flow import Flow
from rlrun.flow.nodes import Delivered, Polled, Source


class Letters(Source):
    """Endless items of one letter: a0, a1, ..."""

    def __init__(self, letter: str) -> None:
        super().__init__(letter)
        self.letter = letter
        self.number = -1

    def next_item(self) -> Polled:
        self.number += 1
        return Delivered(f"{self.letter}{self.number}")

    @property
    def stateful(self) -> bool:
        return True

    def state(self) -> dict[str, Any]:
        return {"number": self.number}

    def load_state(self, state: Any) -> None:
        self.number = state["number"]


@pytest.fixture
def letters() -> Callable[[str], list[Flow[str]]]:
    """Makes an endless flow, whose position is saved, of each letter in a text."""
    return lambda names: [Flow(Letters(name)) for name in names]
