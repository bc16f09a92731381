"""Placeholder for the env of a training run that learns from data sets and steps no env; it has the data's spaces."""

from __future__ import annotations

from collections.abc import Collection

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.datasets.input_sets import opened, within_data
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import check_same_spaces
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.without_env import without_env
from rlrun.engine.messages.errors import UsageError


def check_input(config: AlgorithmConfig | None, to_come: Collection[str] = ()) -> Spaces | None:
    """Opens the data sets that an algorithm's settings name; returns their spaces if no env is stepped.

    Args:
        config: The settings; None if they are not valid.
        to_come: Paths of data sets that other runs will write before this one starts; if there are any, an env must
            define their spaces.

    Returns:
        Spaces of the first data set, with the data's range as bounds of unbounded actions; None if the settings name no
        data, or an env is stepped.

    Raises:
        UsageError: A data set does not exist, or holds no steps.
        DataSetError: A data set cannot be read.
    """
    if not isinstance(config, DataSettings) or config.input is None:
        return None
    sets = [opened(part) for part in config.input if part.path not in to_come]
    if not config.is_offline or len(sets) < len(config.input):
        return None
    return Spaces(sets[0].observation_space, within_data(sets[0].action_space, sets))


def check_data_fits(config: AlgorithmConfig, spaces: Spaces) -> None:
    """Validates that an algorithm's data sets have the same spaces as its policy.

    Raises:
        UsageError: A data set does not exist, or has different spaces.
        DataSetError: A data set cannot be read.
    """
    if isinstance(config, DataSettings):
        for data in map(opened, config.input or ()):
            check_same_spaces(f"the data set {data.folder}", Spaces(*data.manifest.spaces), spaces)


def env_of_data(config: AlgorithmConfig) -> EnvConfig:
    """Creates the config of a placeholder env, with the spaces of the data sets from which an algorithm learns.

    Raises:
        UsageError: The algorithm needs an env, or names no data.
        DataSetError: A data set cannot be read.
    """
    spaces = check_input(config)
    if spaces is None:
        raise UsageError("training needs an env or a data set: name an env, or set input")
    return without_env(spaces)
