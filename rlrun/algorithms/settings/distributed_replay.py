"""Settings of algorithms that collect, store and learn side by side, as Ape-X does."""

from __future__ import annotations

from rlrun.config import ConfigModel, NonNegativeInt, PositiveFloat, PositiveInt


class AsynchronyConfig(ConfigModel):
    """How workers, replay buffer and learner go on side by side."""

    replay_shards: NonNegativeInt = 1
    """Processes that keep the replay buffer, each with the fragments of its share of the remote workers; they get no
    CPUs of their own. 0 keeps it in the trial's process, as the local worker alone does."""
    minibatches_in_flight: PositiveInt = 32
    """Minibatches that each of them is asked for ahead of time, so that the learner finds one when it is ready. All of
    them may be in memory at once: 512 steps of Atari's take 29 MB, and fewer do for a large network."""
    rollouts_in_flight: PositiveInt = 2
    """Fragments that each worker is asked for ahead of time."""
    minibatches_per_fragment: PositiveInt = 1
    """Minibatches that are learned from before the next fragment is taken in, once learning has begun: workers that
    are faster than that wait. Where they are slower there are more of them; with the replay buffer in the trial's
    process and the local worker, exactly so many follow each fragment."""
    weights_age: PositiveInt = 50
    """A worker gets new weights with its next fragment when its own are at least so many minibatches old (the paper's
    actors copy them every 400 frames, during which its learner gets about 56 minibatches further)."""


class DistributedReplaySettings(ConfigModel):
    """Settings of Ape-X with any loss, beside those of `OffPolicyConfig`.

    It stands before that one among the bases of such settings, so that its defaults hold.
    """

    rollout_fragment_length: PositiveInt | None = 50
    """Steps of each env that go into the replay buffer together; null for 1."""
    training_intensity: PositiveFloat = 1000.0
    """Most minibatches per env step after that. The default is out of reach: Ape-X learns as fast as it can, and
    minibatches_per_env_step in the results says how fast that was."""
    asynchrony: AsynchronyConfig = AsynchronyConfig()
    """How workers, replay buffer and learner go on side by side."""
