"""Imports the objects that specs name: built-in algorithms, entry points, import paths.

An import path has the form ``package.module:Name``. If a user's module raises during import, the user sees the module's
traceback. Only a missing module or name counts as a mistake in the spec.
"""

from __future__ import annotations

import importlib
import importlib.util
import types
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from rlrun.engine.messages.errors import TrainingFailed, UsageError, did_you_mean

if TYPE_CHECKING:
    from rlrun.engine.messages.foreign_names import OtherAlgorithm

BUILT_IN_BY_KIND = {
    "start with one of these": {
        "ppo": "rlrun.algorithms.ppo:PPO",
        "dqn": "rlrun.algorithms.dqn.dqn:DQN",
        "sac": "rlrun.algorithms.actor_q.sac:SAC",
    },
    "policy gradients": {
        "a2c": "rlrun.algorithms.a2c:A2C",
        "a3c": "rlrun.algorithms.a3c:A3C",
        "appo": "rlrun.algorithms.impala.appo:APPO",
        "ddppo": "rlrun.algorithms.ddppo.ddppo:DDPPO",
        "filtered_bc": "rlrun.algorithms.pg.filtered_bc:FilteredBC",
        "grpo": "rlrun.algorithms.groups.grpo:GRPO",
        "impala": "rlrun.algorithms.impala.impala:Impala",
        "npg": "rlrun.algorithms.trust_region.trpo:NPG",
        "pg": "rlrun.algorithms.pg.pg:PG",
        "ppg": "rlrun.algorithms.ppg.ppg:PPG",
        "rloo": "rlrun.algorithms.groups.grpo:RLOO",
        "trpo": "rlrun.algorithms.trust_region.trpo:TRPO",
    },
    "Q-learning": {
        "apex": "rlrun.algorithms.dqn.apex:Apex",
        "async_dqn": "rlrun.algorithms.dqn.async_dqn:AsyncDQN",
        "gorila": "rlrun.algorithms.dqn.gorila:Gorila",
        "iqn": "rlrun.algorithms.dqn.dqn:IQN",
        "pqn": "rlrun.algorithms.dqn.pqn:PQN",
        "q_learning": "rlrun.algorithms.tabular.q_learning:QLearning",
        "qtopt": "rlrun.algorithms.qtopt.qtopt:QTOpt",
        "r2d2": "rlrun.algorithms.recurrent_q.r2d2:R2D2",
        "r2d3": "rlrun.algorithms.recurrent_q.r2d3:R2D3",
        "slateq": "rlrun.algorithms.slateq.slateq:SlateQ",
        "value_iteration": "rlrun.algorithms.tabular.value_iteration:ValueIteration",
    },
    "actor-critic with replay, continuous actions": {
        "apex_ddpg": "rlrun.algorithms.actor_q.apex_ddpg:ApexDDPG",
        "crossq": "rlrun.algorithms.actor_q.presets:CrossQ",
        "ddpg": "rlrun.algorithms.actor_q.ddpg:DDPG",
        "droq": "rlrun.algorithms.actor_q.presets:DroQ",
        "flashsac": "rlrun.algorithms.actor_q.presets:FlashSAC",
        "redq": "rlrun.algorithms.actor_q.presets:REDQ",
        "rlpd": "rlrun.algorithms.offline.rlpd:RLPD",
        "simba": "rlrun.algorithms.actor_q.presets:SimBa",
        "td3": "rlrun.algorithms.actor_q.ddpg:TD3",
        "tqc": "rlrun.algorithms.actor_q.presets:TQC",
        "xqc": "rlrun.algorithms.actor_q.presets:XQC",
    },
    "model-based, search": {
        "alphazero": "rlrun.algorithms.alphazero.alphazero:AlphaZero",
        "dreamer": "rlrun.algorithms.dreamer.dreamer:Dreamer",
        "mbmpo": "rlrun.algorithms.model_based.mbmpo:MBMPO",
        "mbpo": "rlrun.algorithms.model_based.mbpo:MBPO",
    },
    "offline RL": {
        "awac": "rlrun.algorithms.offline.awac_crr:AWAC",
        "bcq": "rlrun.algorithms.offline.bcq:BCQ",
        "cql": "rlrun.algorithms.offline.cql:CQL",
        "crr": "rlrun.algorithms.offline.awac_crr:CRR",
        "dt": "rlrun.algorithms.decision_transformer.dt:DT",
        "iql": "rlrun.algorithms.offline.iql:IQL",
        "marwil": "rlrun.algorithms.offline.marwil:MARWIL",
        "td3_bc": "rlrun.algorithms.offline.td3_bc:TD3BC",
    },
    "imitation": {
        "bc": "rlrun.algorithms.offline.bc:BC",
        "dagger": "rlrun.algorithms.dagger.dagger:DAgger",
        "distill": "rlrun.algorithms.dagger.distill:Distill",
        "gail": "rlrun.algorithms.gail.gail:GAIL",
    },
    "multi-agent": {
        "ippo": "rlrun.algorithms.multi_agent.ippo:IPPO",
        "maddpg": "rlrun.algorithms.multi_agent.maddpg:MADDPG",
        "mappo": "rlrun.algorithms.multi_agent.mappo:MAPPO",
        "qmix": "rlrun.algorithms.multi_agent.qmix:QMIX",
        "vdn": "rlrun.algorithms.multi_agent.vdn:VDN",
    },
    "preferences, dialogue": {
        "archer": "rlrun.algorithms.archer.archer:Archer",
        "dpo": "rlrun.algorithms.preferences.dpo:DPO",
        "reward_model": "rlrun.algorithms.preferences.reward_model:RewardModel",
        "rlhf": "rlrun.algorithms.preferences.rlhf:RLHF",
    },
    "evolution": {
        "ars": "rlrun.algorithms.evolution.ars:ARS",
        "cem": "rlrun.algorithms.evolution.cem:CEM",
        "cmaes": "rlrun.algorithms.evolution.cmaes:CMAES",
        "es": "rlrun.algorithms.evolution.es:ES",
    },
    "bandits, meta-learning, baselines": {
        "lints": "rlrun.algorithms.bandits.linear_bandits:LinTS",
        "linucb": "rlrun.algorithms.bandits.linear_bandits:LinUCB",
        "maml": "rlrun.algorithms.meta.maml:MAML",
        "random": "rlrun.algorithms.random.random:Random",
    },
}
"""Import paths of the built-in algorithms, by kind and name; the first kind is a selection for beginners."""

