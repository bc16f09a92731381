"""Settings that every algorithm has: how it learns, and how it collects experience."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from annotated_types import Gt, Le
from pydantic import model_validator

from rlrun.config import (
    ConfigModel,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Schedule,
    fixed,
)
from rlrun.nn.model_config import ModelConfig
from rlrun.policy.reward_streams import ENV_ALONE, RewardStreams

SAMPLING = (
    "num_workers",
    "num_envs_per_worker",
    "rollout_fragment_length",
    "min_env_steps_per_iteration",
    "num_cpus_per_worker",
    "worker_timeout_s",
    "max_worker_restarts",
)
"""Settings of how experience is collected, which all policies of a world share; the others are of how a policy learns.
"""


class AlgorithmConfig(ConfigModel):
    """Settings that every algorithm has; each algorithm adds its own."""

    needed: ClassVar[Mapping[str, str]] = {}
    """Error messages for settings that must not be null, by setting."""

    lr: Schedule = 3e-4
    """Learning rate."""
    gamma: Fraction = 0.99
    """Discount of future rewards."""
    max_grad_norm: PositiveFloat | None = 0.5
    """Bound of the gradient's norm; null for none."""
    normalize_observations: bool = False
    """Whether observations are shifted and scaled by their running mean and standard deviation: all Boxes that enter
    the network as vectors, integers too, but those with `model.observations: {KEY: {bounds: ...}}`. Images and one-hot
    parts stay as they are."""
    normalize_rewards: bool = False
    """Whether rewards are divided by the running standard deviation of discounted returns."""
    clip_rewards: PositiveFloat | None = None
    """Bound of the rewards that are learned from, usually 1 for Atari; reported returns stay raw. null for none."""
    model: ModelConfig = ModelConfig()
    """The network."""
    microbatch_size: PositiveInt | None = None
    """Steps whose gradient is computed at a time: the gradients of a minibatch's parts are added up, which takes less
    memory and gives the same update; null for a whole minibatch at a time."""
    num_learners: NonNegativeInt = 0
    """Learners in processes of their own, each of which takes its share of every minibatch; 0 learns in the trial's
    process. Ray sets aside torch_threads CPUs and num_gpus / num_learners GPUs for each."""
    num_parameter_servers: NonNegativeInt = 0
    """Processes that hold the parameters and the optimizer, a slice each, and move them by the learners' gradients; 0
    lets the learners add gradients up among themselves. Servers work while learners wait, so they get no CPUs."""
    num_gpus: NonNegativeFloat = 0.0
    """GPUs of the learner, or of all learners together; above 0 they run on CUDA."""
    torch_threads: PositiveInt = 1
    """Threads of torch and BLAS in the trial's process, and in each learner of its own."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Number format of the network's forward and backward passes; parameters, losses and the optimizer are float32 in
    either case. bfloat16 has 8 significant bits: it is for large networks on hardware with bfloat16 units."""
    compile: Literal["auto"] | bool = "auto"
    """Whether the learner's update is compiled as a whole; auto does so where a C++ compiler is there and the run is
    long enough to pay for it, with the trials that share its update. Otherwise it runs updates of dense nets, LSTMs and
    GRUs by NumPy. false is torch's operations one by one. A run keeps what it began with, since the last digits differ.
    """
    num_workers: NonNegativeInt = 0
    """Rollout workers in processes of their own; 0 collects in the trial's process, best on a small machine."""
    num_envs_per_worker: Annotated[int, Gt(0), Le(1_000_000)] = 8
    """Envs that a worker steps in parallel."""
    rollout_fragment_length: PositiveInt | None = None
    """Steps of each env in one fragment; null for 1."""
    min_env_steps_per_iteration: NonNegativeInt = 1000
    """Minimum env steps of an iteration, after which a result is written; 0 for one update. It is a number of steps,
    never a time, so that runs with the same seed have the same results on any machine."""
    num_cpus_per_worker: NonNegativeFloat = 1.0
    """CPUs that Ray sets aside for each rollout worker."""
    worker_timeout_s: PositiveFloat = 300.0
    """Seconds after which a rollout worker that has not answered is killed and replaced; a learner in a process of its
    own that has not learned from a batch by then fails the trial, and so does an env in the trial's own process that
    has taken no step, or has not been made."""
    max_worker_restarts: NonNegativeInt = 100
    """Number of rollout workers that may be replaced in a run before it fails."""

    @model_validator(mode="after")
    def _one_way_to_shrink_rewards(self) -> AlgorithmConfig:
        if self.normalize_rewards and self.clip_rewards is not None:
            raise ValueError(
                "normalize_rewards and clip_rewards exclude each other; set clip_rewards to null or drop one"
            )
        return self

    @model_validator(mode="after")
    def _at_most_a_gpu_for_each_learner(self) -> AlgorithmConfig:
        if self.num_learners and self.num_gpus > self.num_learners:
            raise ValueError(
                f"num_gpus ({self.num_gpus:g}) must not exceed num_learners ({self.num_learners}): a learner uses one"
            )
        return self

    @model_validator(mode="after")
    def _servers_have_learners(self) -> AlgorithmConfig:
        if self.num_parameter_servers and not self.num_learners:
            raise ValueError("num_parameter_servers needs num_learners, whose gradients the servers apply")
        return self

    @property
    def cpus_per_learner(self) -> float:
        """CPUs that Ray sets aside for each learner in a process of its own."""
        return float(self.torch_threads)

    @property
    def gpus_per_learner(self) -> float:
        """GPUs of each learner in a process of its own."""
        return self.num_gpus / self.num_learners if self.num_learners else 0.0

    @property
    def fragment_length(self) -> int:
        """Steps of each env in one fragment."""
        return self.rollout_fragment_length or 1

    @property
    def env_slots(self) -> int:
        """Envs of all workers together."""
        return max(self.num_workers, 1) * self.num_envs_per_worker

    @property
    def env_steps_per_update(self) -> int:
        """Env steps that are collected between two turns of learning."""
        return self.fragment_length * self.env_slots

    @property
    def needs_ray(self) -> bool:
        """Whether parts of a trial are processes of their own, which Ray runs."""
        return bool(self.num_workers or self.num_learners)

    @property
    def env_columns(self) -> tuple[str, ...]:
        """Columns that it learns from besides rewards, which `env.columns` must name; none by default."""
        return ()

    @property
    def reward_streams(self) -> RewardStreams:
        """Streams of rewards that it learns from besides the env's own; none by default."""
        return ENV_ALONE

    @property
    def learns_values(self) -> bool:
        """Whether a value network is learned next to the policy; it may share layers (`model.shared_value`)."""
        return True

    @property
    def sgd_steps_per_env_step(self) -> float:
        """Minibatches per env step, for the choice of whether compiling pays."""
        return 1 / self.env_steps_per_update

    @classmethod
    def scheduled_fields(cls) -> tuple[str, ...]:
        """Names of the settings that may change with the env steps."""
        return tuple(name for name, field in cls.model_fields.items() if _is_schedule(field))

    @classmethod
    def fixed_schedules(cls) -> dict[str, float]:
        """Returns the values of settings that bases may schedule and that cannot be set here, by name."""
        return {name: getattr(cls, name) for name, field in cls.fixed_fields.items() if _is_schedule(field)}

    @classmethod
    def shapes_parameters(cls, path: str) -> bool:
        """Whether a setting decides which parameters and statistics there are.

        What one run has learned fits only another one with the same such settings.

        Args:
            path: The setting's path below the config, such as `model.hiddens`.
        """
        setting, _, below = path.partition(".")
        return setting == "normalize_observations" or (setting == "model" and below != "activation")


def _of_learning(config: AlgorithmConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in type(config).model_fields if name not in SAMPLING}


@fixed("it is of how a policy learns, and belongs under policies.NAME.config", **_of_learning(AlgorithmConfig()))
class WorldSamplingSettings(AlgorithmConfig):
    """Settings of sampling in a world of many agents, for all of its policies."""


def _is_schedule(field: Any) -> bool:
    return get_args(Schedule)[1] in field.metadata
