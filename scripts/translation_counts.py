"""Counts how many of another library's config files `rlrun translate` can translate, and why it rejects the others.

The checkout is a clone of Ray (its `tuned_examples`) or rl-zoo3 (its `hyperparams`), at any version:

    python -m scripts.translation_counts /path/to/ray /path/to/rl-baselines3-zoo
    python -m scripts.translation_counts /path/to/ray --each    # a line for each experiment
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rlrun.bridges.files_of_others import document_of, refuse_changes, translated
from rlrun.bridges.translation.translate import Translation, translate_rllib, translate_zoo
from rlrun.engine.messages.errors import EnvironmentUnusable, RlrunError, SpecError
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.spec.yaml_source import Document, read_document

REASONS = {
    r"is not found: there is no '|before its package is imported": "lacks a package here",
    r"settings of .* are not translated": "no translation of the algorithm's settings",
    r"there is no algorithm|is not here yet|unknown algorithm": "no such algorithm",
    r"an env of RLlib's own": "an env of RLlib's own",
    r"was registered by code|there is no env|No registered env|mujoco-py|unknown env|is no env|no env": "no such env",
    r"there is no data set": "needs its data converted first",
}
"""Reasons for a rejection, by patterns of messages."""


STAND_INS = {"default": "CartPole-v1", "atari": "BreakoutNoFrameskip-v4"}
CONTINUOUS = "Pendulum-v1"
OF_CONTINUOUS = ("sac", "td3", "ddpg", "tqc", "crossq")
"""Envs that replace entries of rl-zoo3 that name no env, and the algorithms that need continuous actions."""


class Outcome(NamedTuple):
    """Outcome for one experiment: `loads`, `lacks a package here` or another reason, with the message."""

    what: str
    message: str = ""


def main(arguments: list[str]) -> None:
    """Prints the counts of each checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path)
    parser.add_argument("--each", action="store_true", help="print a line for each experiment")
    options = parser.parse_args(arguments)
    for checkout in options.checkouts:
        counts: Counter[str] = Counter()
        for name, outcome in outcomes(checkout):
            counts[outcome.what] += 1
            if options.each:
                print(f"{name}: {outcome.what}{outcome.message and f': {outcome.message}'}")
        print(f"{checkout}: {counts.total()} experiments")
        for what, count in counts.most_common():
            print(f"  {count:4} {what}")


def outcomes(checkout: Path) -> Iterator[tuple[str, Outcome]]:
    """Yields the outcome for each experiment in a checkout, by file and name."""
    for path in sorted(checkout.glob("**/hyperparams/*.yml")):
        document = read_document(path)
        for key in document.data if isinstance(document.data, Mapping) else ():
            stand_in = CONTINUOUS if path.stem in OF_CONTINUOUS else STAND_INS.get(key)
            env = (stand_in if key in STAND_INS else None) or key
            yield f"{path.name}:{key}", _outcome(document, partial(_zoo, document.data[key], path.stem, key, env))
    for path in sorted(checkout.glob("**/tuned_examples/**/*.yaml")):
        document = read_document(path)
        for name, entry in document.data.items() if isinstance(document.data, Mapping) else ():
            if isinstance(entry, Mapping) and "run" in entry:
                alone = {name: entry}
                yield f"{path.name}:{name}", _outcome(document, lambda _, alone=alone: translate_rllib(alone))


def _zoo(entry: Mapping[str, Any], algorithm: str, key: str, env: str, _: Any) -> Translation:
    return translate_zoo({key: entry}, algorithm, env)


def _outcome(document: Document, translate: Any) -> Outcome:
    try:
        translation = translated(document, translate)
        refuse_changes(document, translation)
        data = document_of(document, translation).data
        for entry in data.values():
            entry.setdefault("stop", {"env_steps": 1})
        parse_experiments(data)
    except EnvironmentUnusable as error:
        return Outcome("lacks a package here", str(error))
    except SpecError as error:
        return Outcome(_reason(str(error)), str(error.problems[0]))
    except RlrunError as error:
        return Outcome(_reason(str(error)), str(error))
    return Outcome("loads")


def _reason(message: str) -> str:
    if "--lenient" in message:
        return "a key that changes what is learned"
    return next((reason for pattern, reason in REASONS.items() if re.search(pattern, message)), "another mistake")


if __name__ == "__main__":
    main(sys.argv[1:])
