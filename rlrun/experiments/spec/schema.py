"""JSON Schema of spec files, for completion, documentation and validation in editors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from rlrun.engine.algorithm_config import AlgorithmConfig, WorldSamplingSettings
from rlrun.engine.envs.env_config import (
    OF_MANY_AGENTS,
    OF_ONE_AGENT,
    OF_TENSORS,
    EnvConfig,
    OpenEnvConfig,
    WrapperConfig,
)
from rlrun.engine.league.league_settings import LeagueSettings, SeatSettings
from rlrun.engine.messages.errors import RlrunError
from rlrun.engine.settings.config import ConfigModel
from rlrun.engine.settings.registry import algorithm_class, algorithm_names
from rlrun.engine.training.assemble.policy_spec import PolicySpec
from rlrun.experiments.spec.auto_settings import AUTO_SETTINGS, KEPT
from rlrun.experiments.spec.experiment import AUTO, MAX_TRIALS, RunSettings
from rlrun.experiments.spec.loggers import LoggersConfig
from rlrun.experiments.spec.machines import SETTINGS as MACHINE_SETTINGS
from rlrun.experiments.spec.search_space import KINDS, Kind
from rlrun.experiments.spec.stages import STAGES
from rlrun.experiments.spec.stop_config import END
from rlrun.experiments.spec.tuning import OneOf, SchedulerConfig, SearcherConfig

_SPACE = {"$ref": "#/$defs/SearchSpace"}
_GROUPED_DIGITS = {"$ref": "#/$defs/GroupedDigits"}
_AUTO = {"const": AUTO, "description": "Measured before the run."}
_END_OF_RUN = {"const": END, "description": "The end of the run."}
_OF_DATA = {"required": ["config"], "properties": {"config": {"type": "object", "required": ["input"]}}}
"""Schema of entries that learn from data, which need no env."""
_PATH = r"^[\w.]+:[\w.]+$"
"""Pattern of an import path, `package.module:Class`."""
_KEPT_OUTSIDE = ("description", "default")


def json_schema() -> dict[str, Any]:
    """Builds the JSON Schema (draft 2020-12) of spec files.

    The schema contains the config of every installed algorithm, and accepts search spaces in place of values.
    Constraints that involve more than one value (bounds of ranges, metrics, env ids) are checked only by ``rlrun
    validate``.
    """
    configs = _algorithm_configs()
    models: list[type[ConfigModel]] = [
        *(RunSettings, EnvConfig, OpenEnvConfig, WrapperConfig, WorldSamplingSettings, PolicySpec),
        *(SeatSettings, LeagueSettings),
        *configs.values(),
    ]
    references, generated = models_json_schema([(model, "validation") for model in models])
    definitions: dict[str, Any] = generated["$defs"]
    of_trials = (EnvConfig, OpenEnvConfig, WorldSamplingSettings, SeatSettings, LeagueSettings)
    with_spaces = _definitions([*of_trials, *configs.values()])
    eased = {name: _simplified(schema, spaces=name in with_spaces) for name, schema in definitions.items()}
    for model in configs.values():
        properties = eased[references[model, "validation"]["$ref"].rpartition("/")[2]]["properties"]
        for setting in AUTO_SETTINGS if KEPT in properties else ():
            properties[setting] = _alternative(properties[setting], _AUTO)
    alone = {"type": "string", "description": "Only the id."}
    eased["WrapperConfig"] = {"anyOf": [alone, eased["WrapperConfig"]]}
    eased["EnvConfig"] = {"anyOf": [alone, *_kinds_of_env(eased["EnvConfig"])]}
    for choice in (SchedulerConfig, SearcherConfig):
        eased[choice.__name__] = _one_of(choice, eased[choice.__name__])
    eased["LoggersConfig"] = _abbreviated_mapping(LoggersConfig, eased["LoggersConfig"])
    mutation = {"allOf": [_SPACE, {"not": {"required": ["grid_search"]}}]}
    eased["PbtConfig"]["properties"]["mutations"] |= {"additionalProperties": mutation, "minProperties": 1}
    eased["Pb2Config"]["properties"]["bounds"]["minProperties"] = 1
    settings = eased.pop("RunSettings")
    by_algorithm = {name: references[model, "validation"] for name, model in configs.items()}
    policy = _policy(eased.pop("PolicySpec"), by_algorithm)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rlrun spec",
        "description": "Experiments by name.",
        "type": "object",
        "minProperties": 1,
        "patternProperties": {r"^\.\w": {"description": "Not an experiment: a place for YAML anchors."}},
        "additionalProperties": {"$ref": "#/$defs/Experiment"},
        "$defs": {
            "Experiment": _experiment(
                settings,
                references[EnvConfig, "validation"],
                references[WorldSamplingSettings, "validation"],
                by_algorithm,
            ),
            "Policy": policy,
            "SearchSpace": {"oneOf": [_space(kind) for kind in KINDS.values()]},
            "GroupedDigits": {
                "description": "A number with digits grouped by underscores, which some editors treat as a string.",
                "type": "string",
                "pattern": r"^[-+]?[0-9]+(_[0-9]+)+(\.[0-9]*)?([eE][-+]?[0-9]+)?$",
            },
            **eased,
        },
    }


def _definitions(models: Sequence[type[ConfigModel]]) -> frozenset[str]:
    """Names of the schemas of some config classes and of all nested config classes."""
    return frozenset(models_json_schema([(model, "validation") for model in models])[1]["$defs"])


def _kinds_of_env(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Schemas of a single-agent env, an OpenEnv server's, an env of tensors and a multi-agent world."""
    properties = schema["properties"]

    def without(*names: str) -> dict[str, Any]:
        return {name: value for name, value in properties.items() if name not in names}

    of_one, of_many = without(*OF_MANY_AGENTS, *OF_TENSORS), without(*OF_ONE_AGENT, *OF_TENSORS)
    served = {name: value for name, value in of_one.items() if name not in ("id", "kwargs")}
    served = {"openenv": {"$ref": "#/$defs/OpenEnvConfig"}, **served}
    return [
        {**schema, "properties": of_one, "required": ["id"]},
        {**schema, "properties": served, "required": ["openenv"]},
        {**schema, "properties": without(*OF_ONE_AGENT, *OF_MANY_AGENTS), "required": ["tensors"]},
        {**schema, "properties": of_many},
    ]


