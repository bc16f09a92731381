"""RLHF: PPO on the scores of a reward model, with a penalty for deviating from a reference policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from rlrun.algorithms.ppo import PPO
from rlrun.algorithms.preferences.settings import RLHFConfig
from rlrun.algorithms.preferences.whole_episodes import WholeEpisodes
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.functional.moments import Moments
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee

KL_TO_REFERENCE = Metric(
    "kl_to_reference",
    "nats",
    "Mean log-probability of an episode's actions, minus their log-probability under the reference policy",
)


class RLHF(PPO):
    """Reinforcement learning from human feedback: PPO on a reward model's scores, with a KL penalty to a reference.

    The reward model was trained in an earlier stage. The reference policy is the policy at the start of training.

    Source:
        Ouyang et al., "Training language models to follow instructions with human feedback", arXiv:2203.02155, eq. 2
        without the pretraining term.
    """

    Config: ClassVar[type[RLHFConfig]] = RLHFConfig
    config: RLHFConfig
    policy_family = "rlrun.algorithms.preferences.policy:RewardModelPolicy"
    learns_in_worlds = False
    has_target_network = True

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return (*super().operator_metrics, *ModelRewards.declared_metrics)

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds PPO's dataflow on complete episodes, rewarded by the reward model's scores minus the KL penalty."""
        rewarded = (
            fragments.zip_with_worker()
            .combine(WholeEpisodes(self.config.seq_len))
            .for_each(ModelRewards(trainee, self.config.reference_kl_coeff))
        )
        return super().learn(rewarded, trainee)


class ModelRewards(Operator):
    """Replaces rewards of complete episodes with the reward model's score at the end and a KL penalty at each step.

    The penalty of a step is reference_kl_coeff (log pi(a|s) - log pi_reference(a|s)), where pi is the policy that acted
    (arXiv:2203.02155, eq. 2). The score is the value of the whole episode, so truncated episodes are marked as
    terminated: a bootstrap would count the value twice.

    Args:
        trainee: The policy in training, with a `RewardModelPolicy`.
        reference_kl_coeff: Weight of the penalty.
    """

    def __init__(self, trainee: Trainee, reference_kl_coeff: float) -> None:
        self.trainee = trainee
        self.reference_kl_coeff = reference_kl_coeff
        self._measured = Moments.empty((2,))

    @override
    def settings(self) -> dict[str, Any]:
        return {"reference_kl_coeff": self.reference_kl_coeff}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch with the model's rewards, in which every episode that has ended is terminated."""
        from rlrun.algorithms.preferences.policy import scores_and_reference

        valid = item["valid"]
        found = self.trainee.learner.evaluate(scores_and_reference, episode_rows(item))
        log_ratios = np.where(valid, item["logp"] - found["reference_logp"].T, 0.0)
        ends = item["terminateds"] | item["truncateds"]
        scores = np.where(valid & ends, found["scores"].T, 0.0)
        self._measured = self._measured.merged(Moments.of(np.stack([scores.sum(0), log_ratios.sum(0)], -1), 1))
        rewards = (scores - self.reference_kl_coeff * log_ratios).astype(np.float32)
        return SampleBatch(item, rewards=rewards, terminateds=ends, truncateds=np.zeros_like(ends))

    declared_metrics = (
        Metric("model_return_mean", "", "Mean score of an episode from the reward model", mode="max"),
        KL_TO_REFERENCE.below("learner/"),
    )

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the mean score and the mean KL divergence of the episodes since the last call."""
        measured, self._measured = self._measured, Moments.empty((2,))
        if not measured.count:
            return {}
        score, kl = measured.mean
        return {"model_return_mean": float(score), "learner/kl_to_reference": float(kl)}


def episode_rows(batch: SampleBatch) -> SampleBatch:
    """Transposes complete episodes [steps, N] to rows [N, steps], the layout that networks take."""
    steps = batch.steps()
    starts = np.zeros_like(batch["valid"])
    starts[0] = True
    names = ("obs", "actions", "valid")
    columns = SampleBatch({name: steps[name] for name in names}, episode_starts=starts)
    rows = columns.zero_invalid().rows(len(starts))
    return SampleBatch(rows, state=batch["state"][0]) if "state" in batch else rows
