"""Conversions of the settings of MAML and MBMPO.

In RLlib's MAML, each worker is a task. In RLlib's MBMPO, the trial's process samples real steps, and the workers
imagine.
"""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, ForeignSettings
from rlrun.bridges.translation.rllib_settings.units import longest_episode
from rlrun.bridges.translation.settings import Conversions

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""

KEPT = 10_000
"""Real transitions that MBMPO's ensemble is fitted to, the newest ones; it has no setting there."""


@conversion
def tasks(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Number of tasks in a MAML update: one per worker in RLlib."""
    foreign.put("config.num_workers", int(value), key)
    return max(int(value), 1)


@conversion
def whole_episodes(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Maximum episode length; RLlib's fragments are complete episodes."""
    steps = longest_episode(foreign)
    if foreign.algorithm == "MAML" and foreign.horizon is None:
        foreign.tell(key, f"episodes are cut off after {steps} steps here; there they end by themselves")
    return steps


@conversion
def workers_on_models(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Number of MBMPO's workers, which in RLlib imagine episodes in the ensemble's networks."""
    members = int(foreign.section("dynamics_model")["ensemble_size"])
    if value != members:
        foreign.tell(key, f"each of {members} networks is one task here; there {value} workers share them as tasks")
    return OMIT


@conversion
def imagined_episodes(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Number of MBMPO's envs: imagined episodes per task, and real envs, which are stepped between two fits."""
    foreign.put("config.num_envs_per_worker", int(value), key)
    foreign.put("config.dynamics.fit_interval", max(int(value) * longest_episode(foreign), 20), key)
    foreign.put("config.imagined_length", longest_episode(foreign), key)
    return int(value)


@conversion
def ensemble(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """MBMPO's ensemble: networks, number of fits, and the transitions to fit."""
    own = foreign.section("dynamics_model")
    settings = {
        "dynamics.num_members": own["ensemble_size"], "dynamics.num_elites": own["ensemble_size"],
        "dynamics.hiddens": own["fcnet_hiddens"], "dynamics.max_epochs": own["train_epochs"],
        "dynamics.minibatch_size": own["batch_size"], "dynamics.holdout_ratio": own["valid_split_ratio"],
        "dynamics_lr": own["lr"], "replay.capacity": KEPT,
    }  # fmt: skip
    for name, setting in settings.items():
        foreign.put(f"config.{name}", setting, key)
    foreign.tell(key, "rewards are predicted here; there the env's reward() gives them: name it as dynamics.reward")
    return OMIT


@conversion
def value_network_settings(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Settings of the value network, which rlrun replaces by a linear baseline fitted to each phase."""
    if key in foreign.written:
        foreign.tell(key, "the baseline is linear and fitted to each phase here; there it is a value network")
    return OMIT
