"""What a resumed trial says about its exactness."""

from pathlib import Path

import pytest

from rlrun.experiments.trial.resumption import Resumption


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ({"other_executor": True}, "updates are computed differently than before"),
        ({"other_kernels": True}, "the update kernels, the processor or its BLAS have changed"),
        ({"env_slots_restarted": 2}, "2 of the envs could not be restored and had to start a new episode"),
    ],
)
def test_the_message_about_an_inexact_resume_gives_the_reason(what: dict[str, int], reason: str, wording) -> None:
    resumption = Resumption(Path("c"), 3, **what)  # type: ignore[arg-type]
    assert not resumption.is_exact
    assert resumption.message == wording(reason)