BUILT_IN = dict(sorted((name, path) for kind in BUILT_IN_BY_KIND.values() for name, path in kind.items()))
"""Import paths of the built-in algorithms, by name."""

OTHER_ALGORITHM = "rlrun.engine.messages.foreign_names:other_algorithm"
"""Import path of the table of other libraries' algorithms, which is loaded only for unknown names."""

MISTAKES = {
    "algorithm": "rlrun.engine.settings.import_mistakes:misspelled_algorithm",
    "import": "rlrun.engine.settings.import_mistakes:import_failure",
    "siblings": "rlrun.engine.settings.import_mistakes:sibling_modules",
}
"""Import paths of functions that explain a name that cannot be imported."""

ENTRY_POINT_GROUP = "rlrun.algorithms"
"""Entry point group through which installed packages provide algorithms by name."""

OWN_SOURCES: dict[str, str] = {}
"""Digests of users' own modules from which objects have been imported, by name; not of installed modules."""

NOTE_SOURCE = "rlrun.engine.settings.sources:note"
"""Import path of the function that notes a user's module."""


class UserCodeError(TrainingFailed):
    """Error for a user's module that raised an exception during import; the message includes the traceback."""


PUBLIC = ("rlrun.plugin", "rlrun.toys")
"""Modules whose names specs, command lines and checkpoints may contain; all other modules of rlrun are private."""


def load_object(path: str, what: str = "object") -> Any:
    """Imports the object named by an import path ``package.module:Name``; ``Name`` may be dotted.

    Args:
        path: The import path.
        what: Kind of the object, for messages, such as "env factory" or "algorithm".

    Raises:
        UsageError: The path is malformed or names a private module of rlrun, or the module or name does not exist; the
            message suggests the public or the most similar name.
        UserCodeError: The module raises while it is imported.
    """
    module = path.partition(":")[0]
    if module.partition(".")[0] == "rlrun" and module not in PUBLIC:
        public = public_path(path)
        where = f"use {public}" if public else f"use a public name from {' or '.join(PUBLIC)}"
        raise UsageError(f"the {what} '{path}' is in a private module of rlrun: {where}")
    found = load_internal(path, what)
    if module not in PUBLIC:
        load_internal(NOTE_SOURCE)(module)
    return found


def public_path(path: str) -> str:
    """Returns the public name of an object that is defined in a private module of rlrun; "" if it has none.

    Examples:
        >>> public_path("rlrun.toys.tabular_mdps:DeepSea"), public_path("rlrun.algorithms.ppo:PPO")
        ('rlrun.toys:DeepSea', 'ppo')
        >>> public_path("rlrun.engine.settings.registry:load_object")
        ''
    """
    if path in BUILT_IN.values():
        return next(name for name, built_in in BUILT_IN.items() if built_in == path)
    name = path.partition(":")[2]
    return next((f"{public}:{name}" for public in PUBLIC if name in dir(importlib.import_module(public))), "")


