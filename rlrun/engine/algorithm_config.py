"""Settings that all algorithms share, for learning and for the collection of experience."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from annotated_types import Gt, Le
from pydantic import model_validator

from rlrun.engine.envs.env_config import LoggedActions
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.reward_streams.streams import ENV_ALONE, RewardStreams
from rlrun.engine.settings.config import (
    AdaptiveRate,
    ConfigModel,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    Plugins,
    PositiveFloat,
    PositiveInt,
    Schedule,
    fixed,
)

SAMPLING = (
    "num_workers",
    "num_envs_per_worker",
    "rollout_fragment_length",
    "min_env_steps_per_iteration",
    "num_cpus_per_worker",
    "worker_timeout_s",
    "max_worker_restarts",
    "min_share_of_fragments",
    "inference",
)
"""Names of the sampling settings, which all policies of a world share; all other settings belong to a single policy."""


class InferenceConfig(ConfigModel):
    """Settings of inference: where policies choose the actions of remote rollout workers."""

    at: Literal["worker", "trial"] = "worker"
    """Where actions are computed: by each rollout worker for its envs, or by one server for all workers of the trial,
    which batches the waiting requests (SEED RL, arXiv:1910.06591)."""
    max_batch: PositiveInt | None = None
    """Maximum number of env slots in a forward pass of the server; null for all waiting slots."""
    groups: PositiveInt = 2
    """Number of groups into which a worker's envs are divided: while one group waits for actions, the others step."""
    num_gpus: NonNegativeFloat = 0.0
    """GPUs, or a share of one, that Ray reserves for the server; above 0, the server uses CUDA."""


