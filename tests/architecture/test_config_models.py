"""Every setting that a user can write explains itself."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import rlrun
from rlrun.config import ConfigModel


def config_models() -> list[type[ConfigModel]]:
    for module in pkgutil.walk_packages(rlrun.__path__, "rlrun."):
        # The adapter to Tune and the entry script define no settings, and importing Ray takes seconds.
        if module.name not in ("rlrun.__main__", "rlrun.tune.trainable"):
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


def test_the_settings_of_ppo_are_among_those_looked_at() -> None:
    assert {"AlgorithmConfig", "EnvConfig", "ModelConfig", "PPOConfig"} <= {model.__name__ for model in MODELS}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__qualname__)
def test_every_field_has_a_docstring(model: type[ConfigModel]) -> None:
    silent = [name for name, field in model.model_fields.items() if not field.description]
    assert silent == []
