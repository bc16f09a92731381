"""What a resumed trial says about its exactness."""

from pathlib import Path

import pytest

from rlrun.experiments.trial.resumption import Resumption


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ({"other_executor": True}, "updates are computed in another way than before"),
        ({"other_kernels": True}, "the kernels of updates, the processor or its BLAS are others than before"),
        ({"env_slots_restarted": 2}, "2 envs could not be restored and begin a new episode"),
    ],
)
def test_a_resume_that_is_not_exact_names_the_reason(what: dict[str, int], reason: str, wording) -> None:
    resumption = Resumption(Path("c"), 3, **what)  # type: ignore[arg-type]
    assert not resumption.is_exact
    assert resumption.message == wording(reason)
