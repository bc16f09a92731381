"""Digests of the users' own modules that settings name by import path, to detect changes in these modules."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from rlrun.engine.settings.import_mistakes import is_installed
from rlrun.engine.settings.registry import OWN_SOURCES

_IMPORT_PATH = re.compile(r"(?P<module>[A-Za-z_]\w*(\.\w+)*):[A-Za-z_]")


def note(name: str) -> None:
    """Notes the digest of a module from which an object has been imported, unless the module is an installed one.

    Modules that it imports are ignored.
    """
    if digest := _digest(sys.modules[name]):
        OWN_SOURCES[name] = digest


def sources_of(settings: Any) -> dict[str, str]:
    """Returns the digests of the users' modules that settings name, by module.

    Args:
        settings: Settings as plain data; import paths are keys or values.
    """
    return {name: OWN_SOURCES[name] for name in sorted(set(named_modules(settings))) if name in OWN_SOURCES}


def changed_files(recorded: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the files of the modules that differ from those whose digests a checkpoint recorded."""
    changed = [name for name, digest in recorded.items() if OWN_SOURCES.get(name, digest) != digest]
    return tuple(str(_file(sys.modules[name])) for name in changed)


def named_modules(settings: Any) -> Iterator[str]:
    """Yields the modules of all import paths in settings (plain data); keys name hooks and opponents."""
    if isinstance(settings, Mapping):
        settings = [*settings, *settings.values()]
    if isinstance(settings, list | tuple):
        for setting in settings:
            yield from named_modules(setting)
    elif isinstance(settings, str) and (named := _IMPORT_PATH.match(settings)):
        yield named["module"]


@cache  # a file that is edited after its import is not the one that runs
def _digest(module: ModuleType) -> str:
    """Returns the digest of a module's file; "" for the running script and for installed modules."""
    file = _file(module)
    if file is None or module.__name__ == "__main__" or is_installed(str(file)):
        return ""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _file(module: ModuleType) -> Path | None:
    spec = module.__spec__
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None
