"""DD-PPO: decentralized distributed proximal policy optimization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.ddppo.all_reduce_sgd import AllReduceSGD, MirrorReplicas
from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.algorithms.settings.on_policy import WHO_HAS_CONSTRAINTS, WHO_HAS_CURIOSITY
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.advantages import ComputeAdvantages
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.settings.config import fixed

MEETING_TIMEOUT_S = 300.0
"""Timeout in seconds of the rendezvous of all workers."""


@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@fixed(WHO_HAS_CONSTRAINTS, constraint=None)
@fixed("the rollout workers do the learning themselves", num_learners=0)
@fixed("the rollout workers learn in lockstep", asynchronous=False)
@fixed("the driver adapts the penalty's weight, but the rollout workers learn; use ppo", kl_penalty=None)
@fixed("the other workers cannot continue if one dies", max_worker_restarts=0)
class DDPPOConfig(PPOConfig):
    """Settings of DD-PPO (Wijmans et al., arXiv:1911.00357).

    Batches and minibatches are counted over all workers; each worker learns from its share of them. The workers share
    `num_gpus` GPUs equally.
    """

    learns_on_workers: ClassVar[bool] = True

    standardize_advantages: bool = True
    """Whether advantages are standardized (mean 0, standard deviation 1) over all workers' batches."""

    @model_validator(mode="after")
    def _workers_in_step(self) -> DDPPOConfig:
        batch = self.fragment_length * self.env_slots
        if self.rollout_fragment_length is not None and batch != self.train_batch_size:
            raise ValueError(
                "each worker learns from one fragment at a time: leave out rollout_fragment_length, or set "
                f"train_batch_size to {batch}"
            )
        if self.num_workers and self.num_gpus > self.num_workers:
            raise ValueError(
                f"num_gpus ({self.num_gpus:g}) must not exceed num_workers ({self.num_workers}), because each worker "
                "learns on one GPU"
            )
        if self.minibatch_size < self.num_workers:
            raise ValueError(f"minibatch_size ({self.minibatch_size}) must be at least num_workers")
        part = self.minibatch_size // max(self.num_workers, 1)
        if self.model.core is not None and part % self.seq_len:
            raise ValueError(
                f"each worker's part of a minibatch ({part} steps) must be a multiple of seq_len ({self.seq_len}), "
                "because minibatches of a recurrent network hold whole sequences"
            )
        return self


class DDPPO(PPO):
    """Decentralized distributed PPO: workers learn from their own rollouts and all-reduce gradients (arXiv:1911.00357).

    The driver copies the workers' learner state for checkpoints and evaluation, and merges their observation filters.
    All workers collect fragments of the same length; the paper's rule that shortens the fragments of slow workers
    (section 3, "straggler effect") is not implemented.

    Without remote workers the algorithm is PPO.
    """

    Config = DDPPOConfig
    config: DDPPOConfig
    operator_metrics = MirrorReplicas.declared_metrics

    @override
    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """Operators that each worker runs: compute advantages, then take SGD steps along all-reduced gradients."""
        config = self.config
        compute = ComputeAdvantages(config.gamma, config.gae_lambda)
        learn = AllReduceSGD(
            trainee.learner_factory,
            config.num_workers,
            num_epochs=config.num_epochs,
            minibatch_size=config.minibatch_size,
            seq_len=config.steps_in_row,
            standardize="advantages" if config.standardize_advantages else None,
            stop=config.early_stop,
            recompute=compute if config.recompute_advantages else None,
            timeout_s=max(config.worker_timeout_s, MEETING_TIMEOUT_S),
            has_own_gpu=0 < config.num_workers == config.num_gpus,
        )
        return compute, learn

    @override
    def learn(self, replicas: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Builds the driver's dataflow, which copies the learner state from the workers; training runs on the workers.

        The dataflow also merges the observation filters (running statistics) of the workers, and broadcasts the result.
        """
        return (
            replicas.zip_with_worker()
            .combine(MirrorReplicas(trainee))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
