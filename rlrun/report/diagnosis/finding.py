"""Finding: a metric outside its usual range, with the reason why it matters and settings to try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Finding:
    """A metric of a run that is outside its usual range.

    Attributes:
        name: Name of the finding.
        found: The numbers.
        reason: Why it matters.
        advice: What to try.
        trials: Names of the trials in which it was found; () for the run as a whole.
    """

    name: str
    found: str
    reason: str
    advice: str
    trials: tuple[str, ...] = ()


class Remedy(NamedTuple):
    """A change of one setting that may help.

    Attributes:
        setting: Name of the setting in `config`.
        words: The change in words, with {} in place of the setting.
        to: The advised value, None if the advice is only a direction.
    """

    setting: str
    words: str
    to: Any = None


USUAL_BOUND = 0.5
"""Default of most algorithms for `max_grad_norm`, and the smallest of all defaults."""

CLIPPED_GRADIENTS = Remedy("max_grad_norm", f"{{}}: {USUAL_BOUND}", USUAL_BOUND)
MORE_EPOCHS = Remedy("num_epochs", "more {}")
SMALLER_LR = Remedy("lr", "a smaller {}")
LARGER_BATCH = Remedy("train_batch_size", "a larger {}")
SCALED_REWARDS = (
    Remedy("normalize_rewards", "{}: true", True),
    Remedy("clip_rewards", "{}: 1", 1.0),
    "rewards that are scaled",
)
SCALED_OBSERVATIONS = (Remedy("normalize_observations", "{}: true", True), "observations that are scaled")


def advised(config: Mapping[str, Any], *remedies: Remedy | str) -> str:
    """Returns advice in words, without settings that the algorithm lacks or that have the advised value.

    Args:
        config: All settings of the algorithm.
        remedies: Changes of settings, and other advice as text.
    """
    texts = []
    for remedy in remedies:
        if isinstance(remedy, str):
            texts.append(remedy)
        elif remedy.setting in config and (remedy.to is None or config[remedy.setting] != remedy.to):
            texts.append(remedy.words.format(f"config.{remedy.setting}"))
    return ", or ".join([", ".join(texts[:-1]), *texts[-1:]] if len(texts) > 1 else texts)


def number_text(value: float) -> str:
    """Returns a number with four digits."""
    return f"{value:,.4g}"
