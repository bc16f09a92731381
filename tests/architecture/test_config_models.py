"""Every setting that a user can write is documented."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from pydantic.fields import FieldInfo

import rlrun
from rlrun.engine.settings.config import ConfigModel

MOST_LEVELS = 4


def config_models() -> list[type[ConfigModel]]:
    for module in pkgutil.walk_packages(rlrun.__path__, "rlrun."):
        # The adapter to Tune and the entry script define no settings, and importing Ray takes seconds.
        if module.name not in ("rlrun.__main__", "rlrun.experiments.tune.trainable"):
            importlib.import_module(module.name)
    return sorted(
        {model for model in _subclasses(ConfigModel) if model.__module__.startswith("rlrun.")},
        key=lambda model: f"{model.__module__}.{model.__qualname__}",
    )


def _subclasses(model: type[ConfigModel]) -> Iterator[type[ConfigModel]]:
    for subclass in model.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


MODELS = config_models()


def test_the_checked_config_classes_include_those_of_ppo_env_and_model() -> None:
    assert {"AlgorithmConfig", "EnvConfig", "ModelConfig", "PPOConfig"} <= {model.__name__ for model in MODELS}


def _levels(model: type[ConfigModel]) -> int:
    """Returns the number of classes from a config down to `ConfigModel`, including both; presets are data."""
    is_written = "." not in model.__qualname__
    return is_written + max((_levels(base) for base in model.__bases__ if issubclass(base, ConfigModel)), default=-1)


def test_config_classes_inherit_through_at_most_four_levels() -> None:
    assert [model.__qualname__ for model in MODELS if _levels(model) > MOST_LEVELS] == []
    assert max(map(_levels, MODELS)) == MOST_LEVELS


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__qualname__)
def test_every_field_has_a_docstring(model: type[ConfigModel]) -> None:
    silent = [name for name, field in model.model_fields.items() if not field.description]
    assert silent == []


def _says_the_same(field: FieldInfo, other: FieldInfo) -> bool:
    return (field.annotation, field.description) == (other.annotation, other.description)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__qualname__)
def test_no_field_is_redeclared_only_to_change_its_default(model: type[ConfigModel]) -> None:
    bases = [base for base in model.__mro__[1:] if issubclass(base, ConfigModel)]
    inherited = {name: field for base in reversed(bases) for name, field in base.model_fields.items()}
    again = [
        name
        for name in vars(model).get("__annotations__", {})
        if name in inherited and _says_the_same(model.model_fields[name], inherited[name])
    ]
    assert again == [], "say @defaults(...) above the class"
