"""Settings of asynchronous collection, replay and learning, as in Ape-X."""

from __future__ import annotations

from rlrun.engine.settings.config import ConfigModel, NonNegativeInt, PositiveFloat, PositiveInt


class AsynchronyConfig(ConfigModel):
    """Settings of the concurrency of workers, replay buffer and learner."""

    replay_shards: NonNegativeInt = 1
    """Processes (shards) that hold the replay buffer, each with the fragments of its share of the remote workers.
    Shards reserve no CPUs. 0 holds the buffer in the trial's process, as always without remote workers."""
    minibatches_in_flight: PositiveInt = 32
    """Minibatches requested in advance from each replay shard, so that the learner never waits for one. All of them may
    be in memory at once: 512 steps of Atari take 29 MB. Fewer suffice for a large network."""
    rollouts_in_flight: PositiveInt = 2
    """Fragments requested in advance from each worker."""
    minibatches_per_fragment: PositiveInt = 1
    """Minimum number of minibatches per stored fragment once learning has started: faster workers wait, and slower ones
    leave time for more. With the replay buffer and the only worker in the trial's process, the number is exact."""
    weights_age: PositiveInt = 50
    """Age of a worker's weights, in minibatches, at which the worker is sent new ones with its next fragment. In the
    paper, actors copy the weights every 400 frames, in which the learner takes about 56 minibatches."""


class DistributedReplaySettings(ConfigModel):
    """Mixin for configs of `OffPolicyConfig`: settings of distributed replay as in Ape-X, for any loss.

    List it before `OffPolicyConfig` among the base classes, so that its defaults take precedence.
    """

    rollout_fragment_length: PositiveInt | None = 50
    """Steps of each env in one fragment, which enters the replay buffer as a whole; null for 1."""
    training_intensity: PositiveFloat = 1000.0
    """Maximum number of minibatches per env step after learning starts. The default is no limit in practice: Ape-X
    learns as fast as possible, and the metric minibatches_per_env_step reports the resulting ratio."""
    asynchrony: AsynchronyConfig = AsynchronyConfig()
    """Concurrency of workers, replay buffer and learner."""
