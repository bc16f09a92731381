"""Users' own modules: whether a file is installed instead, and digests of modules, to detect changes in them."""

from __future__ import annotations

import hashlib
import re
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from rlrun.engine.settings.registry import OWN_SOURCES

_IMPORT_PATH = re.compile(r"(?P<module>[A-Za-z_]\w*(\.\w+)*):[A-Za-z_]")


def note(name: str) -> None:
    """Notes the digest of a module from which an object has been imported, unless the module is an installed one.

    Modules that this module imports in turn are ignored.
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
    """Returns the files of the modules whose digests differ from those recorded in a checkpoint."""
    changed = [name for name, digest in recorded.items() if OWN_SOURCES.get(name, digest) != digest]
    return tuple(str(_file(sys.modules[name])) for name in changed)


def named_modules(settings: Any) -> Iterator[str]:
    """Yields the modules of all import paths in settings (plain data), also in keys, which name hooks and opponents."""
    if isinstance(settings, Mapping):
        settings = [*settings, *settings.values()]
    if isinstance(settings, list | tuple):
        for setting in settings:
            yield from named_modules(setting)
    elif isinstance(settings, str) and (named := _IMPORT_PATH.match(settings)):
        yield named["module"]


def is_installed(path: str | Path) -> bool:
    """Whether a file or folder belongs to Python itself or an installed package, even if reached by symbolic links."""
    return _is_below_installed(Path(path)) or _is_below_installed(Path(path).resolve())


def _is_below_installed(path: Path) -> bool:
    return not _installed_folders().isdisjoint((path, *path.parents))


@cache
def _installed_folders() -> frozenset[Path]:
    named = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders = [Path(folder) for folder in (*named, *site.getsitepackages(), site.getusersitepackages())]
    return frozenset((*folders, *(folder.resolve() for folder in folders)))


@cache  # if a file is edited after its import, the old code still runs
def _digest(module: ModuleType) -> str:
    """Returns the digest of a module's file; "" for the running script and for installed modules."""
    file = _file(module)
    if file is None or module.__name__ == "__main__" or is_installed(file):
        return ""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _file(module: ModuleType) -> Path | None:
    spec = module.__spec__
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None
