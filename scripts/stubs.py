"""Writes information that is available without importing rlrun: type stubs, and the catalog of built-in algorithms.

    python -m scripts.stubs

`rlrun`, `rlrun.plugin` and `rlrun.toys` import their names on first use, so type checkers and editors read the stubs
instead. At runtime, an algorithm's class accepts any setting by name and validates it. The package's stub says the same
with signatures: editors complete `PPO(lr=1e-3)`, and type checkers report a wrong name or type. A class in this stub
derives from the real one, so both fit wherever an algorithm is expected. `rlrun algorithms` reads the catalog, because
importing all algorithms would take a second.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import rlrun.plugin
import rlrun.toys
from rlrun.engine.algorithm import Algorithm, settings_of
from rlrun.engine.datasets.input_config import InputConfig
from rlrun.engine.settings.config import is_config
from rlrun.engine.settings.registry import BUILT_IN, algorithm_class

ROOT = Path(__file__).resolve().parents[1]
STUB = ROOT / "rlrun" / "__init__.pyi"
"""The package's stub, with the signatures of algorithms."""
LAZY = {ROOT / "rlrun" / "plugin.pyi": rlrun.plugin, ROOT / "rlrun" / "toys" / "__init__.pyi": rlrun.toys}
"""Stubs of other modules that import their names on first use."""
CATALOG = ROOT / "rlrun" / "algorithms" / "catalog.py"
"""The catalog of built-in algorithms."""
WIDTH = 120

SHORT_FORMS = {tuple[InputConfig, ...]: "str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]"}
"""Types of settings that have short forms, as users write them; a validator expands them."""


def main() -> None:
    """Writes the stubs and the catalog."""
    for path, text in (
        (STUB, stub()),
        (CATALOG, catalog()),
        *((path, stub_of_names(module)) for path, module in LAZY.items()),
    ):
        path.write_text(text)
        print(path.relative_to(ROOT))


def stub_of_names(module: types.ModuleType) -> str:
    """Returns the formatted text of a stub that imports a module's names from the modules that define them."""
    lines = [
        f'"""Names of `{module.__name__}` for type checkers; written by `python -m scripts.stubs`."""',
        *(f"from {place} import {name} as {name}" for name, place in module._PLACES.items()),
        "_PLACES: dict[str, str]",
    ]
    return _formatted("\n".join(lines) + "\n")


def catalog() -> str:
    """Returns the formatted text of the catalog of built-in algorithms."""
    lines = [
        '"""Catalog of built-in algorithms, which `rlrun algorithms` lists; written by `python -m scripts.stubs`."""',
        "# ruff: noqa: E501",
        "from typing import NamedTuple",
        "class Listed(NamedTuple):",
        '    """Algorithm in the catalog: name, supported kinds of action spaces, first line of the docstring."""',
        "    name: str",
        "    acts_in: tuple[str, ...]",
        "    summary: str",
        f"EVERY_KIND: tuple[str, ...] = {Algorithm.acts_in!r}",
        "CATALOG = {",
        *(f"    {name!r}: {_listed(algorithm_class(name))}," for name in BUILT_IN),
        "}",
    ]
    return _formatted("\n".join(lines) + "\n", CATALOG)


def _listed(algorithm: type[Algorithm[Any]]) -> str:
    """Code of an algorithm's entry in the catalog."""
    kinds = "EVERY_KIND" if algorithm.acts_in == Algorithm.acts_in else repr(algorithm.acts_in)
    return f"Listed({algorithm.__name__!r}, {kinds}, {summary_of(algorithm)!r})"


def summary_of(algorithm: type[Algorithm[Any]]) -> str:
    """Returns the first line of an algorithm's docstring."""
    return str(algorithm.__doc__).strip().partition("\n")[0]


