"""Operators for rewards other than the env's: intrinsic rewards, and costs of a constraint (Lagrange multiplier)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from typing_extensions import override

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.data.packing import Packing
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.flow.flow import Flow, StatefulOperator
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.returns import Floats, forward_discounted_sums
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.observation_leaves import ObservationTree, is_masked
from rlrun.engine.policy.observation_filter import ObservationFilter
from rlrun.engine.reward_streams.streams import (
    CURIOSITY_NEXT_OBS,
    CURIOSITY_OBS,
    INTRINSIC_REWARD,
    INTRINSIC_REWARDS,
    MULTIPLIER,
)

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.reward_streams.curiosity import CuriousPolicy
    from rlrun.engine.reward_streams.settings import ConstraintConfig, CuriosityConfig


CLIP = 5.0
"""Clipping bound for the normalized inputs of the curiosity networks."""


class LagrangianAdvantages(StatefulOperator):
    """Combines reward and cost advantages with a Lagrange multiplier, which adapts so that costs meet a limit.

    The combined advantages are (A - m * C) / (1 + m), with reward advantages A, cost advantages C and multiplier m.

    The multiplier rises while the cost of an episode is above the limit, and falls (but not below 0) while it is under
    the limit: m' = max(0, m + rate * (J - limit)). J is the sum of costs since the last update divided by the number of
    episodes that ended since then; if none ended, there is no update.

    Args:
        column: Column of the costs.
        limit: Limit on the mean cost per episode.
        rate: Change of the multiplier in an update, per unit of cost above the limit.

    Source:
        Ray, Achiam, Amodei, "Benchmarking safe exploration in deep reinforcement learning", 2019; the divisor 1 + m is
        from Stooke et al., arXiv:2007.03964.
    """

    def __init__(self, column: str, limit: float, rate: float) -> None:
        self.column = column
        self.limit = limit
        self.rate = rate
        self.multiplier = 0.0
        self._paid = 0.0
        self._ended = 0

    @override
    def settings(self) -> dict[str, Any]:
        return {"column": self.column, "limit": self.limit, "rate": self.rate}

    declared_metrics = (MULTIPLIER,)

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the current Lagrange multiplier, as a metric."""
        return {MULTIPLIER.name: self.multiplier}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Updates the multiplier, and returns the batch with the Lagrangian's advantages."""
        valid = item["valid"]
        self._paid += float(item[self.column].sum(where=valid, dtype=np.float64))
        self._ended += int(np.count_nonzero((item["terminateds"] | item["truncateds"]) & valid))
        if self._ended:
            excess = self._paid / self._ended - self.limit
            self.multiplier = max(0.0, self.multiplier + self.rate * excess)
            self._paid, self._ended = 0.0, 0
        multiplier = np.float32(self.multiplier)
        advantages = (item["advantages"] - multiplier * item["cost_advantages"]) / (1 + multiplier)
        return SampleBatch(item, advantages=advantages)

    @override
    def state(self) -> dict[str, Any]:
        """Returns the Lagrange multiplier, and the costs and number of episodes since its last update."""
        return {"multiplier": self.multiplier, "paid": self._paid, "ended": self._ended}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self.multiplier = float(state["multiplier"])
        self._paid, self._ended = float(state["paid"]), int(state["ended"])


def with_constraint(learned: Flow[Any], bound: ConstraintConfig, algorithm: str) -> Flow[Any]:
    """Inserts `LagrangianAdvantages` for a cost constraint into an algorithm's dataflow, after `ConcatBatches`.

    Args:
        learned: The algorithm's dataflow.
        bound: Settings of the constraint, such as the limit on costs.
        algorithm: Name of the algorithm, for messages.

    Raises:
        UsageError: The dataflow does not contain exactly one `ConcatBatches`.
    """
    placed = learned.with_step_after(
        ConcatBatches, LagrangianAdvantages(bound.column, bound.limit, bound.multiplier_lr)
    )
    if placed is None:
        raise UsageError(
            f"constraint is not supported by {algorithm}, whose dataflow does not have exactly one "
            "ConcatBatches: leave it out"
        )
    return placed


