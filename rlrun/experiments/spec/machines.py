"""Machine-specific settings in a spec, such as the number of workers, selected by the machine's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlrun.engine.messages.explain import Location, Mistake, shown, unknown_name

MACHINE_KEYS = ("machine", "machines")
"""Keys of a spec entry for the selected machine and for the settings of each machine."""

SETTINGS = (
    "num_workers",
    "num_envs_per_worker",
    "num_cpus_per_worker",
    "num_learners",
    "num_gpus",
    "torch_threads",
    "worker_timeout_s",
    "max_worker_restarts",
    "min_share_of_fragments",
    "inference",
)
"""Settings that a machine's section may contain; they override those in `config`."""


@dataclass(frozen=True)
class OnMachine:
    """Spec entry after the settings for the selected machine were moved into `config`.

    Attributes:
        entry: The entry, without the keys for machines.
        mistakes: Mistakes in the keys for machines.
        machine: Name of the selected machine; "" if none is selected.
        settings: Names of the settings that were moved into `config`.
    """

    entry: Mapping[str, Any]
    mistakes: list[Mistake]
    machine: str = ""
    settings: tuple[str, ...] = ()

    def as_written(self, mistakes: Sequence[Mistake]) -> list[Mistake]:
        """Relocates mistakes from `config` to where the user wrote the machine's settings, below `machines`."""
        own: Location = ("machines", self.machine)
        return [
            replace(mistake, location=(*own, *mistake.location[1:]))
            if mistake.location[:1] == ("config",) and mistake.location[1:2] in [(name,) for name in self.settings]
            else mistake
            for mistake in mistakes
        ]


def on_machine(data: Mapping[str, Any]) -> OnMachine:
    """Moves the settings for the entry's selected `machine` into the entry's `config`.

    Args:
        data: The entry as written.

    Examples:
        >>> on_machine({"machine": "pc", "machines": {"pc": {"num_workers": 3}}, "config": {"lr": 0.1}}).entry
        {'config': {'lr': 0.1, 'num_workers': 3}}
    """
    entry = {key: value for key, value in data.items() if key not in MACHINE_KEYS}
    machines, name = data.get("machines", {}), data.get("machine")
    if not isinstance(machines, Mapping):
        wrong = f"must be a mapping from machine names to settings, not {shown(machines)}"
        return OnMachine(entry, [Mistake(("machines",), wrong)])
    mistakes = [mistake for machine, own in machines.items() for mistake in _mistakes_in(str(machine), own)]
    if name is not None and name not in machines:
        known = f"add machines: {{{name}: {{num_workers: 4}}}}" if not machines else ""
        message = unknown_name(str(name), [*map(str, machines)], "unknown machine") if machines else known
        mistakes.append(Mistake(("machine",), message))
    config = {} if data.get("config") is None else data["config"]
    if name is None or mistakes or not isinstance(config, Mapping):
        return OnMachine(entry, mistakes)
    settings = machines[name]
    return OnMachine({**entry, "config": {**config, **settings}}, [], str(name), tuple(settings))


def _mistakes_in(machine: str, settings: Any) -> list[Mistake]:
    where: Location = ("machines", machine)
    if not isinstance(settings, Mapping):
        return [Mistake(where, f"must be a mapping of settings such as num_workers, not {shown(settings)}")]
    return [
        Mistake((*where, name), unknown_name(str(name), SETTINGS, "not a setting of a machine:"), at_key=True)
        for name in settings
        if name not in SETTINGS
    ]
