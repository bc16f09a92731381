"""One-step predictions by a learned ensemble, for many model rollouts in parallel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.model_based.transitions import AgentActions, TransitionForm, by_rule
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee

MODEL_STEPS = Metric("model_steps", "steps", "Transitions imagined so far; not counted as env steps")


@dataclass(frozen=True)
class ImaginedStep:
    """Predicted transitions from observations and actions [R, L], with one ensemble member per column.

    Attributes:
        next_obs: Next observations, [R, L, D].
        rewards: Rewards, [R, L].
        terminateds: Termination flags, [R, L].
    """

    next_obs: NDArray[Any]
    rewards: NDArray[np.float32]
    terminateds: NDArray[np.bool_]


def imagined_step(
    trainee: Trainee,
    form: TransitionForm,
    space: AgentActions,
    obs: NDArray[Any],
    actions: NDArray[Any],
    members: NDArray[np.int64],
    generator: np.random.Generator,
    scale: RewardScale,
) -> ImaginedStep:
    """Samples predicted transitions from the ensemble; known termination rules and reward functions take precedence.

    Args:
        trainee: The policy in training and its dynamics ensemble.
        form: Encoding of transitions as inputs and targets.
        space: Conversion of policy actions to env actions, which rules receive.
        obs: Observations, [R, L, D].
        actions: Policy actions, [R, L, (A)].
        members: Index of the ensemble member for each column, [L].
        generator: Random generator for the prediction noise.
        scale: Scale and clipping bound of rewards from a known reward function.
    """
    from rlrun.algorithms.model_based.policy import drawn_transitions

    shape = obs.shape[:2]
    seen, taken = _flat(obs), space.to_env(_flat(actions))
    batch = SampleBatch(
        inputs=form.inputs(seen, taken).reshape(*shape, form.num_inputs),
        noise=generator.standard_normal((*shape, form.num_targets), np.float32),
        members=np.broadcast_to(members, shape).copy(),
        valid=np.ones(shape, np.bool_),
    )
    found = trainee.learner.evaluate(drawn_transitions, batch)
    next_obs = obs + found["targets"][..., : form.num_observed].astype(obs.dtype, copy=False)
    transitions = (seen, taken, _flat(next_obs))
    if form.reward is None:
        rewards = found["targets"][..., -1]
    else:
        rewards = scale(by_rule("reward", form.reward, *transitions).astype(np.float32).reshape(shape))
    if form.terminated is None:
        terminateds = found["end_logits"] > 0
    else:
        terminateds = by_rule("terminated", form.terminated, *transitions).astype(np.bool_).reshape(shape)
    return ImaginedStep(next_obs, rewards, terminateds)


def _flat(leaf: NDArray[Any]) -> NDArray[Any]:
    return leaf.reshape(-1, *leaf.shape[2:])
