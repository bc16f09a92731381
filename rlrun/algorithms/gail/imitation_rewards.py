"""Rewards of GAIL: log-odds of the discriminator, which replace the env's rewards."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.gail.settings import EXPERT_ACTIONS, EXPERT_OBS, OWN_ACTIONS, OWN_OBS, GAILConfig, RewardSign
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.datasets.input_sets import demonstrations_at
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.functional.saved_numbers import load_generator
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.action_spaces.box import GaussianBoxActions
from rlrun.engine.policy.observation_filter import ObservationFilter
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.algorithms.gail.policy import GAILPolicy
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.policy.action_spaces.action_space import Actions

Floats = NDArray[np.float32]


def imitation_rewards(logits: Any, sign: RewardSign) -> Any:
    """Rewards for steps, from the discriminator's log-odds log D - log(1 - D) that the steps are the expert's.

    Args:
        logits: Log-odds, [...].
        sign: `signed` for log D - log(1 - D), `positive` for -log(1 - D), `negative` for log D.

    Source:
        Ho and Ermon, arXiv:1606.03476, algorithm 1, where D is the probability that a step is the learner's, and
        log D the cost; Fu, Luo and Levine, arXiv:1710.11248, section 4, for the signed form.
    """
    match sign:
        case "signed":
            return logits
        case "positive":
            return np.logaddexp(0, logits)
        case "negative":
            return -np.logaddexp(0, -logits)


class ExpertSteps(NamedTuple):
    """Steps of the expert's demonstrations.

    Attributes:
        obs: Raw observations, a tree of [N, ...].
        actions: Actions as the policy outputs them, before conversion to the env's units, [N, ...].
        terminations: Number of episodes that terminated.
    """

    obs: Any
    actions: Actions
    terminations: int


class ImitationRewards(StatefulOperator):
    """Replaces a rollout's rewards with the discriminator's, and adds the columns that the discriminator learns from.

    The expert's observations are normalized by the same statistics as the rollout's. Actions are compared after
    clipping to their bounds, as the env executed them. Rewards are multiplied by 1 - gamma, so that values have the
    scale of log-odds. A termination adds the discounted rewards of the absorbing state; see `AbsorbingLogOdds`.

    Args:
        trainee: The policy in training, with a `GAILPolicy`.
        config: Settings; if no expert is set, the first fragment raises an error.
    """

    def __init__(self, trainee: Trainee, config: GAILConfig) -> None:
        self.trainee = trainee
        self.config = config
        self._steps: ExpertSteps | None = None
        self._generator = np.random.Generator(np.random.Philox(child_seed(trainee.seed, "expert steps")))
        self._own_steps = self._own_terminations = 0.0
        self._sum, self._count = 0.0, 0

    @override
    def settings(self) -> dict[str, Any]:
        return {"reward": self.config.reward}

    declared_metrics = (
        Metric("imitation_reward_mean", "", "Mean reward per step from the discriminator, before the factor 1 - gamma"),
    )

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the mean of the discriminator's rewards since the last call."""
        total, count = self._sum, self._count
        self._sum, self._count = 0.0, 0
        return {"imitation_reward_mean": total / count} if count else {}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the fragment [T, B] with the discriminator's rewards and inputs."""
        policy = cast("GAILPolicy", self.trainee.policy)
        present = map_tree(lambda leaf: leaf[:-1], _seen(item["obs"], policy))
        if self._steps is None:
            self._steps = expert_steps(self.config, SampleBatch(item, obs=present), policy)
        own = {OWN_OBS: present, OWN_ACTIONS: _as_taken(item["actions"], policy)}
        rewards = self._rewards(SampleBatch(item, **own), self._steps)
        return SampleBatch(item, rewards=rewards, **own, **self._drawn(self._steps, item["valid"].shape, policy))

    def _rewards(self, batch: SampleBatch, expert: ExpertSteps) -> Floats:
        """Rewards [T, B] of the learner's steps, 0 where there is none."""
        from rlrun.algorithms.gail.policy import own_logits

        valid, gamma, sign = batch["valid"], self.config.gamma, self.config.reward
        inputs = SampleBatch({name: batch[name] for name in ("valid", OWN_OBS, OWN_ACTIONS)})
        logits = self.trainee.learner.evaluate(own_logits, inputs.zero_invalid().rows(1)).reshape(valid.shape)
        ends = valid & batch["terminateds"]
        odds = self._log_odds(valid, ends, expert)
        judged = np.where(valid, imitation_rewards(logits + odds.others, sign), 0.0)
        self._sum += float(judged.sum())
        self._count += int(np.count_nonzero(valid))
        rewards: Floats = ((1 - gamma) * judged + gamma * ends * imitation_rewards(odds.absorbing, sign)).astype(
            np.float32
        )
        return rewards

    def _log_odds(self, valid: NDArray[np.bool_], ends: NDArray[np.bool_], expert: ExpertSteps) -> AbsorbingLogOdds:
        """Log-odds of the absorbing state; the learner's share is taken over its latest steps, about one batch."""
        steps, gamma = int(np.count_nonzero(valid)), self.config.gamma
        kept = math.exp(-steps / self.config.train_batch_size)
        self._own_steps = kept * self._own_steps + steps
        self._own_terminations = kept * self._own_terminations + int(np.count_nonzero(ends))
        return absorbing_log_odds(
            absorbing_share(len(expert.actions), expert.terminations, gamma),
            absorbing_share(self._own_steps, self._own_terminations, gamma),
        )

    def _drawn(self, expert: ExpertSteps, shape: tuple[int, ...], policy: GAILPolicy) -> dict[str, Any]:
        """Draws expert steps uniformly, with leading dimensions [T, B]."""
        indices = self._generator.integers(len(expert.actions), size=shape)
        own_filter = ObservationFilter(policy.discriminator_leaves)
        own_filter.load(self.trainee.filters.moments)
        observations = own_filter(map_tree(lambda leaf: leaf[indices], expert.obs))
        return {EXPERT_OBS: observations, EXPERT_ACTIONS: expert.actions[indices]}

    @override
    def state(self) -> dict[str, Any]:
        """State for a checkpoint: decayed counts of the learner's steps and terminations, and the random generator."""
        return {
            "own_steps": self._own_steps,
            "own_terminations": self._own_terminations,
            "generator": dict(self._generator.bit_generator.state),
        }

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._own_steps, self._own_terminations = float(state["own_steps"]), float(state["own_terminations"])
        load_generator(self._generator, state["generator"])


