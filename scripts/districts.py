"""Draws the districts of the package and their rooms, from the import contracts and the folders.

    python -m scripts.districts        # writes docs/images/districts.svg

A district or room imports only from those drawn below it. The order comes from the contracts in pyproject.toml, which
`make check` enforces, and the descriptions are the first lines of the packages' docstrings.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rlrun"
PICTURE = ROOT / "docs" / "images" / "districts.svg"

WIDTH, MARGIN, GAP = 860, 14, 8
ROOM_HEIGHT, TITLE_HEIGHT, CHARACTER = 26, 44, 7.3
BY_NAME = frozenset(("bridges", "algorithms", "exact", "toys"))
"""Districts whose modules are loaded by name; drawn with a dashed border."""


def main() -> None:
    """Writes the picture."""
    PICTURE.write_text(picture())
    print(PICTURE.relative_to(ROOT))


def picture() -> str:
    """Returns the picture as SVG."""
    contracts = layers_by_contract()
    shapes: list[str] = []
    y = MARGIN
    for layer in contracts["districts"]:
        places = [place for place in layer if (PACKAGE / place).is_dir()]
        if places:
            width = (WIDTH - 2 * MARGIN - GAP * (len(places) - 1)) // len(places)
            drawn = [
                district(name, contracts, MARGIN + number * (width + GAP), y, width)
                for number, name in enumerate(places)
            ]
            height = max(bottom for _, bottom in drawn) - y
            for name, (inside, _), number in zip(places, drawn, range(len(places)), strict=True):
                dash = ' stroke-dasharray="6 4"' if name in BY_NAME else ""
                left = MARGIN + number * (width + GAP)
                shapes.append(
                    f'<rect x="{left}" y="{y}" width="{width}" height="{height}" rx="8" fill="#f6f8fb" '
                    f'stroke="#667"{dash}/>'
                )
                shapes += inside
            y += height + GAP
    note = (
        "Each district and room imports only what is below it. A dashed border: found by name, imported by no district."
    )
    shapes.append(text(MARGIN, y + 14, note, size=12, fill="#444"))
    height = y + 24
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def layers_by_contract() -> dict[str, list[list[str]]]:
    """Returns the names in each layer from top to bottom, by the id of the contract."""
    data: Mapping[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {
        contract["id"]: [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]
        for contract in data["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    }


def district(
    name: str, contracts: Mapping[str, list[list[str]]], left: int, top: int, width: int
) -> tuple[list[str], int]:
    """Draws the title and the rooms of a district; returns the shapes and the y coordinate of the bottom edge."""
    shapes = [text(left + 10, top + 20, f"{name}/", size=15, bold=True)]
    shapes += [text(left + 10, top + 36, description(name, width), size=11, fill="#444")]
    y = top + TITLE_HEIGHT
    folders = sorted(path.parent.name for path in (PACKAGE / name).glob("*/__init__.py"))
    for row in contracts.get(name, [folders]):
        x = left + 10
        for room in row:
            label = f"{room}/" if room in folders else room
            room_width = round(len(label) * CHARACTER) + 14
            if x + room_width > left + width - 10:
                x, y = left + 10, y + ROOM_HEIGHT + 4
            shapes.append(
                f'<rect x="{x}" y="{y}" width="{room_width}" height="{ROOM_HEIGHT - 4}" rx="5" fill="#fff" '
                'stroke="#99a"/>'
            )
            shapes.append(text(x + 7, y + 15, label, size=12))
            x += room_width + 6
        if len(row) == 1 and name in contracts:
            shapes.append(text(x + 4, y + 15, description(f"{name}/{row[0]}", left + width - x), size=11, fill="#444"))
        y += (ROOM_HEIGHT + 4) if row else 0
    return shapes, y + 4


def description(place: str, width: int) -> str:
    """First line of the docstring of a package or module, truncated to fit."""
    path = PACKAGE / place / "__init__.py"
    path = path if path.exists() else PACKAGE / f"{place}.py"
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    words = doc.split("\n", 1)[0].rstrip(".")
    fits = int((width - 20) / 5.6)
    return words if len(words) <= fits else words[: words.rfind(" ", 0, fits)].rstrip(",;:")


def text(x: float, y: float, words: str, *, size: int, fill: str = "#111", bold: bool = False) -> str:
    """Returns a line of text."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" font-size="{size}"{weight} fill="{fill}">{escape(words)}</text>'


if __name__ == "__main__":
    main()
