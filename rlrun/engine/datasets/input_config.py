"""Settings for the data sets that an algorithm learns from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from annotated_types import Gt, Le
from pydantic import AfterValidator, BeforeValidator, model_validator

from rlrun.engine.settings.config import ConfigModel, NonEmptyText, NonNegativeInt, PositiveInt

ROUNDING = 1e-9
"""Distance from 1 within which a sum of shares counts as 1."""


_PASSWORD = re.compile(r"://[^/?#]*:[^/?#]*@")
"""Regular expression for a user's password in a URI."""


def _without_password(path: str) -> str:
    if _PASSWORD.search(path):
        raise ValueError(
            "the URI contains a password, which would be saved with the run; use environment variables instead"
        )
    return path


class InputConfig(ConfigModel):
    """Settings of one data set that a run learns from: its path, and its share of each minibatch."""

    path: Annotated[NonEmptyText, AfterValidator(_without_password)]
    """Folder of the data set, or its URI in external storage: s3://bucket/set. A relative path is searched for in the
    current directory and next to the spec."""
    share: Annotated[float, Gt(0), Le(1)] = 1.0
    """Expected share of each minibatch that is drawn from this set."""


def _listed(data: Any) -> Any:
    """Expands a bare path to a list with one data set."""
    return ({"path": data},) if isinstance(data, str) else data


def _within_a_minibatch(parts: tuple[InputConfig, ...]) -> tuple[InputConfig, ...]:
    if not parts:
        raise ValueError("name at least one data set")
    if (total := total_share(parts)) > 1:
        raise ValueError(f"the shares must sum to at most 1; they sum to {total:g}")
    return parts


Inputs = Annotated[
    tuple[InputConfig, ...],
    BeforeValidator(_listed, json_schema_input_type=str | tuple[InputConfig, ...]),
    AfterValidator(_within_a_minibatch),
]
"""Type of a list of data sets with their shares; a bare path in YAML is one set with the share 1."""


def total_share(parts: tuple[InputConfig, ...]) -> float:
    """Returns the sum of the data sets' shares of a minibatch; exactly 1 if it differs from 1 only by rounding."""
    total = sum(part.share for part in parts)
    return 1.0 if abs(total - 1) < ROUNDING else total


class DataSettings(ConfigModel):
    """Mixin with settings for algorithms that learn from data sets instead of an env, or in addition to it.

    It must be the first base class of a config class, so that its fields take precedence.
    """

    input: Inputs | None = None
    """Data sets to learn from, each with its `share` of a minibatch; a bare path is a single set. If the shares sum to
    less than 1, the rest of each minibatch is collected in the env."""
    sgd_steps_per_iteration: PositiveInt = 1000
    """SGD steps per iteration when training from data alone; schedules then count SGD steps too."""
    min_env_steps_per_iteration: NonNegativeInt = 1000
    """Minimum number of env steps per iteration, which ends with a result; 0 for one update per iteration."""

    @property
    def is_offline(self) -> bool:
        """Whether minibatches come only from data sets, without experience from an env."""
        return self.input is not None and total_share(self.input) == 1

    @property
    def further_columns(self) -> tuple[str, ...]:
        """Names of columns, such as `returns`, that losses need in addition to a transition's columns.

        See `Transitions`.
        """
        return ()

    def reading(self, places: Mapping[str, str]) -> Self:
        """Returns a copy of the settings in which data sets have other locations.

        Args:
            places: New locations of data sets, by their paths in these settings; data sets not listed keep their paths.
        """
        if self.input is None:
            return self
        return self.replace(input=tuple(part.replace(path=places.get(part.path, part.path)) for part in self.input))

    @model_validator(mode="after")
    def _further_columns_are_recorded(self) -> Self:
        if self.further_columns and not self.is_offline:
            raise ValueError(
                f"needs {' and '.join(self.further_columns)}, which a replay buffer does not store; set "
                "input to data sets whose shares sum to 1"
            )
        return self
