"""How a spec says which services hear the results."""

from __future__ import annotations

from typing import Any

import pytest

from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.loggers import LoggersConfig, MlflowConfig, WandbConfig

OFFLINE = {"wandb": {"mode": "offline", "tags": ["a"]}}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ([], LoggersConfig()),
        ("wandb", LoggersConfig(wandb=WandbConfig())),
        (["mlflow", "wandb"], LoggersConfig(wandb=WandbConfig(), mlflow=MlflowConfig())),
        (OFFLINE, LoggersConfig(wandb=WandbConfig(mode="offline", tags=("a",)))),
        ([OFFLINE, "mlflow"], LoggersConfig(wandb=WandbConfig(mode="offline", tags=("a",)), mlflow=MlflowConfig())),
    ],
)
def test_names_lists_and_mappings_say_which_loggers_there_are(written: Any, meant: LoggersConfig) -> None:
    found = LoggersConfig.parse(written)
    assert found == meant
    assert LoggersConfig.parse(found.to_data()) == meant


def test_loggers_that_nobody_asked_for_do_not_stand_in_the_data() -> None:
    assert LoggersConfig().to_data() == {}
    assert list(LoggersConfig.parse(["mlflow"]).to_data()) == ["mlflow"]
    assert LoggersConfig.parse(["mlflow"]).names == ("mlflow",)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (["wnadb"], "loggers: unknown logger 'wnadb'; did you mean 'wandb'?"),
        ({"wnadb": {}}, "loggers.wnadb: unknown key 'wnadb'; did you mean 'wandb'?"),
        (["wandb", "wandb"], "loggers: wandb appears twice"),
        ([1], "loggers: each must be a name or a mapping, not 1"),
        ({"wandb": None}, "loggers: wandb must not be null: write wandb: {} for its defaults, or leave it out"),
        ({"wandb": {"projct": "x"}}, "loggers.wandb.projct: unknown key 'projct'; did you mean 'project'?"),
        ([{"wandb": {"mode": "of"}}], "loggers.wandb.mode: must be 'online' or 'offline' or null, not 'of'"),
        (3, "loggers: must be a mapping (key: value), not 3"),
    ],
)
def test_a_mistake_is_told_in_words(written: Any, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        LoggersConfig.parse(written, path="loggers")
    assert str(caught.value) == message
