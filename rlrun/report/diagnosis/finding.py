"""Findings of a diagnosis: a metric outside its usual range, with the reason why it matters and settings to try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Finding:
    """Finding of a diagnosis: a metric outside its usual range, with reason and advice.

    Attributes:
        name: Name of the finding.
        found: Values of the metric, as text.
        reason: Reason why the finding matters.
        advice: Settings to try, as text.
        trials: Names of the trials with the finding; () for the run as a whole.
    """

    name: str
    found: str
    reason: str
    advice: str
    trials: tuple[str, ...] = ()


class Remedy(NamedTuple):
    """Remedy for a finding: a change of one setting that may help.

    Attributes:
        setting: Name of the setting in `config`.
        words: Description of the change, such as "a smaller {}", with {} in place of the setting's name.
        to: The advised value; None if the advice is only a direction.
    """

    setting: str
    words: str
    to: Any = None


USUAL_BOUND = 0.5
"""Smallest default of `max_grad_norm` of all algorithms, and the default of most."""

CLIPPED_GRADIENTS = Remedy("max_grad_norm", f"{{}}: {USUAL_BOUND}", USUAL_BOUND)
MORE_EPOCHS = Remedy("num_epochs", "more {}")
SMALLER_LR = Remedy("lr", "a smaller {}")
LARGER_BATCH = Remedy("train_batch_size", "a larger {}")
SCALED_IN_ENV = "rewards scaled in the env"
SMALLER_SCALE = Remedy("reward_scale", "a smaller {}")
SCALED_REWARDS = (
    Remedy("normalize_rewards", "{}: true", True),
    SMALLER_SCALE,
    Remedy("clip_rewards", "{}: 1", 1.0),
    SCALED_IN_ENV,
)
SCALED_OBSERVATIONS = (Remedy("normalize_observations", "{}: true", True), "scaled observations")


def advised(config: Mapping[str, Any], *remedies: Remedy | str) -> str:
    """Formats remedies as advice, omitting settings that the algorithm lacks or that already have the advised value.

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
    """Formats a number with four significant digits, such as 1,234 or 0.01235."""
    return f"{value:,.4g}"
