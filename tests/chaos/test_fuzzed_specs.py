"""Shipped specs with random mistakes in them are understood or refused with file and line, whatever the mistake."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.load import load_experiments, shipped_configs

SPECS = int(os.environ.get("CHAOS_SPECS", "10000"))
WORDS = (
    *("null", "true", "~", "''", "[]", "{}", "-1", "0", "1e400", ".nan", "-.inf", "0x10", "1_0", "1e-3", "two words"),
    *(
        "[[0, 1], [1]]",
        "{grid_search: []}",
        "{grid_search: 3}",
        "{loguniform: [0, 1]}",
        "&a [*a]",
        "*nobody",
        "!!set {}",
    ),
    *(
        "<<: {}",
        "? [1, 2]",
        "- ",
        "%YAML 1.3",
        "---",
        "\t",
        "# no value",
        "1" * 400,
        "[" * 200,
        "ß\u2028é",
        "@",
        "`",
        '"',
    ),
)

Mistake = Callable[[random.Random, list[str]], None]


def drop_a_line(chance: random.Random, lines: list[str]) -> None:
    del lines[chance.randrange(len(lines))]


def double_a_line(chance: random.Random, lines: list[str]) -> None:
    place = chance.randrange(len(lines))
    lines.insert(place, lines[place])


def move_a_line(chance: random.Random, lines: list[str]) -> None:
    line = lines.pop(chance.randrange(len(lines)))
    lines.insert(chance.randrange(len(lines) + 1), line)


def indent_a_line(chance: random.Random, lines: list[str]) -> None:
    place = chance.randrange(len(lines))
    lines[place] = " " * chance.randrange(9) + lines[place].strip()


def misspell_a_word(chance: random.Random, lines: list[str]) -> None:
    place = chance.randrange(len(lines))
    if words := list(re.finditer(r"\w{3,}", lines[place])):
        found = chance.choice(words)
        letters = list(found[0])
        letters[chance.randrange(len(letters))] = chance.choice("aexz_0:,-")
        lines[place] = lines[place][: found.start()] + "".join(letters) + lines[place][found.end() :]


def put_another_value(chance: random.Random, lines: list[str]) -> None:
    place = chance.randrange(len(lines))
    key, colon, _ = lines[place].partition(":")
    lines[place] = f"{key}{colon} {chance.choice(WORDS)}"


def put_another_inner_value(chance: random.Random, lines: list[str]) -> None:
    place = chance.randrange(len(lines))
    if values := list(re.finditer(r"(?<=: )[^,{}\[\]]+", lines[place])):
        found = chance.choice(values)
        lines[place] = lines[place][: found.start()] + chance.choice(WORDS) + lines[place][found.end() :]


def take_a_letter(chance: random.Random, lines: list[str]) -> None:
    place = chance.randrange(len(lines))
    if lines[place]:
        cut = chance.randrange(len(lines[place]))
        lines[place] = lines[place][:cut] + lines[place][cut + 1 :]


def put_a_letter(chance: random.Random, lines: list[str]) -> None:
    place = chance.randrange(len(lines))
    cut = chance.randrange(len(lines[place]) + 1)
    lines[place] = lines[place][:cut] + chance.choice("{}[]:,-#&*!|>'\"%@`\0\x85 ") + lines[place][cut:]


MISTAKES: tuple[Mistake, ...] = (
    drop_a_line,
    double_a_line,
    move_a_line,
    indent_a_line,
    misspell_a_word,
    put_another_value,
    put_another_inner_value,
    take_a_letter,
    put_a_letter,
)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_a_spec_with_random_mistakes_either_loads_or_is_rejected_with_file_and_line(tmp_path: Path) -> None:
    texts = [path.read_text() for path in shipped_configs()]
    file = tmp_path / "mistaken.yaml"
    refused = 0
    for number in range(SPECS):
        chance = random.Random(number)
        lines = chance.choice(texts).splitlines()
        for _ in range(chance.randint(1, 3)):
            chance.choice(MISTAKES)(chance, lines)
        file.write_text("\n".join(lines), encoding="utf-8")
        try:
            load_experiments([file])
        except SpecError as error:
            refused += 1
            told = str(error)
        except Exception as error:  # the traceback shows which error it was
            raise AssertionError(f"spec {number}:\n{file.read_text()}") from error
        else:
            continue
        assert all(line.startswith(f"{file}:") for line in told.splitlines() if not line.startswith(" ")), told
    assert SPECS * 0.3 < refused < SPECS
