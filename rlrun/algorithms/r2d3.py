"""R2D3: R2D2 that learns from demonstrations as well."""

from __future__ import annotations

from rlrun.algorithms.r2d2 import R2D2, R2D2Config
from rlrun.config import Fraction
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.operators import LearnResult
from rlrun.functional.seeding import child_seed
from rlrun.off_policy import learn_from_replay
from rlrun.replay.demonstrations import DemonstratedReplay
from rlrun.rollout.worker_set import WorkerSet


class R2D3Config(R2D2Config):
    """Settings of R2D3 (Paine et al., arXiv:1909.01387)."""

    demonstrations: str | None = None
    """A file that `rlrun demonstrate` has written. A relative path is looked for in the current directory and beside
    the spec. Training needs one."""
    demonstration_ratio: Fraction = 0.25
    """Probability of each sequence of a minibatch that it is drawn from the demonstrations."""


class R2D3(R2D2):
    """Learn from sequences of what was put by and of what was demonstrated."""

    Config = R2D3Config
    config: R2D3Config

    def learn(self, rollouts: Flow[SampleBatch], workers: WorkerSet) -> Flow[LearnResult]:
        """As R2D2 does, out of two replays."""
        replay = DemonstratedReplay(
            self.sequence_replay,
            self.config.replay,
            len(workers.indices),
            demonstrations=self.config.demonstrations,
            ratio=self.config.demonstration_ratio,
            seed=child_seed(self.seed, "demonstrations"),
        )
        return learn_from_replay(rollouts, self.trainee, replay, self.config)
