"""Generates docs/spec_reference.md: every key of a spec with its type, default and meaning, from the config classes."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from textwrap import fill
from typing import get_args

from pydantic.fields import FieldInfo

from rlrun.engine.envs.env_config import EnvConfig, ExternalConfig, OpenEnvConfig, TaskConfig, TlsConfig, WrapperConfig
from rlrun.engine.league.league_settings import LeagueSettings, SeatSettings
from rlrun.engine.messages.explain import is_model
from rlrun.engine.nn.model_config import ObservationConfig
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.reward_streams.settings import ConstraintConfig, CuriosityConfig
from rlrun.engine.settings.commented_yaml import flow_yaml
from rlrun.engine.settings.config import ConfigModel
from rlrun.engine.training.assemble.policy_spec import PolicySpec
from rlrun.experiments.spec.experiment import (
    CheckpointConfig,
    EvaluationConfig,
    ExpectConfig,
    Learning,
    ResourcesConfig,
    RunSettings,
)
from rlrun.experiments.spec.keys import ENTRY_KEYS
from rlrun.experiments.spec.loggers import MlflowConfig, WandbConfig
from rlrun.experiments.spec.machines import SETTINGS as MACHINE_SETTINGS
from rlrun.experiments.spec.search_space import KINDS
from rlrun.experiments.spec.stages import BeginsConfig
from rlrun.experiments.spec.stop_config import PlateauConfig, StopConfig
from rlrun.experiments.spec.tuning import FailureConfig, OneOf, SchedulerConfig, SearcherConfig
from scripts.docs_site.page import ROOT, table
from scripts.docs_site.settings import COMMON, Row, described, setting_rows, settings_table

SPEC_REFERENCE = ROOT / "docs" / "spec_reference.md"

HEAD = """# Spec reference

This page lists every key of a spec with its type, default and meaning. `make docs` generates the page from the code, so
do not edit it. [Writing a spec](yaml.md) explains the keys that you need first.

`rlrun config ALGORITHM` prints the main settings of one algorithm; with `--all`, it prints all settings. `rlrun schema`
writes a JSON Schema that editors use for completion and checks. *Required* keys have no default.
"""

SECTIONS: dict[str, type[ConfigModel]] = {
    "env": EnvConfig,
    "env.wrappers": WrapperConfig,
    "env.tasks": TaskConfig,
    "env.external": ExternalConfig,
    "env.external.tls": TlsConfig,
    "env.openenv": OpenEnvConfig,
    "config.model.observations": ObservationConfig,
    "config.replay": ReplayConfig,
    "config.curiosity": CuriosityConfig,
    "config.constraint": ConstraintConfig,
    "stop": StopConfig,
    "stop.plateau": PlateauConfig,
    "checkpoint": CheckpointConfig,
    "evaluation": EvaluationConfig,
    "expect": ExpectConfig,
    "resources": ResourcesConfig,
    "failure": FailureConfig,
    "begins": BeginsConfig,
    "loggers.wandb": WandbConfig,
    "loggers.mlflow": MlflowConfig,
    "policies.NAME": PolicySpec,
    "seats.NAME": SeatSettings,
    "league": LeagueSettings,
}
"""Sections of an entry, by path."""

WITHOUT_MODEL = {
    "machines": "Settings of `config` for each machine, by its name ([machines](#machines)).",
    "machine": "Name of the machine whose settings apply, as with `--machine NAME`; null for none.",
    "stages": "Experiments that run one after another, by name ([stages](offline.md#training-in-stages)).",
}
"""Meanings of the keys of an entry that are in no config class."""


def spec_reference_text() -> str:
    """Text of docs/spec_reference.md."""
    return "\n\n".join(part.strip("\n") for part in _parts()) + "\n"


def write_spec_reference() -> None:
    """Writes docs/spec_reference.md."""
    SPEC_REFERENCE.write_text(spec_reference_text(), encoding="utf-8")


def _parts() -> Iterator[str]:
    yield HEAD
    yield "## Experiment\n\nAn entry has these keys. `env`, `stop`, and either `algorithm` or `policies` are required."
    yield table(["key", "type", "default", "meaning"], [_entry_row(key) for key in ENTRY_KEYS])
    for path, model in SECTIONS.items():
        if path == "config.model.observations":
            yield _config_section()
        yield _section(path, model)
    yield from _choices("scheduler", SchedulerConfig)
    yield from _choices("searcher", SearcherConfig)
    yield "## Search spaces\n\nA space replaces a value under `config` or `env` ([guide](search.md#search-spaces))."
    yield table(["space", "draws"], [[f"`{kind.usage}`", kind.meaning] for kind in KINDS.values()])
    yield "## machines\n\nA machine can have these settings, which replace those in `config`:"
    yield fill(", ".join(f"`{name}`" for name in MACHINE_SETTINGS) + ".", 120)


def _entry_row(key: str) -> list[str]:
    """Row for a key of an entry, with a link to its section if it has one."""
    if key in WITHOUT_MODEL:
        return [f"`{key}`", "text" if key == "machine" else "mapping", "`null`", WITHOUT_MODEL[key]]
    model = Learning if key in Learning.model_fields else RunSettings
    setting = model.model_fields[key]
    sections = (path for path in ("config", *SECTIONS, "scheduler", "searcher") if path.partition(".")[0] == key)
    section = next(sections, "")
    name = f"[`{key}`](#{section.replace('.', '').lower()})" if section else f"`{key}`"
    return [name, described(setting), _default(key, setting), " ".join((setting.description or "").split())]


def _default(key: str, setting: FieldInfo) -> str:
    if key == "config" or isinstance(setting.default, ConfigModel):
        return "see there"
    return "required" if setting.is_required() else f"`{flow_yaml(setting.get_default(call_default_factory=True))}`"


def _config_section() -> str:
    return (
        "## config\n\nEvery algorithm has these settings; the defaults are those of most algorithms. "
        "[Each algorithm's page](algorithms.md)\nlists its important settings, and `rlrun config ALGORITHM --all` "
        "prints all of them.\n\n" + settings_table(COMMON)
    )


def _section(path: str, model: type[ConfigModel], level: str = "##", listed: Collection[Row] = ()) -> str:
    rows = [row for row in setting_rows(model) if row not in listed]
    return "\n\n".join([f"{level} {path}", _summary(model), *([settings_table(rows)] if rows else [])])


def _choices(path: str, model: type[OneOf]) -> Iterator[str]:
    """Yields the sections of all schedulers or searchers; the settings that several of them share come first."""
    kinds = {kind: next(filter(is_model, get_args(setting.annotation))) for kind, setting in model.model_fields.items()}
    users: dict[Row, list[str]] = {}
    for kind, settings in kinds.items():
        for row in setting_rows(settings):
            users.setdefault(row, []).append(kind)
    shared = {row: names for row, names in users.items() if len(names) > 1}
    yield f"## {path}\n\n{_summary(model)}\n\nThese settings apply to several {path}s, which the last column lists:"
    yield table(
        ["setting", "type", "default", "meaning", "of"],
        [[f"`{row.name}`", row.kind, f"`{row.default}`", row.meaning, ", ".join(of)] for row, of in shared.items()],
    )
    for kind, settings in kinds.items():
        yield _section(f"{path}.{kind}", settings, "###", shared)


def _summary(model: type[ConfigModel]) -> str:
    return (inspect.getdoc(model) or "").partition("\n\n")[0].replace("``", "`").replace("\n", " ")
