"""How a spec names the services that get its results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.experiments.spec.loggers import LoggersConfig, MlflowConfig, TrialLogger, WandbConfig, make_logger
from tests.wording import Wording

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
def test_loggers_can_be_given_as_a_name_a_list_or_a_mapping(written: Any, meant: LoggersConfig) -> None:
    found = LoggersConfig.parse(written)
    assert found == meant
    assert LoggersConfig.parse(found.to_data()) == meant


def test_spec_data_lists_only_the_loggers_that_were_requested() -> None:
    assert LoggersConfig().to_data() == {}
    assert list(LoggersConfig.parse(["mlflow"]).to_data()) == ["mlflow"]
    assert LoggersConfig.parse(["mlflow"]).services == ("mlflow",)


def test_a_custom_logger_is_named_by_its_import_path_with_or_without_settings() -> None:
    bare = LoggersConfig.parse(["wandb", "my_lab.json_lines:JsonLines"])
    assert (bare.services, bare.custom) == (("wandb",), {"my_lab.json_lines:JsonLines": {}})
    found = LoggersConfig.parse({"my_lab.json_lines:JsonLines": {"path": "log.jsonl"}})
    assert found.to_data() == {"my_lab.json_lines:JsonLines": {"path": "log.jsonl"}}
    assert LoggersConfig.parse(found.to_data()) == found


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (["wnadb"], "loggers: unknown logger 'wnadb'; did you mean 'wandb'?"),
        ({"wnadb": {}}, "loggers: unknown logger 'wnadb'; did you mean 'wandb'?"),
        ({"a:B": 3}, "loggers.a:B: must be a mapping (key: value), not 3"),
        (["wandb", "wandb"], "loggers: wandb appears twice"),
        ([1], "loggers: each logger must be a name or a mapping, not 1"),
        ({"wandb": None}, "loggers: wandb must not be null: write wandb: {} for its defaults, or leave it out"),
        ({"wandb": {"projct": "x"}}, "loggers.wandb.projct: unknown key 'projct'; did you mean 'project'?"),
        ([{"wandb": {"mode": "of"}}], "loggers.wandb.mode: must be 'online', 'offline' or null, not 'of'"),
        (3, "loggers: must be a mapping (key: value), not 3"),
    ],
)
def test_errors_for_mistakes_in_loggers_explain_what_is_wrong(written: Any, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        LoggersConfig.parse(written, path="loggers")
    assert str(caught.value) == message


class Deaf(TrialLogger):
    def __init__(self, path: str) -> None:
        self.path = path

    def start(self, trial: Mapping[str, Any], directory: Path, known_as: str | None) -> str:
        return self.path


@pytest.mark.parametrize(
    ("path", "settings", "name"),
    [
        ("nowhere:Logger", {}, "nowhere"),
        (f"{__name__}:Nothing", {}, "Nothing"),
        ("pathlib:Path", {}, "rlrun.plugin.TrialLogger"),
        (f"{__name__}:Deaf", {"path": "x"}, "finish and log"),
    ],
    ids=["module", "name", "class", "method"],
)
def test_a_class_that_is_not_a_logger_is_rejected(path: str, settings: Any, name: str, wording: Wording) -> None:
    with wording.raised(UsageError, name):
        make_logger(path, settings)
