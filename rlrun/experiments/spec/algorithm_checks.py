"""Validation of the algorithm name in a spec entry, with suggestions for an unknown name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.messages.explain import Mistake, shown
from rlrun.engine.settings.registry import (
    UserCodeError,
    algorithm_class,
    algorithm_names,
    corresponding_algorithm,
    known_algorithm,
    load_object,
)
from rlrun.experiments.spec.search_space import is_search_space
from rlrun.experiments.spec.section import refusals


def check_algorithm(data: Mapping[str, Any]) -> tuple[type[Algorithm[Any]] | None, list[Mistake]]:
    """Validates the algorithm name in a spec entry or policy; returns the class (None if invalid) and the mistakes."""
    name = data.get("algorithm")
    if "algorithm" not in data:
        return None, [Mistake(("algorithm",), f"is missing: add one of {', '.join(algorithm_names())}")]
    if is_search_space(name):
        return None, [Mistake(("algorithm",), "an experiment has one algorithm: write a separate experiment for each")]
    if not isinstance(name, str):
        return None, [Mistake(("algorithm",), f"must be the name of an algorithm, not {shown(name)}")]
    try:
        found = algorithm_class(name)
    except UsageError as error:
        return None, [Mistake(("algorithm",), str(error))]
    if not issubclass(found, Algorithm):
        return None, [Mistake(("algorithm",), f"'{name}' is not an Algorithm: derive it from rlrun.plugin.Algorithm")]
    settings = next((vars(base)["Config"] for base in found.__mro__ if "Config" in vars(base)), None)
    if not (isinstance(settings, type) and issubclass(settings, AlgorithmConfig)):
        what = "it is missing" if settings is None else f"it is {shown(settings)}"
        message = f"'{name}' needs a class attribute Config that is derived from AlgorithmConfig: {what}"
        return None, [Mistake(("algorithm",), message)]
    family = found.policy_family
    if family.startswith("rlrun."):
        return found, []
    mistakes = refusals(("algorithm",), partial(load_object, family, "policy family"))
    return (None if mistakes else found), mistakes


def candidates_for(name: Any) -> tuple[type[Algorithm[Any]], ...]:
    """Suggestions for an unknown algorithm name: the most similar installed name, or all installed names.

    A wrong import path, or an installed plugin that cannot be loaded, gets no suggestions, since it refers to the
    user's own algorithm.
    """
    if isinstance(name, str) and (":" in name or known_algorithm(name) in algorithm_names()):
        return ()
    meant = corresponding_algorithm(name) if isinstance(name, str) else ""
    return (installed_algorithms()[meant],) if meant else tuple(installed_algorithms().values())


def installed_algorithms() -> dict[str, type[Algorithm[Any]]]:
    """Installed algorithms by name, except those of plugins whose import fails."""
    found = {}
    for name in algorithm_names():
        try:
            algorithm, _ = check_algorithm({"algorithm": name})
        except UserCodeError:  # from a plugin that the spec does not name
            continue
        if algorithm is not None:
            found[name] = algorithm
    return found
