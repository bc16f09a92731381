"""Explanations of names that cannot be imported: tracebacks of users' modules, and similar names."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
import re
import sys
import traceback
from collections.abc import Collection, Iterable

from rlrun.engine.settings import registry
from rlrun.engine.settings.sources import is_installed


def misspelled_algorithm(name: str, known: Collection[str]) -> str:
    """Returns the known algorithm that is a word in a name, or differs from the name by one typo; "" if there is none.

    Names of algorithms are short: most similar names belong to unrelated methods, so a greater distance means nothing.

    Examples:
        >>> from rlrun.engine.settings.registry import algorithm_names
        >>> [misspelled_algorithm(name, algorithm_names()) for name in ("poo", "dreemer", "appo_lstm", "awr")]
        ['ppo', 'dreamer', 'appo', '']
    """
    name = name.lower()
    words = [word for word in re.split("[-_ ]", name) if word in known]
    typos = [other for other in known if _is_typo(name, other)]
    return (words or difflib.get_close_matches(name, typos, n=1, cutoff=0) or [""])[0]


def _is_typo(name: str, meant: str) -> bool:
    """Whether one letter is missing, added, wrong, or swapped with its neighbor."""
    if abs(len(name) - len(meant)) > 1:
        return False
    start = 0
    while start < min(len(name), len(meant)) and name[start] == meant[start]:
        start += 1
    rest, wanted = name[start:], meant[start:]
    return wanted[1:] == rest[1:] or wanted == rest[1:] or wanted[1:] == rest or rest[:2][::-1] + rest[2:] == wanted


def import_failure(module_name: str, what: str, error: BaseException) -> str:
    """Returns the error message for an exception during a module's import, with the module's own traceback."""
    ours = (registry.__file__, importlib.__file__)
    trace = traceback.TracebackException.from_exception(error)
    trace.stack = traceback.StackSummary.from_list(
        [frame for frame in trace.stack if frame.filename not in ours and not frame.filename.startswith("<frozen ")]
    )
    text = "".join(trace.format(chain=False)).rstrip()
    return f"importing the {what}'s module '{module_name}' failed:\n{text}"


def sibling_modules(module_name: str) -> Iterable[str]:
    """Returns the names of the modules next to a missing one; at the top level, only the user's own modules."""
    parent = module_name.rpartition(".")[0]
    spec = importlib.util.find_spec(parent) if parent else None
    own = [path for path in sys.path if not is_installed(path)]
    paths = (spec.submodule_search_locations or []) if spec else own
    return [found.name for found in pkgutil.iter_modules(paths)]