def stub() -> str:
    """Returns the formatted text of the package's stub."""
    algorithms = [algorithm_class(name) for name in BUILT_IN]
    imports = {(module, f"{name} as {name}") for name, module in rlrun._PLACES.items()}
    classes = []
    for algorithm in sorted(algorithms, key=lambda each: each.__name__):
        base = _base(algorithm)
        imports.add((base.__module__, f"{base.__name__} as _{base.__name__}"))
        imports |= {(config.__module__, config.__name__) for config in map(_written, _configs_of(algorithm))}
        classes.append(_class(algorithm))
    lines = [
        '"""Names of `rlrun` for type checkers; written by `python -m scripts.stubs`."""',
        "from collections.abc import Mapping, Sequence",
        "from typing import Any, Literal",
        *(f"from {module} import {names}" for module, names in sorted(imports)),
        "_PLACES: Mapping[str, str]",
        "def _algorithms() -> dict[str, str]: ...",
        *classes,
    ]
    return _formatted("\n".join(lines) + "\n")


def _base(algorithm: type[Algorithm[Any]]) -> type[Any]:
    """Base class of an algorithm in the stub: the algorithm itself, or, for a preset, which is only data, its base."""
    return algorithm if _written(algorithm.Config) is algorithm.Config else algorithm.__bases__[0]


def _written(config: type[Any]) -> type[Any]:
    """Config class that a module defines: the config itself, or its base if a decorator or a preset created it."""
    return next(base for base in config.__mro__ if "." not in base.__qualname__)


def _configs_of(algorithm: type[Algorithm[Any]]) -> Iterator[type[Any]]:
    """Config classes that the signature of an algorithm names."""
    yield algorithm.Config
    for parameter in settings_of(algorithm.Config):
        annotation = parameter.annotation
        members = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
        yield from filter(is_config, members)


def _class(algorithm: type[Algorithm[Any]]) -> str:
    """Code of an algorithm's class, with its settings as named arguments."""
    name, config = algorithm.__name__, algorithm.Config
    parameters = settings_of(config)
    summary = summary_of(algorithm)
    arguments = [f"{each.name}: {_type(each.annotation)} = {_default(each)}" for each in parameters]
    notes = [f"{each.name}: {_summary(config.model_fields[each.name].description or '')}" for each in parameters]
    return "\n".join(
        [
            f"class {name}(_{_base(algorithm).__name__}):",
            f'    """{summary}"""',
            f"    def __init__(self, config: {_written(config).__name__} | None = None, /, *,",
            *(f"        {argument}," for argument in arguments),
            "    ) -> None:",
            f'        """{summary}',
            "",
            "        Args:",
            "            config: Parsed settings, instead of settings by name.",
            *(textwrap.fill(note, WIDTH, initial_indent=" " * 12, subsequent_indent=" " * 16) for note in notes),
            '        """',
        ]
    )


def _type(annotation: Any) -> str:
    """Type that users may write for a setting: sequences for tuples, mappings for sections."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in SHORT_FORMS:
        return SHORT_FORMS[annotation]
    if origin in (Union, types.UnionType):
        return " | ".join(_type(member) for member in arguments)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin is tuple and arguments[-1] is not Ellipsis:  # a point of a schedule
        return f"Sequence[{' | '.join(dict.fromkeys(_type(member) for member in arguments if member is not int))}]"
    if origin is tuple:
        item = _type(arguments[0])
        return f"Sequence[str | {item}]" if get_origin(arguments[0]) is dict else f"Sequence[{item}]"
    if origin is dict:
        return f"Mapping[str, {_type(arguments[1])}]"
    if annotation in (Any, types.NoneType):
        return "Any" if annotation is Any else "None"
    return f"{_written(annotation).__name__} | Mapping[str, Any]" if is_config(annotation) else str(annotation.__name__)


def _default(parameter: Parameter) -> str:
    """Default of a setting; `...` for a section, because its class has the defaults."""
    return "..." if is_config(type(parameter.default)) else repr(parameter.default)


def _summary(text: str) -> str:
    """First sentence or clause of a docstring, in one line."""
    clause = re.split(r"(?<!\beq)[.;](?: |$)", " ".join(text.split()), maxsplit=1)[0]
    return clause.replace("\\", "\\\\") + "."


def _formatted(text: str, path: Path = STUB) -> str:
    """Text of a file, with sorted imports and formatted by ruff."""
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


if __name__ == "__main__":
    main()