class IntrinsicRewards(StatefulOperator):
    """Adds intrinsic rewards (for curiosity), and the inputs of the networks that compute them, to fragments.

    Takes pairs (worker index, fragment).

    Observations are normalized by running moments, and clipped to [-5, 5]. Intrinsic rewards are divided by the running
    standard deviation of their discounted returns. These returns are not reset at the end of an episode, and are
    separate for each env slot of each worker. Entries without a step are ignored.

    Args:
        trainee: The policy in training, which holds the networks for intrinsic rewards.
        config: Settings of the intrinsic rewards.

    Source:
        Burda et al., arXiv:1810.12894, sections 2.3 and 2.4.
    """

    declared_metrics = (INTRINSIC_REWARD,)

    def __init__(self, trainee: Trainee, config: CuriosityConfig) -> None:
        self.trainee = trainee
        self.config = config
        self._moments: dict[str, Moments] = {}
        self._returns = Moments.empty(())
        self._running: dict[int | None, Floats] = {}
        self._rewards = Moments.empty(())

    @override
    def settings(self) -> dict[str, Any]:
        return {"kind": self.config.kind, "gamma": self.config.gamma}

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the mean intrinsic reward over the steps since the last call."""
        seen, self._rewards = self._rewards, Moments.empty(())
        return {INTRINSIC_REWARD.name: float(seen.mean)} if seen.count else {}

    @override
    def __call__(self, item: tuple[int | None, SampleBatch]) -> SampleBatch:
        """Returns the fragment with intrinsic rewards and the networks' inputs."""
        from rlrun.engine.reward_streams.curiosity import intrinsic_rewards

        worker, batch = item
        policy = cast("CuriousPolicy", self.trainee.policy)
        learned = self._with_inputs(batch, policy)
        valid = batch["valid"]
        inputs = SampleBatch({name: learned[name] for name in ("valid", "actions", *policy.novelty.columns)})
        rows = inputs.zero_invalid().rows(1)
        found = self.trainee.learner.evaluate(intrinsic_rewards, rows).reshape(valid.shape)
        learned[INTRINSIC_REWARDS] = self._scaled(worker, np.where(valid, found, 0.0), batch)
        return learned

    def _with_inputs(self, batch: SampleBatch, policy: CuriousPolicy) -> SampleBatch:
        """Returns a fragment with normalized inputs of the curiosity networks, after updating the running moments."""
        seen = _without_mask(batch["obs"], policy.leaves)
        rows = Packing(batch["valid"], batch["terminateds"], batch["truncateds"])
        behind = map_tree(lambda leaf: rows.unpack(rows.pack(leaf)[1:]) if rows.moves else leaf[1:], seen)
        own_filter = ObservationFilter(policy.novelty_leaves, clip=CLIP)
        for name, delta in own_filter.moments(behind, batch["valid"]).items():
            self._moments[name] = self._moments.get(name, Moments.empty(delta.mean.shape)).merged(delta)
        own_filter.load(self._moments)
        inputs = {CURIOSITY_NEXT_OBS: behind, CURIOSITY_OBS: map_tree(lambda leaf: leaf[:-1], seen)}
        return SampleBatch(batch, **{name: own_filter(inputs[name]) for name in policy.novelty.columns})

    def _scaled(self, worker: int | None, rewards: Floats, batch: SampleBatch) -> Floats:
        """Divides rewards [T, B] by the running standard deviation of their discounted returns."""
        valid = batch["valid"]
        start = self._running.get(worker, np.zeros(valid.shape[1]))
        sums = forward_discounted_sums(
            rewards.astype(np.float64), np.zeros_like(valid), valid, self.config.gamma, start
        )
        self._running[worker] = sums[-1].copy()
        self._returns = self._returns.merged(Moments.of(sums[valid], 1))
        scaled: Floats = (rewards / np.sqrt(self._returns.variance + 1e-8)).astype(np.float32)
        self._rewards = self._rewards.merged(Moments.of(scaled[valid], 1))
        return scaled

    @override
    def state(self) -> dict[str, Any]:
        """Returns the running statistics of observations and of discounted intrinsic returns, for checkpoints."""
        return {
            "observations": {name: moments.state() for name, moments in self._moments.items()},
            "returns": self._returns.state(),
            "running": [[worker, sums] for worker, sums in self._running.items()],
        }

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._moments = {name: Moments.from_state(moments) for name, moments in state["observations"].items()}
        self._returns = Moments.from_state(state["returns"])
        self._running = {worker: np.asarray(sums, np.float64) for worker, sums in state["running"]}


def _without_mask(observations: Any, leaves: ObservationTree) -> Any:
    """Returns observations without the action mask."""
    if not is_masked(leaves):
        return observations
    return {key: part for key, part in observations.items() if key != ACTION_MASK}
