"""Tables of import paths, by which a part is imported when it is asked for: they lead somewhere, and downwards."""

from __future__ import annotations

import tomllib

from rlrun.engine.messages.errors import RlrunError
from rlrun.engine.settings.registry import PUBLIC, load_internal
from scripts.house import ROOT, House

BY_NAME = {"algorithms", "bridges", "exact", "toys"}
"""Districts whose parts may be named from above and from below."""


def test_every_import_path_in_the_package_leads_to_an_object(house: House) -> None:
    paths = {path for module in house.modules.values() for path in module.named}
    assert len(paths) > 200
    dangling = {}
    for path in paths:
        try:
            load_internal(path)
        except RlrunError as error:
            dangling[path] = str(error)
    assert dangling == {}


def layers() -> dict[str, list[set[str]]]:
    """Layers of each package with a contract, from top to bottom."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {
        contract["containers"][0]: [{name.strip() for name in layer.split("|")} for layer in contract["layers"]]
        for contract in data["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    }


def test_what_a_table_names_is_below_the_table_as_what_a_file_imports_is(house: House) -> None:
    upwards = set()
    for package, own in layers().items():
        height = {name: number for number, layer in enumerate(own) for name in layer}
        for module in house.modules.values():
            for path in module.named:
                named = path.partition(":")[0]
                if not all(name.startswith(f"{package}.") for name in (module.name, named)) or named in PUBLIC:
                    continue
                start, end = (name.removeprefix(f"{package}.").split(".")[0] for name in (module.name, named))
                if height[start] > height[end] and not (package == "rlrun" and end in BY_NAME):
                    upwards.add(f"{module.name} names {path}")
    assert upwards == set()
