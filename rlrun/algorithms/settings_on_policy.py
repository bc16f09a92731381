"""Settings of algorithms that learn from batches of fresh experience."""

from __future__ import annotations

from rlrun.algorithm_config import AlgorithmConfig
from rlrun.config import PositiveInt


class OnPolicyConfig(AlgorithmConfig):
    """Settings of an algorithm that learns from each batch of fresh experience."""

    train_batch_size: PositiveInt = 2048
    """Env steps that are collected for an update, over all workers and envs. In a world of many agents each slot of the
    policy counts as an env, whether an agent is in it or not."""
    rollout_fragment_length: PositiveInt | None = None
    """Steps of each env in one fragment; null for as many as let one fragment of every worker fill a batch."""
    seq_len: PositiveInt = 16
    """With a recurrent network (`model.core`): consecutive steps over which gradients flow back through time, no more
    than a fragment holds. Minibatches are whole sequences of so many steps, each of which begins with the recurrent
    state that was recorded while acting."""

    @property
    def steps_in_row(self) -> int | None:
        """Steps of a sequence if the network is recurrent; None if it learns from single steps."""
        return None if self.model.core is None else self.seq_len

    @property
    def fragment_length(self) -> int:
        """Steps of each env in one fragment."""
        return self.rollout_fragment_length or max(-(-self.train_batch_size // self.env_slots), 1)

    @property
    def env_steps_per_update(self) -> int:
        """Env steps that are collected between two turns of learning."""
        return self.train_batch_size
