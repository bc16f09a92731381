"""DPO: direct preference optimization, online and iterative."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.loss_metrics import GRAD_NORM
from rlrun.algorithms.preferences.comparisons import PREFERENCE, compared, preferred
from rlrun.algorithms.preferences.rlhf import KL_TO_REFERENCE, episode_rows
from rlrun.algorithms.preferences.settings import DPOConfig
from rlrun.algorithms.preferences.whole_episodes import WholeEpisodes
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, StatefulOperator
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.functional.saved_numbers import load_generator
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.learner.objective import Loss
from rlrun.engine.settings.metric import Metric
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.preferences.policy import ReferencedOutputs, RewardModelOutputs
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.policy.policy import Policy

REWARD_MODEL_POLICY = "rlrun.algorithms.preferences.policy:RewardModelPolicy"
"""Import path of the policy whose reward model labels pairs."""


class DPO(Algorithm[DPOConfig]):
    """Direct preference optimization on pairs of episodes that the policy itself generates in each iteration.

    Preferences follow the episodes' returns or a reward model's scores, with the noise of a Bradley-Terry model. The
    reference policy is the policy at the start of training.

    Source:
        Rafailov et al., "Direct preference optimization", arXiv:2305.18290, eq. 7; online as in Guo et al., "Direct
        language model alignment from online AI feedback", arXiv:2402.04792, algorithm 1.
    """

    Config = DPOConfig
    policy_family = "rlrun.algorithms.preferences.policy:ReferencedActorPolicy"
    learns_in_worlds = False
    has_target_network = True
    learner_metrics = (
        Metric("loss", "nats", "Cross-entropy of the preferences under the implicit rewards", mode="min"),
        Metric("accuracy", "", "Fraction of pairs whose preferred episode has the higher implicit reward", mode="max"),
        KL_TO_REFERENCE,
        GRAD_NORM,
    )

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        if self.config.labels == "returns":
            return super().policy(spaces, seed)
        judged: Policy = load_internal(REWARD_MODEL_POLICY)(spaces, self.config, seed)
        return judged

    @override
    def loss(
        self, outputs: ReferencedOutputs | RewardModelOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]
    ) -> Loss:
        """DPO loss over S comparisons: mean of -log sigmoid(beta (log-ratio of preferred - log-ratio of other)).

        The log-ratio of an episode is log(pi / pi_reference), summed over its actions.
        """
        from torch.nn.functional import softplus

        own, reference = (each.log_prob(batch["actions"]) for each in (outputs.distribution, outputs.reference))
        log_ratios = (own - reference) * batch["valid"].float()
        margins, is_pair = (log_ratios * batch[PREFERENCE]).sum(1), batch["valid"][:, 0].float()
        loss = masked_mean(softplus(-self.config.beta * margins), is_pair)
        statistics = {
            "loss": loss,
            "accuracy": masked_mean((margins > 0).float(), is_pair),
            "kl_to_reference": masked_mean(log_ratios.sum(1) / 2, is_pair),
        }
        return Loss(loss, statistics)

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that compares complete episodes in pairs and runs epochs of SGD on batches of pairs."""
        config = self.config
        train = TrainOnBatch(
            trainee, num_epochs=config.num_epochs, minibatch_size=config.minibatch_size, seq_len=2 * config.seq_len
        )
        return (
            fragments.zip_with_worker()
            .combine(WholeEpisodes(config.seq_len))
            .combine(ConcatBatches(config.train_batch_size))
            .for_each(Compare(trainee, config.temperature, config.labels))
            .for_each(train)
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


class Compare(StatefulOperator):
    """Arranges N episodes [L, N] in random pairs, as comparisons [2 L, N / 2]; drops one episode if N is odd.

    Args:
        trainee: The policy in training.
        temperature: Temperature of the preferences; see `preferred`.
        labels: Source of the preferences: `returns`, or the scores of a `reward_model`.
    """

    def __init__(self, trainee: Trainee, temperature: float, labels: Literal["returns", "reward_model"]) -> None:
        self.trainee = trainee
        self.temperature = temperature
        self.labels = labels
        self._generator = np.random.Generator(np.random.Philox(child_seed(trainee.seed, "comparisons")))

    @override
    def settings(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "labels": self.labels}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the comparisons."""
        steps, number = item.steps(), item["valid"].shape[1] // 2
        order = self._generator.permutation(item["valid"].shape[1])
        first, second = (
            steps.map(lambda leaf, own=own: leaf[:, own]) for own in (order[:number], order[number : 2 * number])
        )
        worth = returns(steps) if self.labels == "returns" else self._scores(item)
        own, others = worth[order[:number]], worth[order[number : 2 * number]]
        is_first = preferred(own, others, self.temperature, self._generator)
        pairs = compared(first, second, is_first, axis=0)
        length = len(pairs["valid"])
        # Each episode starts from a zero state, as `episode_starts` marks; networks without a core ignore the column.
        state = np.zeros((length, number, item["state"].shape[-1] if "state" in item else 1), np.float32)
        versions = np.concatenate([first["weights_version"], second["weights_version"]])
        return SampleBatch(pairs, state=state, weights_version=versions)

    def _scores(self, item: SampleBatch) -> NDArray[np.float64]:
        """Returns the reward model's scores of N complete episodes [L, N]."""
        from rlrun.algorithms.preferences.policy import scores

        ends = item["valid"] & (item["terminateds"] | item["truncateds"])
        found = self.trainee.learner.evaluate(scores, episode_rows(item)).T
        worth: NDArray[np.float64] = np.where(ends, found, 0.0).sum(0, dtype=np.float64)
        return worth

    @override
    def state(self) -> dict[str, Any]:
        """Returns the state of the random generator for pairs and preferences."""
        return {"generator": dict(self._generator.bit_generator.state)}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        load_generator(self._generator, state["generator"])


def returns(episodes: SampleBatch) -> NDArray[np.float64]:
    """Computes the returns (sums of rewards) of N complete episodes from their steps [steps, N]."""
    sums: NDArray[np.float64] = np.where(episodes["valid"], episodes["rewards"], 0.0).sum(0, dtype=np.float64)
    return sums