def load_internal(path: str, what: str = "object") -> Any:
    """Imports an object of rlrun, even from private modules, by an import path that is a constant in rlrun's code."""
    module_name, colon, name = path.partition(":")
    words = [*module_name.split("."), *name.split(".")]
    if not colon or not all(word.isidentifier() for word in words):
        raise UsageError(f"the {what} '{path}' is not an import path; write it as package.module:Name")
    found: Any = _import(module_name, what)
    for word in name.split("."):
        try:
            found = getattr(found, word)
        except AttributeError:
            near = did_you_mean(word, [known for known in dir(found) if not known.startswith("_")])
            raise UsageError(f"the {what} '{path}' does not exist: {module_name} has no '{word}'{near}") from None
    return found


def algorithm_class(name: str) -> type[Any]:
    """Resolves an algorithm's name to a class: ``ppo``, an entry point's name, or ``my_lab.awr:AWR``.

    Raises:
        UsageError: There is no such algorithm, or the object of that name is not a class.
        UserCodeError: The module of a user's algorithm raises while it is imported.
    """
    load = load_object if ":" in name else load_internal
    found = load(_algorithm_path(name), "algorithm")
    if not isinstance(found, type):
        raise UsageError(f"the algorithm '{name}' must be a class, but it is an object of type {type(found).__name__}")
    return found


def algorithm_names() -> list[str]:
    """Returns the names of all installed algorithms: first built-in algorithms, then plugins (entry points)."""
    return [*BUILT_IN, *sorted(name for name in _entry_points() if name not in BUILT_IN)]


def known_algorithm(name: str) -> str:
    """Returns the installed algorithm whose name equals a given name up to case, hyphens and underscores.

    If there is none, the given name is returned.

    Examples:
        >>> known_algorithm("PPO"), known_algorithm("Apex-DDPG"), known_algorithm("my_lab.awr:AWR")
        ('ppo', 'apex_ddpg', 'my_lab.awr:AWR')
    """
    return {_plain(known): known for known in algorithm_names()}.get(_plain(name), name)


def corresponding_algorithm(name: str) -> str:
    """Returns the name of the installed algorithm that corresponds to another library's algorithm; "" if none does.

    Examples:
        >>> corresponding_algorithm("Rainbow"), corresponding_algorithm("ACKTR")
        ('dqn', '')
    """
    other = _other_algorithm(name)
    return "" if other is None else other.ours


def is_installed_algorithm(name: str) -> bool:
    """Whether an algorithm is built in or an installed plugin, so that resolving the name runs no other code.

    Examples:
        >>> [is_installed_algorithm(name) for name in ("ppo", "my_lab.awr:AWR", "os:system")]
        [True, False, False]
    """
    return ":" not in name or any(point.value == name for point in _entry_points().values())


def _algorithm_path(name: str) -> str:
    if ":" in name:
        return name
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name in _entry_points():
        return _entry_points()[name].value
    if (known := known_algorithm(name)) != name:
        return _algorithm_path(known)
    if (other := _other_algorithm(name)) is not None:
        raise UsageError(f"unknown algorithm '{name}': {other.advice}")
    near = load_internal(MISTAKES["algorithm"])(name, algorithm_names())
    hint = f"did you mean '{near}'?" if near else "`rlrun algorithms` lists all algorithms"
    raise UsageError(f"unknown algorithm '{name}'; {hint}")


def _other_algorithm(name: str) -> OtherAlgorithm | None:
    """Returns another library's algorithm with a given name; None if none is known."""
    found: OtherAlgorithm | None = load_internal(OTHER_ALGORITHM)(_plain(name))
    return found


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _import(module_name: str, what: str) -> types.ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise UserCodeError(load_internal(MISTAKES["import"])(module_name, what, error)) from error
        near = did_you_mean(error.name.rpartition(".")[2], load_internal(MISTAKES["siblings"])(error.name))
        if not near and "." not in error.name:
            near = f"; run rlrun in the folder that contains {error.name}.py, or move the spec file there"
        raise UsageError(
            f"the {what}'s module '{module_name}' cannot be imported: no module named '{error.name}'{near}"
        ) from None
    except (Exception, SystemExit) as error:  # a module may raise anything, or call sys.exit()
        if module_name.startswith("rlrun."):  # for example out of memory while torch is imported
            raise
        raise UserCodeError(load_internal(MISTAKES["import"])(module_name, what, error)) from error
