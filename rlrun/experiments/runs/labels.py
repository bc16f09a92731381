"""Labels of a run for finding it later: tags and a note, given at the start or at any later time.

They are stored in a separate file, since the run's process rewrites ``run.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from rlrun.engine.checkpoint.durable import write_file
from rlrun.engine.checkpoint.plain_json import first_mistake, load_json
from rlrun.engine.messages.errors import RunDamaged, UsageError, did_you_mean

LABELS_FILE = "labels.json"

_TAG = re.compile(r"[\w+=.:/@-]{1,40}")


@dataclass(frozen=True)
class Labels:
    """Labels of a run: tags and a note, set by the user.

    Attributes:
        tags: Words by which runs are selected, in the order in which they were added.
        note: Free text; "" for no note.
    """

    tags: tuple[str, ...] = ()
    note: str = ""

    def changed(self, add: Iterable[str] = (), remove: Iterable[str] = (), note: str | None = None) -> Labels:
        """Returns a copy of the labels with tags added or removed, or with a new note.

        Args:
            add: Tags to add.
            remove: Tags to remove.
            note: New note; None to keep the present one.

        Raises:
            UsageError: A new tag is not a plain word, or a tag to remove does not exist.

        Examples:
            >>> Labels(("old",)).changed(add=["good"], remove=["old"], note="wider net")
            Labels(tags=('good',), note='wider net')
        """
        add, remove = tuple(add), tuple(remove)
        for tag in add:
            if not _TAG.fullmatch(tag):
                raise UsageError(
                    f"tag {tag!r:.80}: must have at most 40 characters: letters, digits and + = . : / @ _ -"
                )
        for tag in remove:
            if tag not in self.tags:
                there = f"its tags: {', '.join(self.tags)}" if self.tags else "it has no tags"
                raise UsageError(f"the run has no tag '{tag}'{did_you_mean(tag, self.tags) or f'; {there}'}")
        tags = tuple(tag for tag in dict.fromkeys([*self.tags, *add]) if tag not in remove)
        return replace(self, tags=tags, note=self.note if note is None else note)


_LABELS = TypeAdapter(Labels)


def read_labels(run: Path) -> Labels:
    """Loads the labels of a run; empty labels if the run has no labels file.

    Raises:
        RunDamaged: The file is not valid.
    """
    path = run / LABELS_FILE
    try:
        return _LABELS.validate_python(load_json(path.read_bytes()))
    except FileNotFoundError:
        return Labels()
    except ValidationError as error:
        raise RunDamaged(f"{path}: cannot parse: {first_mistake(error)}") from error
    except ValueError as error:
        raise RunDamaged(f"{path}: cannot parse: {error}") from error


def write_labels(run: Path, labels: Labels) -> None:
    """Overwrites the labels of a run, atomically."""
    write_file(run / LABELS_FILE, f"{json.dumps(asdict(labels))}\n".encode())
