"""List of a training run's result rows (one per iteration), and its conversion to a pandas DataFrame."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlrun.engine.messages.errors import UsageError

if TYPE_CHECKING:
    import pandas


class Results(list[dict[str, Any]]):
    """List of a training run's or trial's result rows, oldest first; each maps names of metrics to values."""

    def to_pandas(self) -> pandas.DataFrame:
        """Converts the rows to a DataFrame with a column for each metric, and NaN where a row lacks a metric.

        Raises:
            UsageError: pandas is not installed.
        """
        return data_frame(self)


def data_frame(rows: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """Creates a pandas DataFrame from rows, which are mappings from column names to values.

    Raises:
        UsageError: pandas is not installed.
    """
    try:
        module = importlib.import_module("pandas")
    except ModuleNotFoundError:
        raise UsageError("to_pandas() needs pandas, which is not installed: pip install pandas") from None
    frame: pandas.DataFrame = module.DataFrame(list(rows))
    return frame