def _one_of(model: type[OneOf], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Schema of a tagged union (`OneOf`): a mapping with one key, or a bare name for default settings."""
    names = [name for name in model.kinds() if not model.needs_settings(name)]
    mapping = {**schema, "minProperties": 1, "maxProperties": 1}
    return {"anyOf": [{"enum": names, "description": "Only the name, with default settings."}, mapping]}


def _abbreviated_mapping(model: type[ConfigModel], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Schema of a mapping by name or import path, which may be abbreviated to a name, or to a list."""
    name = {"anyOf": [{"enum": list(model.model_fields)}, {"type": "string", "pattern": _PATH}]}
    others = {"patternProperties": {_PATH: {"type": "object"}}, "additionalProperties": False}
    schema = {**schema, **others}
    return {"anyOf": [name, {"type": "array", "items": {"anyOf": [name, schema]}}, schema]}


def _algorithm_configs() -> dict[str, type[AlgorithmConfig]]:
    """Config classes of the installed algorithms, without those whose import fails."""
    configs = {}
    for name in algorithm_names():
        try:
            configs[name] = algorithm_class(name).Config
        except RlrunError:
            continue
    return configs


def _algorithm(by_algorithm: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "description": "An installed algorithm, or package.module:Class for a custom one.",
        "anyOf": [{"enum": list(by_algorithm)}, {"type": "string", "pattern": _PATH}],
    }


def _configs(by_algorithm: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Schemas of `config`, conditional on the value of `algorithm`."""
    return [
        {
            "if": {"properties": {"algorithm": {"const": name}}, "required": ["algorithm"]},
            "then": {"properties": {"config": {"anyOf": [reference, {"type": "null"}, _SPACE]}}},
        }
        for name, reference in by_algorithm.items()
    ]


def _policy(schema: Mapping[str, Any], by_algorithm: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Schema of a policy of a multi-agent world; settings of sampling are not excluded."""
    config = {"description": "Settings of the algorithm.", "type": ["object", "null"]}
    properties = {**schema["properties"], "algorithm": _algorithm(by_algorithm), "config": config}
    return {**schema, "required": ["algorithm"], "properties": properties, "allOf": _configs(by_algorithm)}


def _experiment(
    settings: Mapping[str, Any],
    env: Mapping[str, Any],
    sampling: Mapping[str, Any],
    by_algorithm: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Schema of a spec entry; the schema of `config` is conditional on the algorithm or policies."""
    seeds = settings["properties"]["seeds"]
    number = {"type": "integer", "minimum": 1, "maximum": MAX_TRIALS, "description": "Number of seeds, starting at 0."}
    return {
        "type": "object",
        "if": {"not": {"required": [STAGES]}},
        "then": {
            "required": ["stop"],
            "oneOf": [{"required": ["algorithm"]}, {"required": ["policies"]}],
            "anyOf": [{"required": ["env"]}, _OF_DATA],
        },
        "dependentRequired": {"seats": ["policies"], "league": ["seats"]},
        "additionalProperties": False,
        "properties": {
            "algorithm": _algorithm(by_algorithm),
            "env": {"description": "The environment, or a multi-agent world.", "anyOf": [env, _SPACE]},
            "policies": {
                "description": "The policies of a multi-agent world, by name.",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"$ref": "#/$defs/Policy"},
            },
            "mapping": {
                "description": "Policies by agent id pattern, or package.module:function.",
                "anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "string"}],
            },
            "train": {
                "description": "The policies that learn; default: all.",
                "type": "array",
                "minItems": 1,
                "items": {"type": "string"},
            },
            "machine": {"description": "Machine whose settings are used.", "type": "string"},
            "machines": {
                "description": "Settings of distribution by machine, which replace those in config.",
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {key: {} for key in MACHINE_SETTINGS},
                },
            },
            "seats": {
                "description": "Policies of the world that do not learn, by name: frozen opponents play there.",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"anyOf": [{"$ref": "#/$defs/SeatSettings"}, _SPACE]},
            },
            "league": {
                "description": "How the pool of past selves grows and is rated.",
                "anyOf": [{"$ref": "#/$defs/LeagueSettings"}, {"type": "null"}, _SPACE],
            },
            "config": {
                "description": "Settings of the algorithm; with policies, how experience is collected for all of them.",
                "type": ["object", "null"],
            },
            STAGES: {
                "description": "Experiments by name that run one after another and share the surrounding keys.",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"type": "object"},
            },
            **settings["properties"],
            "seeds": _alternatives({**seeds, "anyOf": [number, {key: seeds[key] for key in ("type", "items")}]}),
        },
        "allOf": [
            *_configs(by_algorithm),
            {
                "if": {"required": ["policies"]},
                "then": {"properties": {"config": {"anyOf": [sampling, {"type": "null"}, _SPACE]}}},
            },
        ],
    }


def _alternatives(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Reduces a schema to the alternatives (`anyOf`), description and default."""
    return {key: value for key, value in schema.items() if key in ("anyOf", *_KEPT_OUTSIDE)}


def _space(kind: Kind) -> dict[str, Any]:
    if kind.parameters:
        number = {"type": "integer" if kind.whole else "number"}
        items = {"items": {"anyOf": [number, _GROUPED_DIGITS]}}
        arguments = {"type": "array", "minItems": len(kind.parameters), "maxItems": len(kind.parameters), **items}
    else:
        arguments = {"type": "array", "minItems": 1}
    description = f"{kind.usage}. {kind.meaning}"
    return {
        "type": "object",
        "properties": {kind.name: {**arguments, "description": description}},
        "required": [kind.name],
        "additionalProperties": False,
    }


def _simplified(schema: Any, *, spaces: bool) -> Any:
    """Rewrites Pydantic's schema: no titles, numbers with grouped digits and, below configs, search spaces."""
    if isinstance(schema, list):
        return [_simplified(item, spaces=spaces) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    result = {
        key: _simplified(value, spaces=spaces) for key, value in schema.items() if key not in ("title", "properties")
    }
    if "properties" in schema:
        properties = {name: _simplified(value, spaces=spaces) for name, value in schema["properties"].items()}
        result["properties"] = {
            name: _alternative(value, _SPACE) if spaces else value for name, value in properties.items()
        }
    if "prefixItems" in result and schema["prefixItems"][0].get("type") == "integer":  # a point of a schedule
        first, *others = result["prefixItems"]
        result["prefixItems"] = [_alternative(first, _END_OF_RUN), *others]
    if result.get("type") in ("integer", "number"):
        return _alternative(result, _GROUPED_DIGITS)
    return result


def _alternative(schema: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Union (`anyOf`) of two schemas, with description and default at the top level."""
    outside = {key: schema[key] for key in _KEPT_OUTSIDE if key in schema}
    inside = {key: value for key, value in schema.items() if key not in outside}
    alternatives = inside["anyOf"] if list(inside) == ["anyOf"] else [inside]
    return {**outside, "anyOf": [*alternatives, other]}
