"""R2D3: R2D2 with expert demonstrations in the replay buffer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.recurrent_q.demonstrated_replay import DemonstratedReplay
from rlrun.algorithms.recurrent_q.r2d2 import R2D2, R2D2Config
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.replay.local_replay import LocalReplay
from rlrun.engine.replay.replay import Replay
from rlrun.engine.replay.sequences import SequenceReplay
from rlrun.engine.settings.config import Fraction


class R2D3Config(R2D2Config):
    """Settings of R2D3 (Paine et al., arXiv:1909.01387)."""

    needed: ClassVar[Mapping[str, str]] = {
        "demonstrations": "must name demonstrations to learn from; record them with `rlrun demonstrate`"
    }

    demonstrations: str | None = None
    """Path of a file or a data set of demonstrations, written by `rlrun demonstrate`; required for training. A relative
    path is searched for in the current directory and next to the spec."""
    demonstration_ratio: Fraction = 0.25
    """Probability that a sequence of a minibatch is sampled from the demonstrations."""

    @model_validator(mode="after")
    def _demonstrations_hold_no_views(self) -> R2D3Config:
        if self.model.views.any:
            raise ValueError("demonstrations do not support model.views; leave it out")
        return self


class R2D3(R2D2):
    """R2D2 that samples a share of its sequences from demonstrations (arXiv:1909.01387)."""

    Config = R2D3Config
    config: R2D3Config

    @override
    def replay(self, trainee: Trainee) -> Replay:
        """Creates the replay buffer of sequences, which mixes collected experience with demonstrations."""
        config, seed = self.config, child_seed(trainee.seed, "replay")
        mixed = DemonstratedReplay(
            partial(SequenceReplay, n_step=config.n_step, gamma=config.gamma, seed=seed),
            config.replay,
            len(trainee.workers.indices),
            demonstrations=config.demonstrations,
            ratio=config.demonstration_ratio,
            scale=RewardScale(config.reward_scale, config.clip_rewards),
            seed=child_seed(trainee.seed, "demonstrations"),
        )
        return LocalReplay(mixed, trainee.workers.indices)