class AlgorithmConfig(ConfigModel):
    """Settings that all algorithms share; each algorithm's config adds its own settings."""

    of_logged_actions: ClassVar[LoggedActions] = "learn"
    """Extent to which the algorithm supports actions that a client chose instead of the policy."""

    learns_on_workers: ClassVar[bool] = False
    """Whether remote rollout workers learn, and so divide the GPUs among themselves."""

    needed: ClassVar[Mapping[str, str]] = {}
    """Error messages for null values of required settings, by setting."""

    lr: Schedule = 3e-4
    """Learning rate."""
    gamma: Fraction = 0.99
    """Discount factor."""
    max_grad_norm: PositiveFloat | None = 0.5
    """Gradient clipping threshold (global norm); null for no clipping."""
    normalize_observations: bool = False
    """Whether Box observations that enter the network as vectors (including integers) are normalized by running mean
    and standard deviation, except those with `model.observations: {KEY: {bounds: ...}}`."""
    normalize_rewards: bool = False
    """Whether rewards are divided by the running standard deviation of discounted returns."""
    reward_scale: PositiveFloat = 1.0
    """Factor of rewards for learning, before clipping; reported returns are unscaled."""
    clip_rewards: PositiveFloat | None = None
    """Reward clipping bound for learning, usually 1 for Atari; reported returns are unclipped. null for no clipping."""
    model: ModelConfig = ModelConfig()
    """Network architecture."""
    before_learning: Plugins = ()
    """Operators that may change fragments before the algorithm learns from them: package.module:Class, or
    {package.module:Class: SETTINGS}."""
    microbatch_size: PositiveInt | None = None
    """Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch saves memory and
    gives the same update; null for whole minibatches."""
    num_learners: NonNegativeInt = 0
    """Data-parallel learner processes that share each minibatch; 0 learns in the trial's process. Ray reserves
    torch_threads CPUs and num_gpus / num_learners GPUs for each."""
    num_gpus: NonNegativeFloat = 0.0
    """Total number of GPUs of the learners; above 0, they use CUDA. In ddppo, the learners are the rollout workers."""
    torch_threads: PositiveInt = 1
    """Number of torch and BLAS threads in the trial's process, and in each learner process."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of the network's forward and backward passes; parameters, losses and the optimizer are always float32.
    bfloat16 suits large networks on hardware with bfloat16 units."""
    compile: Literal["auto"] | bool = "auto"
    """Compilation of the learner's update. On the CPU, float32 runs as C kernels (auto: NumPy if a machine of the run
    has no C compiler), and bfloat16 through torch's compiler (auto: only in long runs). On GPUs, the update is a CUDA
    graph. false runs torch eagerly. The choice is fixed for a run, because the last digits of results differ."""
    num_workers: NonNegativeInt = 0
    """Number of remote rollout workers, one process each; 0 collects in the trial's own process."""
    num_envs_per_worker: Annotated[int, Gt(0), Le(1_000_000)] = 8
    """Number of envs that each rollout worker steps in parallel."""
    rollout_fragment_length: PositiveInt | None = None
    """Steps of each env in one fragment; null for 1."""
    min_env_steps_per_iteration: NonNegativeInt = 1000
    """Minimum number of env steps per iteration, which ends with a result; 0 for one update per iteration."""
    num_cpus_per_worker: NonNegativeFloat = 1.0
    """CPUs that Ray reserves for each rollout worker."""
    worker_timeout_s: PositiveFloat = 300.0
    """Seconds after which a rollout worker that does not answer is killed and replaced. The trial fails if a learner
    process takes longer for a batch, or if an env in the trial's process takes longer to step or to be created."""
    max_worker_restarts: NonNegativeInt = 100
    """Maximum number of replaced rollout workers before the run fails."""
    min_share_of_fragments: Annotated[float, Gt(0), Le(1)] = 1.0
    """Share of the remote workers that a synchronous round waits for. Below 1, fragments of slower workers are dropped
    as in DD-PPO (arXiv:1911.00357), results depend on the machine, and resumes are not exact."""
    inference: InferenceConfig = InferenceConfig()
    """Where policies choose the actions of remote rollout workers."""

    @model_validator(mode="after")
    def _one_way_to_shrink_rewards(self) -> AlgorithmConfig:
        if self.normalize_rewards and (self.clip_rewards is not None or self.reward_scale != 1):
            name, off = ("reward_scale", "1") if self.clip_rewards is None else ("clip_rewards", "null")
            raise ValueError(f"set normalize_rewards to false or {name} to {off}, because they cannot be combined")
        return self

    @model_validator(mode="after")
    def _at_most_a_gpu_for_each_learner(self) -> AlgorithmConfig:
        if self.num_learners and self.num_gpus > self.num_learners:
            raise ValueError(
                f"num_gpus ({self.num_gpus:g}) must not exceed num_learners ({self.num_learners}), because "
                "each learner uses one GPU"
            )
        return self

    @model_validator(mode="after")
    def _server_has_workers(self) -> AlgorithmConfig:
        if not self.is_served:
            return self
        if not self.num_workers:
            raise ValueError("inference.at: trial needs num_workers of at least 1, because it serves remote workers")
        if self.num_envs_per_worker % self.inference.groups:
            raise ValueError(
                f"num_envs_per_worker ({self.num_envs_per_worker}) must be a multiple of inference.groups "
                f"({self.inference.groups}), because each group steps an equal share of a worker's envs"
            )
        if self.min_share_of_fragments < 1:
            raise ValueError(
                "min_share_of_fragments has no effect with inference.at: trial, where workers wait for each other at "
                "every step; leave out one of them"
            )
        return self

    @property
    def is_served(self) -> bool:
        """Whether one inference server chooses the actions of all rollout workers."""
        return self.inference.at == "trial"

    @property
    def cpus_of_server(self) -> float:
        """Number of CPUs that Ray reserves for the inference server; 0 without one."""
        return 1.0 if self.is_served else 0.0

    @property
    def cpus_per_learner(self) -> float:
        """Number of CPUs that Ray reserves for each learner process."""
        return float(self.torch_threads)

    @property
    def gpus_per_learner(self) -> float:
        """Number of GPUs that each learner process gets; a fraction if learners share a GPU."""
        return self.num_gpus / self.num_learners if self.num_learners else 0.0

    @property
    def fragment_length(self) -> int:
        """Number of steps that each env of a worker takes for one fragment (rollout)."""
        return self.rollout_fragment_length or 1

    @property
    def env_slots(self) -> int:
        """Total number of envs that all workers step."""
        return max(self.num_workers, 1) * self.num_envs_per_worker

    @property
    def env_steps_per_update(self) -> int:
        """Number of env steps that are collected between two updates, over all workers."""
        return self.fragment_length * self.env_slots

    @property
    def needs_ray(self) -> bool:
        """Whether a trial starts additional processes (such as workers or learners), for which it needs Ray."""
        return bool(self.num_workers or self.num_learners)

    @property
    def env_columns(self) -> tuple[str, ...]:
        """Names of numbers in the env's infos that the algorithm needs as batch columns; none by default."""
        return ()

    @property
    def adaptive_lr(self) -> AdaptiveRate | None:
        """Rule by which the learning rate of the main loss adapts to the loss's statistic `kl`; None by default."""
        return None

    @property
    def clipped_separately(self) -> str:
        """Pattern for the names of parameters whose gradients are clipped separately; "" (none) by default."""
        return ""

    @property
    def episodes_per_seed(self) -> int:
        """Number of consecutive episodes of a worker that start from the same seed; 1 by default."""
        return 1

    @property
    def reward_streams(self) -> RewardStreams:
        """Rewards in addition to the env's (intrinsic rewards, costs), each with a separate value head.

        By default, there are none.
        """
        return ENV_ALONE

    @property
    def value_heads(self) -> tuple[str, ...]:
        """Names of the additional rewards, such as intrinsic rewards, in the order of the network's value heads."""
        return tuple(stream.name for stream in self.reward_streams.further)

    @property
    def learns_values(self) -> bool:
        """Whether the algorithm trains a value network, which may share the policy's layers (`model.shared_value`)."""
        return True

    @property
    def sgd_steps_per_env_step(self) -> float:
        """Number of minibatches per env step, from which `compile: auto` estimates whether compilation pays off."""
        return 1 / self.env_steps_per_update

    @classmethod
    def scheduled_fields(cls) -> tuple[str, ...]:
        """Names of the settings that accept a schedule, and may thus change during training."""
        return tuple(name for name, field in cls.model_fields.items() if _is_schedule(field))

    @classmethod
    def fixed_schedules(cls) -> dict[str, float]:
        """Values, by name, of settings that are constants in this config class but accept schedules in others."""
        return {name: getattr(cls, name) for name, field in cls.fixed_fields.items() if _is_schedule(field)}

    @classmethod
    def shapes_parameters(cls, path: str) -> bool:
        """Whether a setting determines the shapes of parameters and running statistics.

        Weights can be loaded only into a run with equal values of all such settings.

        Args:
            path: The setting's path below the config, such as `model.hiddens`.
        """
        setting, _, below = path.partition(".")
        return setting == "normalize_observations" or (setting == "model" and below != "activation")


def _of_learning(config: AlgorithmConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in type(config).model_fields if name not in SAMPLING}


@fixed("it controls how a policy learns; set it under policies.NAME.config", **_of_learning(AlgorithmConfig()))
class WorldSamplingSettings(AlgorithmConfig):
    """Settings for the collection of experience that all policies in a multi-agent env share."""


def _is_schedule(field: Any) -> bool:
    return get_args(Schedule)[1] in field.metadata
