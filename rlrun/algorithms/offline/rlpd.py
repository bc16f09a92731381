"""RLPD: SAC with recorded data in each minibatch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rlrun.algorithms.actor_q.sac import SAC, SACConfig
from rlrun.algorithms.offline.replay_or_data import ReplayOrData
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.nn.model_config import WHO_IS_RECURRENT, SoftModelConfig
from rlrun.engine.settings.config import defaults, fixed


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@defaults(critic_normalization="layer")
class RLPDModelConfig(SoftModelConfig):
    """Settings of RLPD's networks, whose critics use layer normalization."""


@defaults(
    num_critics=10,
    num_target_critics=2,
    actor_objective="mean",
    policy_delay=20,
    training_intensity=20.0,
)
@fixed("minibatches of a data set are processed in one process", num_learners=0)
class RLPDConfig(DataSettings, SACConfig):
    """Settings of RLPD (Ball et al., arXiv:2302.02948); the defaults are from the paper's table 2, or else SAC's."""

    needed: ClassVar[Mapping[str, str]] = {
        "input": "must name a data set, such as [{path: FOLDER, share: 0.5}], in addition to the env"
    }

    model: RLPDModelConfig = RLPDModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """Network architecture of the actor and of each critic."""


class RLPD(ReplayOrData, SAC):
    """Reinforcement learning with prior data: SAC with layer normalization, many critics and symmetric sampling.

    With a data share of 0.5, half of each minibatch comes from the data. With a data share of 1, this is SAC on data
    alone.
    """

    Config: ClassVar[type[SACConfig]] = RLPDConfig
    config: RLPDConfig
