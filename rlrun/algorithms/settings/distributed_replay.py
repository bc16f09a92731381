"""Settings of asynchronous collection, replay and learning, as in Ape-X."""

from __future__ import annotations

from rlrun.config import ConfigModel, NonNegativeInt, PositiveFloat, PositiveInt


class AsynchronyConfig(ConfigModel):
    """How workers, replay buffer and learner run concurrently."""

    replay_shards: NonNegativeInt = 1
    """Processes that keep the replay buffer, each with the fragments of its share of the remote workers; they get no
    CPUs of their own. 0 keeps it in the trial's process, as the local worker alone does."""
    minibatches_in_flight: PositiveInt = 32
    """Minibatches that each of them is asked for ahead of time, so that the learner finds one when it is ready. All of
    them may be in memory at once: 512 steps of Atari's take 29 MB, and fewer do for a large network."""
    rollouts_in_flight: PositiveInt = 2
    """Fragments that each worker is asked for ahead of time."""
    minibatches_per_fragment: PositiveInt = 1
    """Fewest minibatches per stored fragment, once learning has begun: faster workers wait, and slower ones leave time
    for more. With the replay buffer in the trial's process and the local worker, it is exact."""
    weights_age: PositiveInt = 50
    """Age of a worker's weights, in minibatches, from which it gets new ones with its next fragment (the paper's actors
    copy them every 400 frames, during which its learner takes about 56 minibatches)."""


class DistributedReplaySettings(ConfigModel):
    """Settings of Ape-X with any loss, next to those of `OffPolicyConfig`.

    It comes before that one among the bases of such settings, so that its defaults hold.
    """

    rollout_fragment_length: PositiveInt | None = 50
    """Steps of each env that go into the replay buffer together; null for 1."""
    training_intensity: PositiveFloat = 1000.0
    """Most minibatches per env step after learning starts. The default is no limit in practice: Ape-X learns as fast as
    it can, and the result minibatches_per_env_step is the ratio that follows."""
    asynchrony: AsynchronyConfig = AsynchronyConfig()
    """How workers, replay buffer and learner run concurrently."""
