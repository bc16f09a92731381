"""Off-policy evaluation of saved policies on a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlrun.engine.datasets.layout import LOGP
from rlrun.engine.envs.make import check_same_spaces
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.exact.off_policy_evaluation.evaluation import FOLDS, OffPolicyEvaluator
from rlrun.exact.off_policy_evaluation.fitted_q import FitSettings
from rlrun.exact.off_policy_evaluation.recorded_episodes import RecordedEpisodes, Rows
from rlrun.exact.off_policy_evaluation.target_policy import TargetPolicy

if TYPE_CHECKING:
    from rlrun.engine.datasets.data_set import DataSet
    from rlrun.engine.training.training import Training


def recorded_episodes(data_set: DataSet) -> RecordedEpisodes:
    """Loads the episodes of a data set; observations are read on demand.

    Raises:
        UsageError: The set holds several agents, or fewer than two episodes.
    """
    if data_set.num_episodes < FOLDS:
        raise UsageError(f"{data_set.folder}: off-policy evaluation takes two episodes or more")
    if len(data_set.agents) > 1:
        names = ", ".join(data_set.agents)
        raise UsageError(f"{data_set.folder} holds several agents ({names}); off-policy evaluation is of one agent")
    stored = [LOGP] if LOGP in data_set.manifest.columns else []
    numbers = ("rewards", "terminateds", "valid", *stored)
    columns = data_set.rows(np.arange(data_set.num_rows), ("actions", *numbers))

    def observations(rows: Rows) -> object:
        return data_set.rows(rows, ("obs",))["obs"]

    return RecordedEpisodes(
        observations,
        columns["actions"],
        columns["rewards"],
        columns["terminateds"],
        columns["valid"],
        columns[LOGP].astype(np.float64) if stored else None,
    )


def evaluator(training: Training, data_set: DataSet, *, settings: FitSettings, seed: int) -> OffPolicyEvaluator:
    """Creates the evaluator for policies on a data set, with a training's gamma and encodings of observations.

    Raises:
        UsageError: The data set holds several agents, or fewer than two episodes.
    """
    config = training.description.algorithm.config
    episodes = recorded_episodes(data_set)
    return OffPolicyEvaluator(episodes, _spaces(data_set), config.model, config.gamma, settings=settings, seed=seed)


def target_policy(training: Training, data_set: DataSet, *, is_greedy: bool, seed: int) -> TargetPolicy:
    """Creates the policy to evaluate from a training.

    Raises:
        UsageError: The training has several agents, or other spaces than the data set.
    """
    env, policy = training.description.env, training.acting.policy()
    if env.has_many_agents:
        raise UsageError(f"env {env.id} is a world of many agents; off-policy evaluation is of one agent")
    check_same_spaces(f"data set {data_set.folder}", _spaces(data_set), policy.trainee.spaces)
    return TargetPolicy(policy.behavior(), is_greedy=is_greedy, seed=seed)


def _spaces(data_set: DataSet) -> Spaces:
    return Spaces(data_set.observation_space, data_set.action_space)
