"""Settings of algorithms that learn from recorded data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import model_validator
from typing_extensions import override

from rlrun.engine.algorithm_config import AlgorithmConfig, InferenceConfig
from rlrun.engine.datasets.input_config import DataSettings, total_share
from rlrun.engine.settings.config import PositiveInt, fixed


@fixed(
    "the algorithm does not step an env",
    num_workers=0,
    num_envs_per_worker=1,
    rollout_fragment_length=None,
    min_env_steps_per_iteration=0,
    num_cpus_per_worker=1.0,
    max_worker_restarts=0,
    inference=InferenceConfig(),
)
@fixed("minibatches of a data set are processed in one process", num_learners=0)
@fixed("a minibatch of a data set is used as a whole", microbatch_size=None)
@fixed("rewards of a data set have a fixed scale; set reward_scale instead", normalize_rewards=False)
class OfflineConfig(DataSettings, AlgorithmConfig):
    """Settings of an algorithm that learns from recorded data alone, without stepping an env."""

    needed: ClassVar[Mapping[str, str]] = {"input": "must name a data set to learn from"}

    minibatch_size: PositiveInt = 256
    """Items in a minibatch: steps, or sequences of a recurrent network."""

    @model_validator(mode="after")
    def _learns_from_data_alone(self) -> OfflineConfig:
        if self.input is not None and total_share(self.input) < 1:
            raise ValueError(f"without an env, the shares under input must sum to 1, not {total_share(self.input):g}")
        return self

    @property
    @override
    def is_offline(self) -> bool:
        return True

    @property
    @override
    def sgd_steps_per_env_step(self) -> float:
        return 1.0
