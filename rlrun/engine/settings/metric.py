"""Declarations of metrics in results; the component that measures a metric also declares it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

MOST_NAME_CHARACTERS = 200
"""Maximum length of a metric's name that comes from an env or a client."""

HOOKS = "hooks/"
"""Prefix of the names of hooks' metrics."""

Mode = Literal["max", "min"]
"""Direction in which a metric improves: to higher values (max) or to lower ones (min)."""


@dataclass(frozen=True)
class Metric:
    """Declaration of a metric in results: name, unit and meaning.

    Attributes:
        name: Name of the metric; `<...>` in the name is a placeholder for any text, such as a worker's index.
        unit: Unit of the metric, "" for a plain number.
        meaning: Meaning of the metric, as a phrase or sentence.
        mode: Direction in which the metric improves; None if neither direction is better in general, as for an entropy.

    Examples:
        >>> share = Metric("gradient_share/worker_<index>", "", "Part of the gradients that a worker delivered")
        >>> share.matches("gradient_share/worker_2"), share.matches("gradient_share/worker_")
        (True, False)
    """

    name: str
    unit: str
    meaning: str
    mode: Mode | None = None

    @property
    def is_pattern(self) -> bool:
        """Whether the metric's name contains a placeholder, so that it matches several names."""
        return "<" in self.name

    def matches(self, reported: str) -> bool:
        """Whether a key of a result is the name of this metric, or fits a placeholder in the name."""
        if not self.is_pattern:
            return reported == self.name
        parts = re.split(r"(<[^>]*>)", self.name)
        pattern = "".join(".+" if part.startswith("<") else re.escape(part) for part in parts)
        return re.fullmatch(pattern, reported) is not None

    def below(self, prefix: str) -> Metric:
        """Returns a copy of the metric with a prefix, such as `learner/`, added to its name."""
        return replace(self, name=f"{prefix}{self.name}")


def is_name(text: str) -> bool:
    r"""Whether a text from user code is a valid name of a metric: one line of 1 to 200 printable characters.

    Examples:
        >>> [is_name(text) for text in ("items", "mean speed", "", "a\n", "\ud800", "x" * 201)]
        [True, True, False, False, False, False]
    """
    return 0 < len(text) <= MOST_NAME_CHARACTERS and text.isprintable()


def of_policy(policy: str, name: str = "") -> str:
    """Returns the key of a policy's metric in results; in a single-agent env (policy ""), it is the metric's name.

    Examples:
        >>> of_policy("hunters", "policy_lag_mean"), of_policy("", "policy_lag_mean")
        ('policies/hunters/policy_lag_mean', 'policy_lag_mean')
    """
    return f"policies/{policy}/{name}" if policy else name