def expert_steps(config: GAILConfig, like: SampleBatch, policy: GAILPolicy) -> ExpertSteps:
    """Reads the expert's steps from demonstrations.

    Args:
        config: Settings, with the path of a data set or a file of demonstrations.
        like: Fragment of a worker, which gives the structure of observations, without an action mask.
        policy: The policy; recorded actions are converted to its units.

    Raises:
        UsageError: There are no demonstrations, or they do not fit the env.
    """
    if config.expert is None:
        raise UsageError(f"gail: config.expert {config.needed['expert']}")
    fragment = demonstrations_at(config.expert).fragment(like)
    valid = fragment["valid"][:, 0]
    actions = fragment["actions"][valid, 0]
    space = policy.actor_critic.action_space
    if isinstance(space, GaussianBoxActions):
        actions = space.from_env(actions)
    ends = int(np.count_nonzero(fragment["terminateds"][valid, 0]))
    return ExpertSteps(map_tree(lambda leaf: leaf[:-1][valid, 0], fragment["obs"]), actions, ends)


def _seen(observations: Any, policy: GAILPolicy) -> Any:
    """Observations without the action mask."""
    leaves = policy.discriminator_leaves
    return {key: observations[key] for key in leaves} if isinstance(leaves, dict) else observations


def _as_taken(actions: Actions, policy: GAILPolicy) -> Actions:
    """Actions [T, B, ...] as the env took them, in the policy's units."""
    space = policy.actor_critic.action_space
    if not isinstance(space, GaussianBoxActions):
        return actions
    flat = actions.reshape(-1, space.size)
    return space.from_env(space.to_env(flat)).reshape(actions.shape)


SMOOTHING = 0.5
"""Terminations added to each count, so that the log-odds are finite if no termination was seen."""


class AbsorbingLogOdds(NamedTuple):
    """Log-odds that a state is the expert's, computed from how often expert and learner are in the absorbing state.

    A terminated episode is treated as continuing forever in an absorbing state, for learner and expert alike, so that
    neither long nor short episodes are rewarded as such. A learner that terminates more often than the expert is in
    this state more often, and is penalized; a learner that terminates less often is rewarded for terminations. Since
    there is only one absorbing state, the log-odds have a closed form: the ratio of two shares of visits.

    Attributes:
        absorbing: Log-odds of the absorbing state.
        others: Log-odds of any other state, to be added to the discriminator's.

    Source:
        Kostrikov et al., "Discriminator-actor-critic", arXiv:1809.02925, section 4.1, where the absorbing state is an
        input of the discriminator.
    """

    absorbing: float
    others: float


def absorbing_share(steps: float, terminations: float, gamma: float) -> float:
    """Share of the absorbing state among all state visits, where each termination counts as 1 / (1 - gamma) visits.

    Args:
        steps: Number of env steps.
        terminations: Number of terminations among them.
        gamma: Discount factor, below 1.

    Examples:
        >>> round(absorbing_share(steps=100, terminations=0.5, gamma=0.99), 9)
        0.5
    """
    visits = (terminations + SMOOTHING) / (1 - gamma)
    return visits / (steps + visits)


def absorbing_log_odds(expert_share: float, own_share: float) -> AbsorbingLogOdds:
    """Computes log-odds, by Bayes' rule, that a state is the expert's, for the absorbing state and for others.

    Args:
        expert_share: Share of the absorbing state in the expert's state visits.
        own_share: Share of the absorbing state in the learner's state visits.

    Examples:
        >>> absorbing_log_odds(0.5, 0.5)
        AbsorbingLogOdds(absorbing=0.0, others=0.0)
    """
    return AbsorbingLogOdds(math.log(expert_share / own_share), math.log((1 - expert_share) / (1 - own_share)))
