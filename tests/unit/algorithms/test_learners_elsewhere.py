"""Announcements of compilation in processes that cannot report anything before it is done."""

from __future__ import annotations

import pytest

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.learner.executors.update_executor import UpdateExecutor
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.assemble.assembly import assemble
from rlrun.engine.training.assemble.policies import Policies


def assembled(algorithm: str, num_workers: int, *, update_executor: UpdateExecutor) -> list[str]:
    """Assembles a training without starting other processes; returns what was announced."""
    announced: list[str] = []
    kind = algorithm_class(algorithm)
    config = kind.Config.parse({"num_workers": num_workers})
    assemble(
        EnvConfig.parse("CartPole-v1"),
        Policies.alone(kind(config)),
        0,
        announced.append,
        update_executor=update_executor,
    )
    return announced


@pytest.mark.parametrize("algorithm", ["a3c", "async_dqn", "ddppo", "gorila"])
@pytest.mark.parametrize(
    ("num_workers", "update_executor"), [(0, "compiled"), (2, "eager"), (2, "numpy"), (2, "compiled")]
)
def test_compilation_of_updates_on_workers_is_announced_beforehand(
    algorithm: str, num_workers: int, update_executor: UpdateExecutor
) -> None:
    announced = assembled(algorithm, num_workers, update_executor=update_executor)
    assert ["compiles the update" in text for text in announced] == [True] * (
        update_executor == "compiled" and num_workers > 0
    )


@pytest.mark.parametrize("algorithm", ["ppo", "apex"])
def test_workers_that_only_collect_experience_announce_no_compilation(algorithm: str) -> None:
    assert assembled(algorithm, 2, update_executor="compiled") == []
