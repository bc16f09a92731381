"""RLlib and rl-zoo3 files, read as rlrun specs; error messages point to the lines of the original file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlrun.engine.messages.errors import Problem, SpecError
from rlrun.engine.messages.explain import dotted, unknown_name
from rlrun.experiments.spec.foreign_keys import names_runs
from rlrun.experiments.spec.yaml_source import Document, read_document

if TYPE_CHECKING:
    from rlrun.bridges.translation.translate import Translation


def with_rlrun_keys(document: Document, tell: Callable[[str], None]) -> Document:
    """Translates a document of RLlib experiments; other documents are returned unchanged.

    Args:
        document: The document, taken to be RLlib's if its entries have a key `run`.
        tell: Function called with each line of output about the translation.

    Raises:
        SpecError: An experiment cannot be translated, or has keys that affect learning but have no counterpart.
    """
    from rlrun.bridges.translation.rllib import is_rllibs
    from rlrun.bridges.translation.translate import translate_rllib

    if not is_rllibs(document.data):
        return document
    translation = translated(document, translate_rllib)
    refuse_changes(document, translation)
    tell(f"{document.file}: {translation.summary()}. To see the translation, run `rlrun translate {document.file}`")
    for remark in translation.data_remarks():
        tell(f"{document.file}: {remark.key}: {remark.text}")
    return document_of(document, translation)


def translated_text(
    path: Path, *, env: str | None = None, lenient: bool = False, version: tuple[int, ...] | None = None
) -> str:
    """Translates an RLlib or rl-zoo3 file to the text of a spec, with comments on what was changed or left out.

    Args:
        path: Path of the file.
        env: For an rl-zoo3 file, the env whose settings are translated; for an RLlib file, an env to use instead of
            those in the file.
        lenient: Whether to omit keys without a counterpart even if they affect learning.
        version: RLlib version; None to infer it from the keys.

    Raises:
        SpecError: The file cannot be read or translated, or it has keys that affect learning but have no counterpart,
            and `lenient` is not set.
    """
    from rlrun.bridges.translation.rllib import is_rllibs
    from rlrun.bridges.translation.translate import text_of, translate_rllib, translate_zoo

    try:
        document = read_document(path)
    except FileNotFoundError:
        raise SpecError([Problem("", "file not found", str(path))]) from None
    if document.problems:
        raise SpecError(document.problems)
    if env is None or is_rllibs(document.data):
        _refuse_others(document)
        translation = translated(document, lambda data: translate_rllib(data, version, env))
    else:
        translation = translated(document, lambda data: translate_zoo(data, path.stem, env))
    if not lenient:
        refuse_changes(document, translation)
    return text_of(translation, path.name, lambda location: document.place(location, at_key=True).line)


def document_of(document: Document, translation: Translation) -> Document:
    """Converts a translated file to a spec document whose values keep their line and column in the original file."""
    result = Document(translation.data(), document.file)
    for location, origin in translation.origins().items():
        place = document.place(origin.location, at_key=True)
        for length in range(1, len(location) + 1):
            result.keys.setdefault(location[:length], place)
            result.values.setdefault(location[:length], place)
        result.values[location] = document.place(origin.location)
    return result


def translated(document: Document, translate: Callable[[Any], Translation]) -> Translation:
    """Calls a function that translates a document's data; adds line and column to the function's errors.

    Raises:
        SpecError: The data cannot be translated.
    """
    from rlrun.bridges.translation.entry import Untranslatable

    try:
        return translate(document.data)
    except Untranslatable as refusal:
        place = document.place(refusal.location)
        raise SpecError([place.problem(dotted(refusal.location), str(refusal))]) from None


def refuse_changes(document: Document, translation: Translation) -> None:
    """Raises an error if a translation omits keys that affect learning.

    Raises:
        SpecError: Such keys are omitted; the error lists them.
    """
    problems = []
    for remark in translation.changing_remarks():
        place = document.place(remark.location, at_key=True)
        reason = remark.text or "rlrun has no counterpart"
        message = f"cannot be translated ({reason}), and leaving it out would change learning"
        problems.append(place.problem(dotted(remark.location), message))
    if problems:
        advice = f"to leave these keys out anyway, run `rlrun translate {document.file} --lenient`"
        raise SpecError([*problems, Problem("", advice, document.file)])


def _refuse_others(document: Document) -> None:
    """Raises an error for a file without RLlib experiments; the message names the kind of file it seems to be."""
    from rlrun.bridges.translation.rllib import ENTRY_KEYS, is_rllibs

    data = document.data
    if is_rllibs(data):
        return
    if isinstance(data, Mapping) and any(
        isinstance(entry, Mapping) and "n_timesteps" in entry for entry in data.values()
    ):
        message = f"is an rl-zoo3 file: choose an env with --env, one of: {', '.join(data)}"
        raise SpecError([Problem("", message, document.file)])
    problems = [
        document.place((name, key), at_key=True).problem(
            dotted((name, key)), unknown_name(key, ENTRY_KEYS, "unknown key")
        )
        for name, entry in (data.items() if names_runs(data) else ())
        for key in entry
        if key not in ENTRY_KEYS
    ]
    raise SpecError(
        problems
        or [
            Problem(
                "",
                "is not an RLlib file: must be a mapping of names to experiments with the keys run and env",
                document.file,
            )
        ]
    )
