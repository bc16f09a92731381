"""Names of `rlrun` for type checkers; written by `python -m scripts.stubs`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rlrun.algorithms.a2c import A2C as _A2C
from rlrun.algorithms.a2c import A2CConfig
from rlrun.algorithms.a3c import A3C as _A3C
from rlrun.algorithms.a3c import A3CConfig
from rlrun.algorithms.actor_q.apex_ddpg import ApexDDPG as _ApexDDPG
from rlrun.algorithms.actor_q.apex_ddpg import ApexDDPGConfig
from rlrun.algorithms.actor_q.ddpg import DDPG as _DDPG
from rlrun.algorithms.actor_q.ddpg import TD3 as _TD3
from rlrun.algorithms.actor_q.ddpg import DDPGConfig, TD3Config
from rlrun.algorithms.actor_q.extended_sac import ExtendedModelConfig, ExtendedSACConfig
from rlrun.algorithms.actor_q.extended_sac import ExtendedSAC as _ExtendedSAC
from rlrun.algorithms.actor_q.sac import SAC as _SAC
from rlrun.algorithms.actor_q.sac import SACConfig
from rlrun.algorithms.alphazero.alphazero import AlphaZero as _AlphaZero
from rlrun.algorithms.alphazero.alphazero import AlphaZeroConfig, GateConfig, RankedReturnsConfig, SearchModelConfig
from rlrun.algorithms.alphazero.row_replay import RowReplayConfig
from rlrun.algorithms.archer.archer import Archer as _Archer
from rlrun.algorithms.archer.settings import ArcherConfig, ArcherModelConfig, UtteranceReplayConfig
from rlrun.algorithms.bandits.linear_bandits import LinTS as _LinTS
from rlrun.algorithms.bandits.linear_bandits import LinTSConfig, LinUCBConfig
from rlrun.algorithms.bandits.linear_bandits import LinUCB as _LinUCB
from rlrun.algorithms.dagger.dagger import DAgger as _DAgger
from rlrun.algorithms.dagger.distill import Distill as _Distill
from rlrun.algorithms.dagger.distill import DistillConfig, DistillModelConfig
from rlrun.algorithms.dagger.settings import DAggerConfig, DAggerModelConfig
from rlrun.algorithms.ddppo.ddppo import DDPPO as _DDPPO
from rlrun.algorithms.ddppo.ddppo import DDPPOConfig
from rlrun.algorithms.decision_transformer.dt import DT as _DT
from rlrun.algorithms.decision_transformer.dt import DTConfig, DTModelConfig
from rlrun.algorithms.dqn.apex import Apex as _Apex
from rlrun.algorithms.dqn.apex import ApexConfig
from rlrun.algorithms.dqn.async_dqn import AsyncDQN as _AsyncDQN
from rlrun.algorithms.dqn.async_dqn import AsyncDQNConfig
from rlrun.algorithms.dqn.dqn import DQN as _DQN
from rlrun.algorithms.dqn.dqn import IQN as _IQN
from rlrun.algorithms.dqn.dqn import DQNConfig, IQNConfig, MunchausenConfig
from rlrun.algorithms.dqn.gorila import Gorila as _Gorila
from rlrun.algorithms.dqn.gorila import GorilaConfig
from rlrun.algorithms.dqn.pqn import PQN as _PQN
from rlrun.algorithms.dqn.pqn import PQNConfig
from rlrun.algorithms.dreamer.dreamer import Dreamer as _Dreamer
from rlrun.algorithms.dreamer.dreamer import DreamerConfig, DreamerReplayConfig
from rlrun.algorithms.dreamer.model_config import DreamerModelConfig
from rlrun.algorithms.evolution.ars import ARS as _ARS
from rlrun.algorithms.evolution.ars import ARSConfig
from rlrun.algorithms.evolution.cem import CEM as _CEM
from rlrun.algorithms.evolution.cem import CEMConfig
from rlrun.algorithms.evolution.cmaes import CMAES as _CMAES
from rlrun.algorithms.evolution.cmaes import CMAESConfig
from rlrun.algorithms.evolution.es import ES as _ES
from rlrun.algorithms.evolution.es import ESConfig
from rlrun.algorithms.gail.gail import GAIL as _GAIL
from rlrun.algorithms.gail.settings import GAILConfig
from rlrun.algorithms.groups.grpo import GRPO as _GRPO
from rlrun.algorithms.groups.grpo import RLOO as _RLOO
from rlrun.algorithms.groups.grpo import GRPOConfig
from rlrun.algorithms.impala.appo import APPO as _APPO
from rlrun.algorithms.impala.appo import APPOConfig
from rlrun.algorithms.impala.impala import Impala as _Impala
from rlrun.algorithms.impala.impala import ImpalaConfig
from rlrun.algorithms.meta.maml import MAML as _MAML
from rlrun.algorithms.meta.maml import MAMLConfig
from rlrun.algorithms.model_based.mbmpo import MBMPO as _MBMPO
from rlrun.algorithms.model_based.mbmpo import MBMPOConfig
from rlrun.algorithms.model_based.mbpo import MBPO as _MBPO
from rlrun.algorithms.model_based.mbpo import MBPOConfig, ModelBasedModelConfig
from rlrun.algorithms.model_based.settings import DynamicsConfig, TransitionReplayConfig
from rlrun.algorithms.multi_agent.ippo import IPPO as _IPPO
from rlrun.algorithms.multi_agent.ippo import IPPOConfig
from rlrun.algorithms.multi_agent.maddpg import MADDPG as _MADDPG
from rlrun.algorithms.multi_agent.maddpg import MADDPGConfig
from rlrun.algorithms.multi_agent.mappo import MAPPO as _MAPPO
from rlrun.algorithms.multi_agent.mappo import MAPPOConfig
from rlrun.algorithms.multi_agent.qmix import QMIX as _QMIX
from rlrun.algorithms.multi_agent.qmix import QMIXConfig
from rlrun.algorithms.multi_agent.vdn import VDN as _VDN
from rlrun.algorithms.multi_agent.vdn import VDNConfig
from rlrun.algorithms.offline.awac_crr import AWAC as _AWAC
from rlrun.algorithms.offline.awac_crr import CRR as _CRR
from rlrun.algorithms.offline.awac_crr import AWACConfig, CRRConfig
from rlrun.algorithms.offline.bc import BC as _BC
from rlrun.algorithms.offline.bc import BCConfig, BCModelConfig
from rlrun.algorithms.offline.bcq import BCQ as _BCQ
from rlrun.algorithms.offline.bcq import BCQConfig
from rlrun.algorithms.offline.cql import CQL as _CQL
from rlrun.algorithms.offline.cql import CQLConfig
from rlrun.algorithms.offline.iql import IQL as _IQL
from rlrun.algorithms.offline.iql import IQLConfig
from rlrun.algorithms.offline.marwil import MARWIL as _MARWIL
from rlrun.algorithms.offline.marwil import MARWILConfig, MARWILModelConfig
from rlrun.algorithms.offline.rlpd import RLPD as _RLPD
from rlrun.algorithms.offline.rlpd import RLPDConfig, RLPDModelConfig
from rlrun.algorithms.offline.settings import ConservativeModelConfig, RegressedModelConfig
from rlrun.algorithms.offline.td3_bc import TD3BC as _TD3BC
from rlrun.algorithms.offline.td3_bc import TD3BCConfig
from rlrun.algorithms.pg.filtered_bc import FilteredBC as _FilteredBC
from rlrun.algorithms.pg.filtered_bc import FilteredBCConfig
from rlrun.algorithms.pg.pg import PG as _PG
from rlrun.algorithms.pg.pg import PGConfig
from rlrun.algorithms.ppg.ppg import PPG as _PPG
from rlrun.algorithms.ppg.ppg import PPGConfig, PPGModelConfig
from rlrun.algorithms.ppo import PPO as _PPO
from rlrun.algorithms.ppo import PPOConfig
from rlrun.algorithms.preferences.dpo import DPO as _DPO
from rlrun.algorithms.preferences.reward_model import RewardModel as _RewardModel
from rlrun.algorithms.preferences.rlhf import RLHF as _RLHF
from rlrun.algorithms.preferences.settings import (
    DPOConfig,
    DPOModelConfig,
    RewardModelConfig,
    RewardNetworkConfig,
    RLHFConfig,
    WholeEpisodesModelConfig,
)
from rlrun.algorithms.qtopt.qtopt import QTOpt as _QTOpt
from rlrun.algorithms.qtopt.qtopt import QTOptConfig
from rlrun.algorithms.random.random import Random as _Random
from rlrun.algorithms.random.random import RandomConfig
from rlrun.algorithms.recurrent_q.r2d2 import R2D2 as _R2D2
from rlrun.algorithms.recurrent_q.r2d2 import R2D2Config, RecurrentModelConfig
from rlrun.algorithms.recurrent_q.r2d3 import R2D3 as _R2D3
from rlrun.algorithms.recurrent_q.r2d3 import R2D3Config
from rlrun.algorithms.settings.off_policy import AsynchronyConfig
from rlrun.algorithms.settings.on_policy import KLPenaltyConfig
from rlrun.algorithms.slateq.settings import SlateModelConfig, SlateQConfig
from rlrun.algorithms.slateq.slateq import SlateQ as _SlateQ
from rlrun.algorithms.tabular.q_learning import QLearning as _QLearning
from rlrun.algorithms.tabular.q_learning import QLearningConfig
from rlrun.algorithms.tabular.value_iteration import ValueIteration as _ValueIteration
from rlrun.algorithms.tabular.value_iteration import ValueIterationConfig
from rlrun.algorithms.trust_region.settings import SeparateValueModelConfig, TRPOConfig
from rlrun.algorithms.trust_region.trpo import NPG as _NPG
from rlrun.algorithms.trust_region.trpo import TRPO as _TRPO
from rlrun.algorithms.trust_region.trpo import NPGConfig
from rlrun.engine.algorithm import Algorithm as Algorithm
from rlrun.engine.algorithm_config import InferenceConfig
from rlrun.engine.messages.errors import RlrunError as RlrunError
from rlrun.engine.nn.model_config import (
    ActionValueModelConfig,
    ActorModelConfig,
    ActorQModelConfig,
    AdaptableModelConfig,
    ModelConfig,
    NormalizedValueModelConfig,
    QModelConfig,
    SoftModelConfig,
    StateValueModelConfig,
    TeamQModelConfig,
)
from rlrun.engine.replay.replay_config import ReplayConfig, SequenceReplayConfig
from rlrun.engine.reward_streams.settings import ConstraintConfig, CuriosityConfig
from rlrun.engine.settings.config import AdaptiveRate, Cosine
from rlrun.engine.training.training import Training as Training
from rlrun.experiments.launch.run import resume as resume
from rlrun.experiments.launch.run import run as run
from rlrun.experiments.runs.trial_result import TrialResult as TrialResult
from rlrun.experiments.spec.experiment import Experiment as Experiment
from rlrun.experiments.spec.load import load_experiments as load_experiments

_PLACES: Mapping[str, str]

def _algorithms() -> dict[str, str]: ...

class A2C(_A2C):
    """Synchronous advantage actor-critic: one policy-gradient step per batch of short rollouts (arXiv:1602.01783)."""
    def __init__(
        self,
        config: A2CConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0007,
        gamma: float = 0.99,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 2000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 40,
        seq_len: int = 16,
        curiosity: CuriosityConfig | Mapping[str, Any] | None = None,
        constraint: ConstraintConfig | Mapping[str, Any] | None = None,
        gae_lambda: float = 1.0,
        standardize_advantages: bool = False,
        vf_loss_coeff: float = 0.5,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
    ) -> None:
        """Synchronous advantage actor-critic: one policy-gradient step per batch of short rollouts (arXiv:1602.01783).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            curiosity: Intrinsic rewards for novelty, in addition to the env's rewards.
            constraint: Constraint on the mean cost of an episode.
            gae_lambda: Lambda of GAE, between one-step (0) and n-step (1) advantages.
            standardize_advantages: Whether advantages are standardized (mean 0, standard deviation 1) over a batch.
            vf_loss_coeff: Weight of the value loss.
            entropy_coeff: Weight of the entropy bonus.
        """

class A3C(_A3C):
    """Asynchronous advantage actor-critic: workers compute gradients, which are applied as they arrive."""
    def __init__(
        self,
        config: A3CConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0007,
        gamma: float = 0.99,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 2000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        gradients_in_flight: int = 1,
        train_batch_size: int = 80,
        seq_len: int = 16,
        gae_lambda: float = 1.0,
        standardize_advantages: bool = False,
        vf_loss_coeff: float = 0.5,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.01,
    ) -> None:
        """Asynchronous advantage actor-critic: workers compute gradients, which are applied as they arrive.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            gradients_in_flight: Gradients in flight per worker: with 1 a worker waits for new weights after each
                gradient, as in arXiv:1602.01783.
            train_batch_size: Env steps of one fragment of every worker, summed over the workers.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            gae_lambda: Lambda of GAE, between one-step (0) and n-step (1) advantages.
            standardize_advantages: Whether advantages are standardized (mean 0, standard deviation 1) over a batch.
            vf_loss_coeff: Weight of the value loss.
            entropy_coeff: Weight of the entropy bonus.
        """

class APPO(_APPO):
    """Asynchronous PPO: IMPALA's dataflow with the clipped surrogate relative to a target policy."""
    def __init__(
        self,
        config: APPOConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = 40.0,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = 50,
        min_env_steps_per_iteration: int = 5000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 500,
        curiosity: CuriosityConfig | Mapping[str, Any] | None = None,
        rollouts_in_flight: int = 2,
        broadcast_interval: int = 1,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        replay_proportion: float = 0.0,
        replay_slots: int = 100,
        vtrace_clip_rho: float = 1.0,
        vtrace_clip_c: float = 1.0,
        vf_loss_coeff: float = 0.5,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.01,
        gae_lambda: float = 0.95,
        clip_param: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.2,
        target_update_interval: int = 1,
        kl_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
    ) -> None:
        """Asynchronous PPO: IMPALA's dataflow with the clipped surrogate relative to a target policy.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment, the horizon of V-trace.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            curiosity: Intrinsic rewards for novelty, in addition to the env's rewards.
            rollouts_in_flight: Fragments in flight per worker.
            broadcast_interval: Age of a worker's weights, in batches, at which the worker is sent new ones.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch, in whole fragments.
            replay_proportion: Replay ratio: replayed fragments per new fragment, on average.
            replay_slots: Number of recent fragments that are kept for replay.
            vtrace_clip_rho: Rho-bar of V-trace: truncation of the importance ratios that determine its fixed point.
            vtrace_clip_c: C-bar of V-trace: truncation of the importance ratios that determine its speed of
                contraction.
            vf_loss_coeff: Weight of the value loss.
            entropy_coeff: Weight of the entropy bonus.
            gae_lambda: Lambda of V-trace: a factor of its trace coefficients (arXiv:1802.01561, remark 2).
            clip_param: Clip range of the probability ratio (arXiv:1707.06347, eq. 7's epsilon).
            target_update_interval: Batches between two updates of the target policy, which copy the current policy.
            kl_coeff: Weight of the KL divergence between target policy and current policy.
        """

class ARS(_ARS):
    """Augmented random search: finite-difference steps along the best mirrored perturbations (arXiv:1803.07055)."""
    def __init__(
        self,
        config: ARSConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.02,
        normalize_observations: bool = True,
        model: ActorModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        torch_threads: int = 1,
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        episodes_per_candidate: int = 1,
        num_pairs: int = 8,
        top_pairs: int | None = None,
        sigma: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.05,
    ) -> None:
        """Augmented random search: finite-difference steps along the best mirrored perturbations (arXiv:1803.07055).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            episodes_per_candidate: Number of episodes per candidate in a generation.
            num_pairs: Number N of perturbations in a generation.
            top_pairs: Number b of pairs used in an update: those with the highest return of either candidate.
            sigma: Standard deviation nu of the perturbations.
        """

class AWAC(_AWAC):
    """Advantage-weighted actor-critic: the actor imitates recorded actions, weighted by their advantages."""
    def __init__(
        self,
        config: AWACConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: RegressedModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: ReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 0,
        training_intensity: float = 1.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "minimum",
        policy_delay: int = 1,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        sgd_steps_per_iteration: int = 1000,
        exploration: Literal["sampled"] | str = "sampled",
        beta: float = 1.0,
        max_weight: float = 100.0,
        num_sampled_actions: int = 1,
    ) -> None:
        """Advantage-weighted actor-critic: the actor imitates recorded actions, weighted by their advantages.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            input: Data sets to learn from, each with its `share` of a minibatch.
            sgd_steps_per_iteration: SGD steps per iteration when training from data alone.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            beta: Inverse temperature of the weights exp(beta * advantage).
            max_weight: Largest weight of a recorded action.
            num_sampled_actions: Number of the actor's actions whose values estimate the state value.
        """

class AlphaZero(_AlphaZero):
    """AlphaZero: self-play with Monte Carlo tree search guided by a policy-value network (arXiv:1712.01815)."""
    def __init__(
        self,
        config: AlphaZeroConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        max_grad_norm: float | None = None,
        model: SearchModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 32,
        rollout_fragment_length: int | None = 8,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 128,
        replay: RowReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 0.25,
        simulations: int = 50,
        evaluation_simulations: int = 50,
        exploration: float = 1.25,
        first_play_reduction: float = 0.2,
        root_noise: float = 0.25,
        root_noise_alpha: float = 0.3,
        temperature: float = 1.0,
        exploring_moves: int = 30,
        symmetries: bool = True,
        value_coeff: float = 1.0,
        weight_decay: float = 0.0001,
        gate: GateConfig | Mapping[str, Any] | None = None,
        ranked_returns: RankedReturnsConfig | Mapping[str, Any] | None = None,
    ) -> None:
        """AlphaZero: self-play with Monte Carlo tree search guided by a policy-value network (arXiv:1712.01815).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            max_grad_norm: Gradient clipping threshold (global norm).
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: The replay buffer of positions.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            simulations: Number of tree search simulations before each move of self-play.
            evaluation_simulations: Number of tree search simulations before each move when evaluating or otherwise
                acting.
            exploration: Exploration constant of PUCT, the papers' c_puct.
            first_play_reduction: First-play urgency reduction: an unvisited action's Q value is the position's
                predicted value minus this number.
            root_noise: Weight of Dirichlet noise in the root's prior probabilities, in self-play only.
            root_noise_alpha: Concentration of the Dirichlet noise.
            temperature: Temperature for the first moves of a self-play game, which are sampled in proportion to visits
                ** (1 / temperature).
            exploring_moves: Number of initial moves of a self-play game that are sampled.
            symmetries: Data augmentation: whether training positions are transformed by random symmetries of the board.
            value_coeff: Weight of the value loss (squared error).
            weight_decay: Decoupled weight decay (AdamW).
            gate: Gate of new weights, as in AlphaGo Zero: a match that they must win before self-play uses them.
            ranked_returns: Ranked rewards for one-player games (R2, Laterre et al., arXiv:1807.01672): a game counts as
                won if its return reaches a percentile of recent returns, else as lost.
        """

class Apex(_Apex):
    """Distributed prioritized experience replay with DQN's policy and loss (arXiv:1803.00933)."""
    def __init__(
        self,
        config: ApexConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0001,
        gamma: float = 0.99,
        max_grad_norm: float | None = 40.0,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: QModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 50,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 512,
        replay: ReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 50000,
        training_intensity: float = 1000.0,
        n_step: int = 3,
        target_update_interval: int = 2500,
        tau: float = 1.0,
        huber: float | None = None,
        adam_epsilon: float = 1e-05,
        double: bool = True,
        dueling: bool = True,
        distribution: Literal["none", "c51", "quantile", "iqn"] = "none",
        num_atoms: int = 51,
        acting_quantiles: int = 32,
        num_cosines: int = 64,
        v_min: float = -10.0,
        v_max: float = 10.0,
        munchausen: MunchausenConfig | Mapping[str, Any] | None = None,
        noisy: bool = False,
        noisy_sigma: float = 0.5,
        exploration: Literal["epsilon_greedy", "soft_q", "parameter_noise"] | str = "epsilon_greedy",
        epsilon: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.4,
        temperature: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 1.0,
        asynchrony: AsynchronyConfig | Mapping[str, Any] = ...,
        epsilon_exponent: float = 7.0,
    ) -> None:
        """Distributed prioritized experience replay with DQN's policy and loss (arXiv:1803.00933).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment, which enters the replay buffer as a whole.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Maximum number of minibatches per env step after learning starts.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            adam_epsilon: Adam's epsilon, added to the root of the second moment.
            double: Double Q-learning: the network selects the next action and the target network evaluates it (van
                Hasselt et al., arXiv:1509.06461).
            dueling: Dueling network with streams for the state value and the advantages (Wang et al.,
                arXiv:1511.06581).
            distribution: Distribution of returns: `none` learns the mean.
            num_atoms: Number of atoms (c51) or quantiles.
            acting_quantiles: Number of quantiles, at midpoints of equal parts of [0, 1], whose mean is an action's
                value in iqn's choices.
            num_cosines: Number of cosines, cos(pi i tau), with which iqn embeds a fraction tau.
            v_min: Smallest atom of c51.
            v_max: Largest atom of c51.
            munchausen: Munchausen targets: soft targets, with the scaled log-policy added to the reward (Vieillard et
                al., arXiv:2007.14430).
            noisy: Noisy networks: dense layers with learned Gaussian noise on their parameters (Fortunato et al.,
                arXiv:1706.10295), drawn for every minibatch and every fragment.
            noisy_sigma: Initial standard deviation of a noisy layer's parameters, times the root of the number of its
                inputs.
            exploration: Exploration in training: `epsilon_greedy`.
            epsilon: Epsilon of epsilon-greedy exploration in the first env slot.
            temperature: Softmax temperature of soft_q.
            asynchrony: Concurrency of workers, replay buffer and learner.
            epsilon_exponent: Exponent that spreads epsilon over the env slots.
        """

class ApexDDPG(_ApexDDPG):
    """DDPG's policy and losses with distributed prioritized experience replay (arXiv:1803.00933)."""
    def __init__(
        self,
        config: ApexDDPGConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0001,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ActionValueModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 50,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 10000,
        training_intensity: float = 1000.0,
        n_step: int = 5,
        target_update_interval: int = 100,
        tau: float = 1.0,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0001,
        num_critics: int = 1,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "first",
        policy_delay: int = 1,
        exploration: Literal["gaussian", "repeated_gaussian", "ornstein_uhlenbeck"] | str = "gaussian",
        exploration_noise: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.3,
        ou_theta: float = 0.15,
        target_noise: float = 0.0,
        target_noise_clip: float = 0.5,
        asynchrony: AsynchronyConfig | Mapping[str, Any] = ...,
    ) -> None:
        """DDPG's policy and losses with distributed prioritized experience replay (arXiv:1803.00933).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of the critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment, which enters the replay buffer as a whole.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Replay buffer of single transitions, distributed over shards.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Maximum number of minibatches per env step after learning starts.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration noise of actions in training: Gaussian, independent at each step.
            exploration_noise: Standard deviation of the Gaussian noise, or of the Ornstein-Uhlenbeck process's
                increments, in units of half the distance between the action bounds.
            ou_theta: Mean reversion rate theta of the Ornstein-Uhlenbeck process: the fraction of the noise that decays
                per step.
            target_noise: Standard deviation of the target policy smoothing noise (TD3, arXiv:1802.09477, eq. 14), in
                units of half the distance between the action bounds.
            target_noise_clip: Clip bound of the target policy smoothing noise.
            asynchrony: Concurrency of workers, replay buffer and learner.
        """

class Archer(_Archer):
    """ArCHer: actor-critic for dialogues; critics learn the values of utterances from a replay buffer."""
    def __init__(
        self,
        config: ArcherConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float = 0.95,
        max_grad_norm: float | None = 1.0,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ArcherModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 1024,
        seq_len: int = 16,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        sgd_steps_per_iteration: int = 1000,
        utterance_end: Sequence[int] | None = None,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        actor_epochs: int = 3,
        actor_minibatch_size: int | None = None,
        clip_param: float = 0.2,
        minibatch_size: int = 32,
        replay: UtteranceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 0.05,
        tau: float = 0.1,
    ) -> None:
        """ArCHer: actor-critic for dialogues; critics learn the values of utterances from a replay buffer.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of the critics.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            input: Data sets to learn from, each with its `share` of a minibatch.
            sgd_steps_per_iteration: SGD steps per iteration when training from data alone.
            utterance_end: Tokens that end an utterance, as actions counted from 0.
            entropy_coeff: Weight of the entropy bonus of the tokens.
            critic_lr: Learning rate of the critics.
            actor_epochs: Number of passes of the actor over a batch.
            actor_minibatch_size: Tokens in a minibatch of the actor.
            clip_param: Bound on the change of a token's probability ratio in an update of the actor, as in PPO.
            minibatch_size: Sequences of tokens per minibatch of the critics.
            replay: Settings of the replay buffer and of the replayed sequences.
            learning_starts: Env steps (tokens) that are stored before the first minibatch of the critics.
            training_intensity: Minibatches of the critics per env step (token) after learning starts.
            tau: Polyak coefficient of the target critics, updated after each minibatch.
        """

class AsyncDQN(_AsyncDQN):
    """Asynchronous n-step Q-learning: workers compute gradients, which are applied as they arrive (arXiv:1602.01783)."""
    def __init__(
        self,
        config: AsyncDQNConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float = 0.99,
        max_grad_norm: float | None = 10.0,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: QModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 5,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        gradients_in_flight: int = 1,
        huber: float | None = None,
        target_update_interval: int = 1000,
        exploration: Literal["epsilon_greedy"] | str = "epsilon_greedy",
        epsilon: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 1.0), (20000, 0.0)),
        final_epsilons: Sequence[float] = (0.1, 0.01, 0.5),
        final_epsilon_shares: Sequence[float] = (0.4, 0.3, 0.3),
    ) -> None:
        """Asynchronous n-step Q-learning: workers compute gradients, which are applied as they arrive (arXiv:1602.01783).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            gradients_in_flight: Gradients in flight per worker: with 1 a worker waits for new weights after each
                gradient, as in arXiv:1602.01783.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            target_update_interval: Number of gradients between updates of the shared target network.
            exploration: Exploration in training: epsilon-greedy, or a custom exploration `package.module:Class`.
            epsilon: Annealing of epsilon-greedy exploration, as a schedule from 1 (epsilon 1 in all env slots) to 0
                (the final epsilon of each slot).
            final_epsilons: Final epsilons of the env slots (arXiv:1602.01783, section 5.1).
            final_epsilon_shares: Fraction of all workers' env slots with each of the final epsilons (probabilities in
                section 5.1).
        """

class BC(_BC):
    """Behavioral cloning: the policy maximizes the likelihood of the recorded actions."""
    def __init__(
        self,
        config: BCConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        model: BCModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        worker_timeout_s: float = 300.0,
        min_share_of_fragments: float = 1.0,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        sgd_steps_per_iteration: int = 1000,
        minibatch_size: int = 256,
        seq_len: int = 32,
        burn_in: int = 32,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
    ) -> None:
        """Behavioral cloning: the policy maximizes the likelihood of the recorded actions.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            input: Data sets to learn from, each with its `share` of a minibatch.
            sgd_steps_per_iteration: SGD steps per iteration when training from data alone.
            minibatch_size: Items in a minibatch: steps, or sequences of a recurrent network.
            seq_len: Steps in a sequence of a recurrent network.
            burn_in: Number of steps before a sequence that only update the recurrent state.
            entropy_coeff: Weight of an entropy bonus.
        """

class BCQ(_BCQ):
    """Batch-constrained Q-learning: Q-learning over the actions that a learned behavior policy considers likely."""
    def __init__(
        self,
        config: BCQConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ActionValueModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: ReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 0,
        training_intensity: float = 1.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        num_critics: int = 1,
        num_target_critics: int | None = None,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        sgd_steps_per_iteration: int = 1000,
        huber: float | None = 1.0,
        exploration: Literal["sampled"] | str = "sampled",
        threshold: float = 0.3,
    ) -> None:
        """Batch-constrained Q-learning: Q-learning over the actions that a learned behavior policy considers likely.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the behavior policy.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of each critic and of the behavior policy.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            input: Data sets to learn from, each with its `share` of a minibatch.
            sgd_steps_per_iteration: SGD steps per iteration when training from data alone.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            exploration: Exploration in training: `sampled` samples from a softmax of the likely actions' values.
            threshold: Threshold tau: actions are chosen among those whose probability under the behavior policy is at
                least this fraction of the largest one.
        """

class CEM(_CEM):
    """Cross-entropy method over parameters: a diagonal normal distribution fitted to the elites of each generation."""
    def __init__(
        self,
        config: CEMConfig | None = None,
        /,
        *,
        normalize_observations: bool = False,
        model: ActorModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        torch_threads: int = 1,
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        episodes_per_candidate: int = 1,
        population_size: int = 50,
        num_elites: int = 10,
        sigma: float = 1.0,
        added_sigma: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
    ) -> None:
        """Cross-entropy method over parameters: a diagonal normal distribution fitted to the elites of each generation.

        Args:
            config: Parsed settings, instead of settings by name.
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            episodes_per_candidate: Number of episodes per candidate in a generation.
            population_size: Number of candidates in a generation.
            num_elites: Number of elites: the best candidates of a generation, to which the distribution is fitted.
            sigma: Initial standard deviation of the distribution over each parameter.
            added_sigma: Standard deviation of the noise that is added to the elites' variance, against premature
                convergence.
        """

class CMAES(_CMAES):
    """CMA-ES over parameters: a normal distribution with adapted covariance and step size (arXiv:1604.00772)."""
    def __init__(
        self,
        config: CMAESConfig | None = None,
        /,
        *,
        normalize_observations: bool = False,
        model: ActorModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        torch_threads: int = 1,
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        episodes_per_candidate: int = 1,
        population_size: int = 16,
        sigma: float = 0.5,
    ) -> None:
        """CMA-ES over parameters: a normal distribution with adapted covariance and step size (arXiv:1604.00772).

        Args:
            config: Parsed settings, instead of settings by name.
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            episodes_per_candidate: Number of episodes per candidate in a generation.
            population_size: Population size lambda, the candidates in a generation.
            sigma: Initial step size: the standard deviation of each parameter in the first generation.
        """

class CQL(_CQL):
    """Conservative Q-learning: lowers the values of actions that are not in the data."""
    def __init__(
        self,
        config: CQLConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0001,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ConservativeModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 0,
        training_intensity: float = 1.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "minimum",
        policy_delay: int = 1,
        exploration: Literal["sampled", "repeated"] | str = "sampled",
        alpha_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0001,
        initial_alpha: float = 1.0,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        sgd_steps_per_iteration: int = 1000,
        conservative_weight: float = 5.0,
        num_sampled_actions: int = 10,
        calibrated: bool = False,
    ) -> None:
        """Conservative Q-learning: lowers the values of actions that are not in the data.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            alpha_lr: Learning rate of the entropy temperature.
            initial_alpha: Initial entropy temperature.
            learn_alpha: Whether the temperature is learned, so that the actor's entropy approaches target_entropy
                (arXiv:1812.05905, section 5).
            target_entropy: Target entropy in nats, for actions in units of half the distance between their bounds.
            input: Data sets to learn from, each with its `share` of a minibatch.
            sgd_steps_per_iteration: SGD steps per iteration when training from data alone.
            conservative_weight: Weight alpha of the conservative regularizer.
            num_sampled_actions: Number N of actions from each of three distributions that the regularizer samples.
            calibrated: Calibrated values (Cal-QL, Nakamoto et al., arXiv:2303.05479): in the regularizer, values of the
                actor's actions are at least the return of the recorded episode from that step on.
        """

class CRR(_CRR):
    """Critic-regularized regression: imitates the recorded actions that the critics rate higher than the actor's own."""
    def __init__(
        self,
        config: CRRConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: RegressedModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: ReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 0,
        training_intensity: float = 1.0,
        n_step: int = 1,
        target_update_interval: int = 100,
        tau: float = 1.0,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "minimum",
        policy_delay: int = 1,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        sgd_steps_per_iteration: int = 1000,
        exploration: Literal["sampled"] | str = "sampled",
        beta: float = 1.0,
        max_weight: float = 20.0,
        num_sampled_actions: int = 4,
        weighting: Literal["exp", "binary"] = "exp",
        baseline: Literal["mean", "max"] = "mean",
    ) -> None:
        """Critic-regularized regression: imitates the recorded actions that the critics rate higher than the actor's own.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            input: Data sets to learn from, each with its `share` of a minibatch.
            sgd_steps_per_iteration: SGD steps per iteration when training from data alone.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            beta: Inverse temperature of the weights exp(beta * advantage).
            max_weight: Largest weight of a recorded action.
            num_sampled_actions: Number of the actor's actions whose values estimate the state value.
            weighting: Weights of recorded actions: `exp(beta * advantage)`, or `binary`, 1 where the advantage is
                positive and 0 elsewhere (arXiv:2006.15134, eqs.
            baseline: State value in an advantage: the mean of the sampled actions' values, or their maximum.
        """

class CrossQ(_ExtendedSAC):
    """SAC with batch renormalization and no target networks: one pass computes values and targets (arXiv:1902.05605)."""
    def __init__(
        self,
        config: ExtendedSACConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float | Literal["auto"] = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ExtendedModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 5000,
        training_intensity: float = 1.0,
        n_step: int = 1,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "minimum",
        policy_delay: int = 3,
        exploration: Literal["sampled", "repeated"] | str = "sampled",
        alpha_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        initial_alpha: float = 1.0,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        target_entropy_per_action: float = -1.0,
        num_quantiles: int | None = None,
        dropped_per_critic: int = 0,
        num_bins: int | None = None,
        support: Sequence[float] = (-5.0, 5.0),
        scale_rewards: bool = False,
        critic_dropout: float = 0.0,
        joint_actor: bool = False,
        actor_first: bool = False,
        adam_beta_1: float = 0.5,
        weight_decay: float = 0.0,
        weight_projection: Literal["dense", "dense_and_norms"] | None = None,
        reset_interval: int | None = None,
    ) -> None:
        """SAC with batch renormalization and no target networks: one pass computes values and targets (arXiv:1902.05605).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            alpha_lr: Learning rate of the entropy temperature.
            initial_alpha: Initial entropy temperature.
            learn_alpha: Whether the temperature is learned, so that the actor's entropy approaches target_entropy
                (arXiv:1812.05905, section 5).
            target_entropy: Target entropy in nats, for actions in units of half the distance between their bounds.
            target_entropy_per_action: Target entropy in nats for each continuous action, where `target_entropy` is
                null.
            num_quantiles: Number of quantiles of the return that each critic estimates by quantile regression (TQC,
                arXiv:2005.04269).
            dropped_per_critic: Number of quantiles per critic that targets omit: the largest ones after pooling all
                target critics' quantiles.
            num_bins: Number of evenly spaced returns whose probabilities each critic estimates (C51, arXiv:1707.06887).
            support: Smallest and largest of the `num_bins` returns.
            scale_rewards: Whether the rewards of minibatches are divided by the standard deviation of all discounted
                returns so far, and by more if the largest return would otherwise be outside `support`.
            critic_dropout: Probability that a hidden unit of a critic, or of a target critic, is dropped in a loss
                (DroQ, arXiv:2110.02034).
            joint_actor: Whether the actor's loss normalizes recorded and next observations together, in one pass
                (FlashSAC, arXiv:2604.04539).
            actor_first: Whether a minibatch updates actor and temperature before the critics (FlashSAC,
                arXiv:2604.04539).
            adam_beta_1: Decay rate of Adam's first moment, for all networks and the temperature.
            weight_decay: Decoupled weight decay of actor and critics (AdamW): each update subtracts lr * weight_decay
                times the parameter.
            weight_projection: Projection after each optimizer step of actor and critics: `dense` scales the weights of
                each output of a dense layer to norm 1 (XQC, arXiv:2509.25174).
            reset_interval: Number of minibatches between resets, in which all networks, the temperature and the
                optimizers are reinitialized and the replay buffer is kept (arXiv:2205.07802).
        """

class DAgger(_DAgger):
    """Dataset aggregation: supervised learning of the expert's actions in the states that the learner visits."""
    def __init__(
        self,
        config: DAggerConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        max_grad_norm: float | None = 10.0,
        normalize_observations: bool = False,
        model: DAggerModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 4,
        rollout_fragment_length: int | None = 250,
        min_env_steps_per_iteration: int = 100,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 64,
        replay: ReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 0,
        training_intensity: float = 1.0,
        expert: str | None = None,
        beta: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 1.0), (1000, 0.0)),
    ) -> None:
        """Dataset aggregation: supervised learning of the expert's actions in the states that the learner visits.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            expert: The expert: `package.module:function` from an observation to an action, or a checkpoint's path.
            beta: Probability that the expert's action is taken instead of the learner's, at each step.
        """

class DDPG(_DDPG):
    """Deep deterministic policy gradient: an off-policy actor-critic for continuous actions (arXiv:1509.02971)."""
    def __init__(
        self,
        config: DDPGConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ActorQModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 1.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        num_critics: int = 1,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "first",
        policy_delay: int = 1,
        exploration: Literal["gaussian", "repeated_gaussian", "ornstein_uhlenbeck"] | str = "gaussian",
        exploration_noise: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.1,
        ou_theta: float = 0.15,
        target_noise: float = 0.0,
        target_noise_clip: float = 0.5,
    ) -> None:
        """Deep deterministic policy gradient: an off-policy actor-critic for continuous actions (arXiv:1509.02971).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration noise of actions in training: Gaussian, independent at each step.
            exploration_noise: Standard deviation of the Gaussian noise, or of the Ornstein-Uhlenbeck process's
                increments, in units of half the distance between the action bounds.
            ou_theta: Mean reversion rate theta of the Ornstein-Uhlenbeck process: the fraction of the noise that decays
                per step.
            target_noise: Standard deviation of the target policy smoothing noise (TD3, arXiv:1802.09477, eq. 14), in
                units of half the distance between the action bounds.
            target_noise_clip: Clip bound of the target policy smoothing noise.
        """

class DDPPO(_DDPPO):
    """Decentralized distributed PPO: workers learn from their own rollouts and all-reduce gradients (arXiv:1911.00357)."""
    def __init__(
        self,
        config: DDPPOConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] | AdaptiveRate | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        seq_len: int = 16,
        num_epochs: int = 10,
        minibatch_size: int = 64,
        early_stop_kl: float | None = None,
        recompute_advantages: bool = False,
        separate_grad_norms: bool = False,
        gae_lambda: float = 0.95,
        clip_param: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.2,
        vf_clip_param: float | None = None,
        vf_loss_coeff: float = 0.5,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
        standardize_advantages: bool = True,
    ) -> None:
        """Decentralized distributed PPO: workers learn from their own rollouts and all-reduce gradients (arXiv:1911.00357).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate: a number, a schedule, or a section that adapts it to the KL divergence of updates.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            early_stop_kl: Early stopping: no further epoch begins once the mean KL divergence of an epoch exceeds 1.5
                times this.
            recompute_advantages: Whether advantages and value targets are computed again before each epoch except the
                first, with the current network's values (arXiv:2006.05990, section 3.5).
            separate_grad_norms: Whether `max_grad_norm` bounds the gradients of the policy network and of the value
                network separately, instead of their joint norm.
            gae_lambda: Lambda of GAE, between one-step (0) and Monte Carlo (1) advantages (arXiv:1506.02438).
            clip_param: Clip range of the probability ratio (eq. 7's epsilon).
            vf_clip_param: Clip range of the value's change from the value at collection.
            vf_loss_coeff: Weight of the value loss (eq. 9's c1).
            entropy_coeff: Weight of the entropy bonus (eq. 9's c2).
            standardize_advantages: Whether advantages are standardized (mean 0, standard deviation 1) over all workers'
                batches.
        """

class DPO(_DPO):
    """Direct preference optimization on pairs of episodes that the policy itself generates in each iteration."""
    def __init__(
        self,
        config: DPOConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        max_grad_norm: float | None = 0.5,
        model: DPOModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 16,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        seq_len: int = 64,
        num_epochs: int = 2,
        minibatch_size: int = 1024,
        reward_model: RewardNetworkConfig | Mapping[str, Any] = ...,
        labels: Literal["returns", "reward_model"] = "returns",
        beta: float = 0.1,
        temperature: float = 0.1,
    ) -> None:
        """Direct preference optimization on pairs of episodes that the policy itself generates in each iteration.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            max_grad_norm: Gradient clipping threshold (global norm).
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Maximum length of an episode in steps.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            reward_model: Network of the reward model.
            labels: Source of the preferences between two episodes: their returns, or the scores of a reward model that
                an earlier stage has trained.
            beta: Strength of the reference: temperature of the implicit reward beta log(pi / pi_reference).
            temperature: Difference of two returns or scores at which the better episode is preferred with odds of e to
                1.
        """

class DQN(_DQN):
    """Deep Q-network: off-policy Q-learning from a replay buffer with a target network."""
    def __init__(
        self,
        config: DQNConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0005,
        gamma: float = 0.99,
        max_grad_norm: float | None = 10.0,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: QModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 4,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 64,
        replay: ReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 0.25,
        n_step: int = 1,
        target_update_interval: int = 250,
        tau: float = 1.0,
        huber: float | None = None,
        adam_epsilon: float = 1e-05,
        double: bool = True,
        dueling: bool = False,
        distribution: Literal["none", "c51", "quantile", "iqn"] = "none",
        num_atoms: int = 51,
        acting_quantiles: int = 32,
        num_cosines: int = 64,
        v_min: float = -10.0,
        v_max: float = 10.0,
        munchausen: MunchausenConfig | Mapping[str, Any] | None = None,
        noisy: bool = False,
        noisy_sigma: float = 0.5,
        exploration: Literal["epsilon_greedy", "soft_q", "parameter_noise"] | str = "epsilon_greedy",
        epsilon: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 1.0), (10000, 0.05)),
        temperature: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 1.0,
    ) -> None:
        """Deep Q-network: off-policy Q-learning from a replay buffer with a target network.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            adam_epsilon: Adam's epsilon, added to the root of the second moment.
            double: Double Q-learning: the network selects the next action and the target network evaluates it (van
                Hasselt et al., arXiv:1509.06461).
            dueling: Dueling network with streams for the state value and the advantages (Wang et al.,
                arXiv:1511.06581).
            distribution: Distribution of returns: `none` learns the mean.
            num_atoms: Number of atoms (c51) or quantiles.
            acting_quantiles: Number of quantiles, at midpoints of equal parts of [0, 1], whose mean is an action's
                value in iqn's choices.
            num_cosines: Number of cosines, cos(pi i tau), with which iqn embeds a fraction tau.
            v_min: Smallest atom of c51.
            v_max: Largest atom of c51.
            munchausen: Munchausen targets: soft targets, with the scaled log-policy added to the reward (Vieillard et
                al., arXiv:2007.14430).
            noisy: Noisy networks: dense layers with learned Gaussian noise on their parameters (Fortunato et al.,
                arXiv:1706.10295), drawn for every minibatch and every fragment.
            noisy_sigma: Initial standard deviation of a noisy layer's parameters, times the root of the number of its
                inputs.
            exploration: Exploration in training: `epsilon_greedy`.
            epsilon: Probability of a uniformly random action.
            temperature: Softmax temperature of soft_q.
        """

class DT(_DT):
    """Decision Transformer: a transformer predicts the data's actions from returns-to-go, states and past actions."""
    def __init__(
        self,
        config: DTConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0001,
        max_grad_norm: float | None = 0.25,
        normalize_observations: bool = False,
        model: DTModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        worker_timeout_s: float = 300.0,
        min_share_of_fragments: float = 1.0,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        sgd_steps_per_iteration: int = 1000,
        minibatch_size: int = 64,
        target_return: float = 0.0,
        return_scale: float = 1000.0,
        context_length: int = 20,
        embedding: int = 128,
        num_layers: int = 3,
        num_heads: int = 1,
        max_steps: int = 1000,
    ) -> None:
        """Decision Transformer: a transformer predicts the data's actions from returns-to-go, states and past actions.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            model: Settings for encoding observations as inputs of the transformer.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            input: Data sets to learn from, each with its `share` of a minibatch.
            sgd_steps_per_iteration: SGD steps per iteration when training from data alone.
            minibatch_size: Items in a minibatch: steps, or sequences of a recurrent network.
            target_return: Desired return at the start of each episode, from which each reward is then subtracted.
            return_scale: Divisor of returns as inputs of the transformer.
            context_length: Number K of an episode's most recent steps that the transformer sees.
            embedding: Number of features of a token.
            num_layers: Number of transformer blocks.
            num_heads: Number of attention heads per block.
            max_steps: Number of time step embeddings.
        """

class Distill(_Distill):
    """On-policy policy distillation: KL divergence to the teacher's distributions in states that the student visits."""
    def __init__(
        self,
        config: DistillConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        model: DistillModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        seq_len: int = 16,
        num_epochs: int = 4,
        minibatch_size: int = 256,
        expert: str | None = None,
        beta: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
    ) -> None:
        """On-policy policy distillation: KL divergence to the teacher's distributions in states that the student visits.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            model: Network architecture of the student.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            expert: The teacher: a checkpoint's path, PATH:policy if it holds several.
            beta: Probability that the teacher's most likely action is taken instead of the student's, at each step.
        """

class Dreamer(_Dreamer):
    """DreamerV3: world model learned from replayed sequences, actor-critic from its imagination (arXiv:2301.04104)."""
    def __init__(
        self,
        config: DreamerConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0001,
        gamma: float = 0.997,
        max_grad_norm: float | None = 100.0,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: DreamerModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 8,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 16,
        replay: DreamerReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1024,
        training_intensity: float = 0.5,
        target_update_interval: int = 1,
        tau: float = 0.02,
        actor_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 3e-05,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 3e-05,
        horizon: int = 15,
        lambda_: float = 0.95,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        free_nats: float = 1.0,
        dynamics_scale: float = 1.0,
        representation_scale: float = 0.1,
        num_bins: int = 255,
    ) -> None:
        """DreamerV3: world model learned from replayed sequences, actor-critic from its imagination (arXiv:2301.04104).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the world model, the actor and the critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Sequences per minibatch from the replay buffer.
            replay: Settings of the replay buffer and of the replayed sequences.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the slow critic's updates.
            actor_lr: Learning rate of the actor.
            critic_lr: Learning rate of the critic.
            horizon: Imagination horizon: steps imagined from each state of a minibatch.
            lambda_: Lambda of lambda-returns over imagined steps.
            entropy_coeff: Weight of the actor's entropy, relative to returns scaled to a range of about 1.
            free_nats: Free nats: dynamics and representation losses are clipped below this KL divergence.
            dynamics_scale: Weight of the dynamics loss: 1 in the authors' current code, 0.5 in the paper's first
                version.
            representation_scale: Weight of the representation loss.
            num_bins: Number of bins of the two-hot encoding of rewards and returns.
        """

class DroQ(_ExtendedSAC):
    """Dropout Q-functions: two critics with dropout and LayerNorm, and many updates per env step (arXiv:2110.02034)."""
    def __init__(
        self,
        config: ExtendedSACConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float | Literal["auto"] = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ExtendedModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 5000,
        training_intensity: float = 20.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "mean",
        policy_delay: int = 20,
        exploration: Literal["sampled", "repeated"] | str = "sampled",
        alpha_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        initial_alpha: float = 1.0,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        target_entropy_per_action: float = -1.0,
        num_quantiles: int | None = None,
        dropped_per_critic: int = 0,
        num_bins: int | None = None,
        support: Sequence[float] = (-5.0, 5.0),
        scale_rewards: bool = False,
        critic_dropout: float = 0.01,
        joint_targets: bool = False,
        joint_actor: bool = False,
        actor_first: bool = False,
        adam_beta_1: float = 0.9,
        weight_decay: float = 0.0,
        weight_projection: Literal["dense", "dense_and_norms"] | None = None,
        reset_interval: int | None = None,
    ) -> None:
        """Dropout Q-functions: two critics with dropout and LayerNorm, and many updates per env step (arXiv:2110.02034).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            alpha_lr: Learning rate of the entropy temperature.
            initial_alpha: Initial entropy temperature.
            learn_alpha: Whether the temperature is learned, so that the actor's entropy approaches target_entropy
                (arXiv:1812.05905, section 5).
            target_entropy: Target entropy in nats, for actions in units of half the distance between their bounds.
            target_entropy_per_action: Target entropy in nats for each continuous action, where `target_entropy` is
                null.
            num_quantiles: Number of quantiles of the return that each critic estimates by quantile regression (TQC,
                arXiv:2005.04269).
            dropped_per_critic: Number of quantiles per critic that targets omit: the largest ones after pooling all
                target critics' quantiles.
            num_bins: Number of evenly spaced returns whose probabilities each critic estimates (C51, arXiv:1707.06887).
            support: Smallest and largest of the `num_bins` returns.
            scale_rewards: Whether the rewards of minibatches are divided by the standard deviation of all discounted
                returns so far, and by more if the largest return would otherwise be outside `support`.
            critic_dropout: Probability that a hidden unit of a critic, or of a target critic, is dropped in a loss
                (DroQ, arXiv:2110.02034).
            joint_targets: Whether targets come from the critics themselves, in one pass with the values of the actions
                taken, and there are no target networks (CrossQ, arXiv:1902.05605).
            joint_actor: Whether the actor's loss normalizes recorded and next observations together, in one pass
                (FlashSAC, arXiv:2604.04539).
            actor_first: Whether a minibatch updates actor and temperature before the critics (FlashSAC,
                arXiv:2604.04539).
            adam_beta_1: Decay rate of Adam's first moment, for all networks and the temperature.
            weight_decay: Decoupled weight decay of actor and critics (AdamW): each update subtracts lr * weight_decay
                times the parameter.
            weight_projection: Projection after each optimizer step of actor and critics: `dense` scales the weights of
                each output of a dense layer to norm 1 (XQC, arXiv:2509.25174).
            reset_interval: Number of minibatches between resets, in which all networks, the temperature and the
                optimizers are reinitialized and the replay buffer is kept (arXiv:2205.07802).
        """

class ES(_ES):
    """Evolution strategies: gradient estimates from ranked returns of mirrored perturbations (arXiv:1703.03864)."""
    def __init__(
        self,
        config: ESConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.03,
        normalize_observations: bool = False,
        model: ActorModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        torch_threads: int = 1,
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        episodes_per_candidate: int = 1,
        num_pairs: int = 25,
        sigma: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.1,
        weight_decay: float = 0.005,
    ) -> None:
        """Evolution strategies: gradient estimates from ranked returns of mirrored perturbations (arXiv:1703.03864).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            episodes_per_candidate: Number of episodes per candidate in a generation.
            num_pairs: Number of perturbations in a generation.
            sigma: Standard deviation of the perturbations.
            weight_decay: Weight decay: coefficient of the parameters that are subtracted from the ascent direction.
        """

class FilteredBC(_FilteredBC):
    """Filtered behavioral cloning: maximum likelihood of the actions in each batch's best episodes."""
    def __init__(
        self,
        config: FilteredBCConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float = 1.0,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = 32,
        min_env_steps_per_iteration: int = 2000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 1000,
        seq_len: int = 16,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
        num_epochs: int = 3,
        minibatch_size: int = 64,
        best_share: float = 0.1,
    ) -> None:
        """Filtered behavioral cloning: maximum likelihood of the actions in each batch's best episodes.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps of completed episodes per batch, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            entropy_coeff: Weight of the entropy bonus.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            best_share: Share of each batch's episodes, those with the highest discounted returns, that are cloned.
        """

class FlashSAC(_ExtendedSAC):
    """SAC with inverted residual blocks, batch normalization, projected weights and repeated noise (arXiv:2604.04539)."""
    def __init__(
        self,
        config: ExtendedSACConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ...,
        gamma: float | Literal["auto"] = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ExtendedModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 512,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 10000,
        training_intensity: float = 1.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.01,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ...,
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "minimum",
        policy_delay: int = 2,
        exploration: Literal["sampled", "repeated"] | str = "repeated",
        alpha_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ...,
        initial_alpha: float = 0.01,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        target_entropy_per_action: float = -0.478,
        num_quantiles: int | None = None,
        dropped_per_critic: int = 0,
        num_bins: int | None = 101,
        support: Sequence[float] = (-5.0, 5.0),
        scale_rewards: bool = True,
        critic_dropout: float = 0.0,
        joint_targets: bool = False,
        joint_actor: bool = True,
        actor_first: bool = True,
        adam_beta_1: float = 0.9,
        weight_decay: float = 0.0,
        weight_projection: Literal["dense", "dense_and_norms"] | None = "dense_and_norms",
        reset_interval: int | None = None,
    ) -> None:
        """SAC with inverted residual blocks, batch normalization, projected weights and repeated noise (arXiv:2604.04539).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            alpha_lr: Learning rate of the entropy temperature.
            initial_alpha: Initial entropy temperature.
            learn_alpha: Whether the temperature is learned, so that the actor's entropy approaches target_entropy
                (arXiv:1812.05905, section 5).
            target_entropy: Target entropy in nats, for actions in units of half the distance between their bounds.
            target_entropy_per_action: Target entropy in nats for each continuous action, where `target_entropy` is
                null.
            num_quantiles: Number of quantiles of the return that each critic estimates by quantile regression (TQC,
                arXiv:2005.04269).
            dropped_per_critic: Number of quantiles per critic that targets omit: the largest ones after pooling all
                target critics' quantiles.
            num_bins: Number of evenly spaced returns whose probabilities each critic estimates (C51, arXiv:1707.06887).
            support: Smallest and largest of the `num_bins` returns.
            scale_rewards: Whether the rewards of minibatches are divided by the standard deviation of all discounted
                returns so far, and by more if the largest return would otherwise be outside `support`.
            critic_dropout: Probability that a hidden unit of a critic, or of a target critic, is dropped in a loss
                (DroQ, arXiv:2110.02034).
            joint_targets: Whether targets come from the critics themselves, in one pass with the values of the actions
                taken, and there are no target networks (CrossQ, arXiv:1902.05605).
            joint_actor: Whether the actor's loss normalizes recorded and next observations together, in one pass
                (FlashSAC, arXiv:2604.04539).
            actor_first: Whether a minibatch updates actor and temperature before the critics (FlashSAC,
                arXiv:2604.04539).
            adam_beta_1: Decay rate of Adam's first moment, for all networks and the temperature.
            weight_decay: Decoupled weight decay of actor and critics (AdamW): each update subtracts lr * weight_decay
                times the parameter.
            weight_projection: Projection after each optimizer step of actor and critics: `dense` scales the weights of
                each output of a dense layer to norm 1 (XQC, arXiv:2509.25174).
            reset_interval: Number of minibatches between resets, in which all networks, the temperature and the
                optimizers are reinitialized and the replay buffer is kept (arXiv:2205.07802).
        """

class GAIL(_GAIL):
    """GAIL: PPO on rewards from a discriminator, which learns to distinguish the expert's steps from the learner's."""
    def __init__(
        self,
        config: GAILConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] | AdaptiveRate | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        model: ModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        seq_len: int = 16,
        num_epochs: int = 10,
        minibatch_size: int = 64,
        asynchronous: bool = False,
        early_stop_kl: float | None = None,
        kl_penalty: KLPenaltyConfig | Mapping[str, Any] | None = None,
        recompute_advantages: bool = False,
        separate_grad_norms: bool = False,
        gae_lambda: float = 0.95,
        clip_param: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.2,
        vf_clip_param: float | None = None,
        vf_loss_coeff: float = 0.5,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        expert: str | None = None,
        reward: Literal["signed", "positive", "negative"] = "signed",
        discriminator_hiddens: Sequence[int] = (64, 64),
        discriminator_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        discriminator_every: int = 4,
    ) -> None:
        """GAIL: PPO on rewards from a discriminator, which learns to distinguish the expert's steps from the learner's.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate: a number, a schedule, or a section that adapts it to the KL divergence of updates.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            asynchronous: Whether remote workers collect while the learner learns, with weights up to one batch old,
                instead of waiting.
            early_stop_kl: Early stopping: no further epoch begins once the mean KL divergence of an epoch exceeds 1.5
                times this.
            kl_penalty: Penalty on the KL divergence from the policy that collected the batch, in addition to clipping.
            recompute_advantages: Whether advantages and value targets are computed again before each epoch except the
                first, with the current network's values (arXiv:2006.05990, section 3.5).
            separate_grad_norms: Whether `max_grad_norm` bounds the gradients of the policy network and of the value
                network separately, instead of their joint norm.
            gae_lambda: Lambda of GAE, between one-step (0) and Monte Carlo (1) advantages (arXiv:1506.02438).
            clip_param: Clip range of the probability ratio (eq. 7's epsilon).
            vf_clip_param: Clip range of the value's change from the value at collection.
            vf_loss_coeff: Weight of the value loss (eq. 9's c1).
            entropy_coeff: Weight of the entropy bonus (eq. 9's c2).
            expert: Path of the expert's data set, or of a file of demonstrations.
            reward: Sign of the rewards, from the discriminator's probability D that a step is the expert's: `signed`
                for log D - log(1 - D), `positive` for -log(1 - D), where each further step pays, `negative` for log D,
                where each further step costs.
            discriminator_hiddens: Widths of the dense layers of the discriminator.
            discriminator_lr: Learning rate of the discriminator.
            discriminator_every: The discriminator learns from one of every `discriminator_every` minibatches, together
                with as many expert steps.
        """

class GRPO(_GRPO):
    """Group relative policy optimization: PPO without a critic, on returns standardized over a group of episodes."""
    def __init__(
        self,
        config: GRPOConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] | AdaptiveRate | Mapping[str, Any] = 0.0003,
        gamma: float = 1.0,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = 32,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        seq_len: int = 16,
        num_epochs: int = 4,
        minibatch_size: int = 64,
        early_stop_kl: float | None = None,
        kl_penalty: KLPenaltyConfig | Mapping[str, Any] | None = None,
        clip_param: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.2,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
        group_size: int = 8,
    ) -> None:
        """Group relative policy optimization: PPO without a critic, on returns standardized over a group of episodes.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate: a number, a schedule, or a section that adapts it to the KL divergence of updates.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            early_stop_kl: Early stopping: no further epoch begins once the mean KL divergence of an epoch exceeds 1.5
                times this.
            kl_penalty: Penalty on the KL divergence from the policy that collected the batch, in addition to clipping.
            clip_param: Clip range of the probability ratio (eq. 7's epsilon).
            entropy_coeff: Weight of the entropy bonus (eq. 9's c2).
            group_size: Number of episodes in a group, all from the same start.
        """

class Gorila(_Gorila):
    """Massively parallel DQN: workers compute gradients from local replay buffers (arXiv:1507.04296)."""
    def __init__(
        self,
        config: GorilaConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0005,
        gamma: float = 0.99,
        max_grad_norm: float | None = 10.0,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: QModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 4,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        gradients_in_flight: int = 1,
        minibatch_size: int = 64,
        replay: ReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 0.25,
        n_step: int = 1,
        target_update_interval: int = 250,
        tau: float = 1.0,
        huber: float | None = None,
        adam_epsilon: float = 1e-05,
        double: bool = False,
        dueling: bool = False,
        distribution: Literal["none", "c51", "quantile", "iqn"] = "none",
        num_atoms: int = 51,
        acting_quantiles: int = 32,
        num_cosines: int = 64,
        v_min: float = -10.0,
        v_max: float = 10.0,
        munchausen: MunchausenConfig | Mapping[str, Any] | None = None,
        exploration: Literal["epsilon_greedy", "soft_q", "parameter_noise"] | str = "epsilon_greedy",
        epsilon: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 1.0), (10000, 0.05)),
        temperature: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 1.0,
    ) -> None:
        """Massively parallel DQN: workers compute gradients from local replay buffers (arXiv:1507.04296).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            gradients_in_flight: Fragments in flight per worker, each followed by the gradients that are due after it.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            adam_epsilon: Adam's epsilon, added to the root of the second moment.
            double: Double Q-learning: the network selects the next action and the target network evaluates it (van
                Hasselt et al., arXiv:1509.06461).
            dueling: Dueling network with streams for the state value and the advantages (Wang et al.,
                arXiv:1511.06581).
            distribution: Distribution of returns: `none` learns the mean.
            num_atoms: Number of atoms (c51) or quantiles.
            acting_quantiles: Number of quantiles, at midpoints of equal parts of [0, 1], whose mean is an action's
                value in iqn's choices.
            num_cosines: Number of cosines, cos(pi i tau), with which iqn embeds a fraction tau.
            v_min: Smallest atom of c51.
            v_max: Largest atom of c51.
            munchausen: Munchausen targets: soft targets, with the scaled log-policy added to the reward (Vieillard et
                al., arXiv:2007.14430).
            exploration: Exploration in training: `epsilon_greedy`.
            epsilon: Probability of a uniformly random action.
            temperature: Softmax temperature of soft_q.
        """

class IPPO(_IPPO):
    """Independent PPO: value functions of each agent's own observation, normalized as in MAPPO (arXiv:2011.09533)."""
    def __init__(
        self,
        config: IPPOConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] | AdaptiveRate | Mapping[str, Any] = 0.0005,
        gamma: float = 0.99,
        max_grad_norm: float | None = 10.0,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: NormalizedValueModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        num_epochs: int = 10,
        minibatch_size: int = 1024,
        asynchronous: bool = False,
        early_stop_kl: float | None = None,
        kl_penalty: KLPenaltyConfig | Mapping[str, Any] | None = None,
        recompute_advantages: bool = False,
        separate_grad_norms: bool = False,
        gae_lambda: float = 0.95,
        clip_param: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.2,
        vf_clip_param: float | None = 0.2,
        vf_loss_coeff: float = 1.0,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.01,
        huber_delta: float = 10.0,
    ) -> None:
        """Independent PPO: value functions of each agent's own observation, normalized as in MAPPO (arXiv:2011.09533).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate: a number, a schedule, or a section that adapts it to the KL divergence of updates.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the policy and of the value network.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            asynchronous: Whether remote workers collect while the learner learns, with weights up to one batch old,
                instead of waiting.
            early_stop_kl: Early stopping: no further epoch begins once the mean KL divergence of an epoch exceeds 1.5
                times this.
            kl_penalty: Penalty on the KL divergence from the policy that collected the batch, in addition to clipping.
            recompute_advantages: Whether advantages and value targets are computed again before each epoch except the
                first, with the current network's values (arXiv:2006.05990, section 3.5).
            separate_grad_norms: Whether `max_grad_norm` bounds the gradients of the policy network and of the value
                network separately, instead of their joint norm.
            gae_lambda: Lambda of GAE, between one-step (0) and Monte Carlo (1) advantages (arXiv:1506.02438).
            clip_param: Clip range of the probability ratio (eq. 7's epsilon).
            vf_clip_param: Clip range of the value's change from the value at collection.
            vf_loss_coeff: Weight of the value loss (eq. 9's c1).
            entropy_coeff: Weight of the entropy bonus (eq. 9's c2).
            huber_delta: Threshold of the Huber value loss, above which it is linear.
        """

class IQL(_IQL):
    """Implicit Q-learning: state values are upper expectiles of the values of recorded actions (arXiv:2110.06169)."""
    def __init__(
        self,
        config: IQLConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: RegressedModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: ReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 0,
        training_intensity: float = 1.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "minimum",
        policy_delay: int = 1,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        sgd_steps_per_iteration: int = 1000,
        exploration: Literal["sampled"] | str = "sampled",
        beta: float = 3.0,
        max_weight: float = 100.0,
        expectile: float = 0.7,
    ) -> None:
        """Implicit Q-learning: state values are upper expectiles of the values of recorded actions (arXiv:2110.06169).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            input: Data sets to learn from, each with its `share` of a minibatch.
            sgd_steps_per_iteration: SGD steps per iteration when training from data alone.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            beta: Inverse temperature of the weights exp(beta * advantage).
            max_weight: Largest weight of a recorded action.
            expectile: Expectile tau of the recorded actions' values that state values learn: 0.5 for their mean, close
                to 1 for their maximum.
        """

class IQN(_IQN):
    """Implicit quantile networks: DQN that learns the return's quantiles at random fractions (arXiv:1806.06923)."""
    def __init__(
        self,
        config: IQNConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0005,
        gamma: float = 0.99,
        max_grad_norm: float | None = 10.0,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: QModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 4,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 64,
        replay: ReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 0.25,
        n_step: int = 1,
        target_update_interval: int = 250,
        tau: float = 1.0,
        huber: float | None = None,
        adam_epsilon: float = 1e-05,
        double: bool = False,
        dueling: bool = False,
        distribution: Literal["none", "c51", "quantile", "iqn"] = "iqn",
        num_atoms: int = 8,
        acting_quantiles: int = 32,
        num_cosines: int = 64,
        v_min: float = -10.0,
        v_max: float = 10.0,
        munchausen: MunchausenConfig | Mapping[str, Any] | None = None,
        noisy: bool = False,
        noisy_sigma: float = 0.5,
        exploration: Literal["epsilon_greedy", "soft_q", "parameter_noise"] | str = "epsilon_greedy",
        epsilon: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 1.0), (10000, 0.05)),
        temperature: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 1.0,
    ) -> None:
        """Implicit quantile networks: DQN that learns the return's quantiles at random fractions (arXiv:1806.06923).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            adam_epsilon: Adam's epsilon, added to the root of the second moment.
            double: Double Q-learning: the network selects the next action and the target network evaluates it (van
                Hasselt et al., arXiv:1509.06461).
            dueling: Dueling network with streams for the state value and the advantages (Wang et al.,
                arXiv:1511.06581).
            distribution: Distribution of returns: `none` learns the mean.
            num_atoms: Number of atoms (c51) or quantiles.
            acting_quantiles: Number of quantiles, at midpoints of equal parts of [0, 1], whose mean is an action's
                value in iqn's choices.
            num_cosines: Number of cosines, cos(pi i tau), with which iqn embeds a fraction tau.
            v_min: Smallest atom of c51.
            v_max: Largest atom of c51.
            munchausen: Munchausen targets: soft targets, with the scaled log-policy added to the reward (Vieillard et
                al., arXiv:2007.14430).
            noisy: Noisy networks: dense layers with learned Gaussian noise on their parameters (Fortunato et al.,
                arXiv:1706.10295), drawn for every minibatch and every fragment.
            noisy_sigma: Initial standard deviation of a noisy layer's parameters, times the root of the number of its
                inputs.
            exploration: Exploration in training: `epsilon_greedy`.
            epsilon: Probability of a uniformly random action.
            temperature: Softmax temperature of soft_q.
        """

class Impala(_Impala):
    """Importance-weighted actor-learner architecture: asynchronous collection with V-trace (arXiv:1802.01561)."""
    def __init__(
        self,
        config: ImpalaConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float = 0.99,
        max_grad_norm: float | None = 1.0,
        normalize_observations: bool = False,
        normalize_rewards: bool = True,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = 64,
        min_env_steps_per_iteration: int = 5000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 512,
        curiosity: CuriosityConfig | Mapping[str, Any] | None = None,
        rollouts_in_flight: int = 2,
        broadcast_interval: int = 1,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        replay_proportion: float = 0.0,
        replay_slots: int = 100,
        vtrace_clip_rho: float = 1.0,
        vtrace_clip_c: float = 1.0,
        vf_loss_coeff: float = 0.5,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.01,
    ) -> None:
        """Importance-weighted actor-learner architecture: asynchronous collection with V-trace (arXiv:1802.01561).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment, the horizon of V-trace.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            curiosity: Intrinsic rewards for novelty, in addition to the env's rewards.
            rollouts_in_flight: Fragments in flight per worker.
            broadcast_interval: Age of a worker's weights, in batches, at which the worker is sent new ones.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch, in whole fragments.
            replay_proportion: Replay ratio: replayed fragments per new fragment, on average.
            replay_slots: Number of recent fragments that are kept for replay.
            vtrace_clip_rho: Rho-bar of V-trace: truncation of the importance ratios that determine its fixed point.
            vtrace_clip_c: C-bar of V-trace: truncation of the importance ratios that determine its speed of
                contraction.
            vf_loss_coeff: Weight of the value loss.
            entropy_coeff: Weight of the entropy bonus.
        """

class LinTS(_LinTS):
    """Linear Thompson sampling: pulls the best arm under coefficients sampled from the posterior (arXiv:1209.3352)."""
    def __init__(
        self,
        config: LinTSConfig | None = None,
        /,
        *,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        torch_threads: int = 1,
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 100,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        ridge: float = 1.0,
        v: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.1,
    ) -> None:
        """Linear Thompson sampling: pulls the best arm under coefficients sampled from the posterior (arXiv:1209.3352).

        Args:
            config: Parsed settings, instead of settings by name.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            ridge: Ridge penalty: weight of the coefficients' squared norm.
            v: Scale v of the posterior N(theta, v^2 A^-1) from which coefficients are sampled.
        """

class LinUCB(_LinUCB):
    """Linear contextual bandit that pulls the arm with the largest upper confidence bound (arXiv:1003.0146)."""
    def __init__(
        self,
        config: LinUCBConfig | None = None,
        /,
        *,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        torch_threads: int = 1,
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 100,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        ridge: float = 1.0,
        alpha: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 1.0,
    ) -> None:
        """Linear contextual bandit that pulls the arm with the largest upper confidence bound (arXiv:1003.0146).

        Args:
            config: Parsed settings, instead of settings by name.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            ridge: Ridge penalty: weight of the coefficients' squared norm.
            alpha: Width of the confidence interval, in standard deviations of the estimate for rewards of variance 1.
        """

class MADDPG(_MADDPG):
    """Multi-agent DDPG: centralized critics, decentralized actors (arXiv:1706.02275)."""
    def __init__(
        self,
        config: MADDPGConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float = 0.95,
        max_grad_norm: float | None = 0.5,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ActionValueModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: ReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 0.25,
        target_update_interval: int = 1,
        tau: float = 0.01,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        exploration: Literal["gaussian", "repeated_gaussian", "ornstein_uhlenbeck"] | str = "gaussian",
        exploration_noise: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.1,
        ou_theta: float = 0.15,
        share_actor: bool = False,
        output_penalty: float = 0.001,
    ) -> None:
        """Multi-agent DDPG: centralized critics, decentralized actors (arXiv:1706.02275).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of each actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            exploration: Exploration noise of actions in training: Gaussian, independent at each step.
            exploration_noise: Standard deviation of the Gaussian noise, or of the Ornstein-Uhlenbeck process's
                increments, in units of half the distance between the action bounds.
            ou_theta: Mean reversion rate theta of the Ornstein-Uhlenbeck process: the fraction of the noise that decays
                per step.
            share_actor: Parameter sharing: whether all members have one actor.
            output_penalty: Weight of a penalty on the mean square of the actors' outputs, as in the authors' code:
                logits of Discrete actions, or actions of a Box before tanh.
        """

class MAML(_MAML):
    """Model-agnostic meta-learning: initial parameters for fast adaptation to a task (arXiv:1703.03400, alg. 3)."""
    def __init__(
        self,
        config: MAMLConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float = 0.99,
        max_grad_norm: float | None = 0.5,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: AdaptableModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 20,
        rollout_fragment_length: int | None = 100,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        tasks_per_update: int = 20,
        inner_steps: int = 1,
        inner_lr: float = 0.1,
        first_order: bool = False,
        num_epochs: int = 5,
        clip_param: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.2,
        entropy_coeff: float = 0.0,
    ) -> None:
        """Model-agnostic meta-learning: initial parameters for fast adaptation to a task (arXiv:1703.03400, alg. 3).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the policy.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            tasks_per_update: Tasks per batch, the paper's meta batch size.
            inner_steps: Number of inner gradient steps per adaptation to a task, each on new episodes of the policy
                before the step.
            inner_lr: Inner step size, the paper's alpha.
            first_order: First-order MAML: whether second derivatives are dropped from the meta-gradient (section 5.2 of
                the paper).
            num_epochs: Meta-updates per batch.
            clip_param: Clip range of the probability ratio in the adapted policies' surrogate.
            entropy_coeff: Weight of the adapted policies' entropy bonus.
        """

class MAPPO(_MAPPO):
    """Multi-agent PPO with a centralized value function, normalized by running moments (arXiv:2103.01955)."""
    def __init__(
        self,
        config: MAPPOConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] | AdaptiveRate | Mapping[str, Any] = 0.0005,
        gamma: float = 0.99,
        max_grad_norm: float | None = 10.0,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: StateValueModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        seq_len: int = 16,
        num_epochs: int = 10,
        minibatch_size: int = 1024,
        asynchronous: bool = False,
        early_stop_kl: float | None = None,
        kl_penalty: KLPenaltyConfig | Mapping[str, Any] | None = None,
        recompute_advantages: bool = False,
        separate_grad_norms: bool = False,
        gae_lambda: float = 0.95,
        clip_param: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.2,
        vf_clip_param: float | None = 0.2,
        vf_loss_coeff: float = 1.0,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.01,
        centralised_value: bool = True,
        value_sees_observation: bool = True,
        huber_delta: float = 10.0,
    ) -> None:
        """Multi-agent PPO with a centralized value function, normalized by running moments (arXiv:2103.01955).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate: a number, a schedule, or a section that adapts it to the KL divergence of updates.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the policy and of the value network.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            asynchronous: Whether remote workers collect while the learner learns, with weights up to one batch old,
                instead of waiting.
            early_stop_kl: Early stopping: no further epoch begins once the mean KL divergence of an epoch exceeds 1.5
                times this.
            kl_penalty: Penalty on the KL divergence from the policy that collected the batch, in addition to clipping.
            recompute_advantages: Whether advantages and value targets are computed again before each epoch except the
                first, with the current network's values (arXiv:2006.05990, section 3.5).
            separate_grad_norms: Whether `max_grad_norm` bounds the gradients of the policy network and of the value
                network separately, instead of their joint norm.
            gae_lambda: Lambda of GAE, between one-step (0) and Monte Carlo (1) advantages (arXiv:1506.02438).
            clip_param: Clip range of the probability ratio (eq. 7's epsilon).
            vf_clip_param: Clip range of the value's change from the value at collection.
            vf_loss_coeff: Weight of the value loss (eq. 9's c1).
            entropy_coeff: Weight of the entropy bonus (eq. 9's c2).
            centralised_value: Whether the value is centralized, a function of the env's global state.
            value_sees_observation: Whether the agent's own observation is an additional input of the centralized value.
            huber_delta: Threshold of the Huber value loss, above which it is linear.
        """

class MARWIL(_MARWIL):
    """Monotonic advantage re-weighted imitation learning: cloning weighted by exponentiated advantages."""
    def __init__(
        self,
        config: MARWILConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: MARWILModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        worker_timeout_s: float = 300.0,
        min_share_of_fragments: float = 1.0,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        sgd_steps_per_iteration: int = 1000,
        minibatch_size: int = 256,
        beta: float = 1.0,
        max_weight: float = 100.0,
        advantage_norm_start: float | None = None,
        advantage_norm_rate: float = 0.001,
        vf_loss_coeff: float = 1.0,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
    ) -> None:
        """Monotonic advantage re-weighted imitation learning: cloning weighted by exponentiated advantages.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            input: Data sets to learn from, each with its `share` of a minibatch.
            sgd_steps_per_iteration: SGD steps per iteration when training from data alone.
            minibatch_size: Items in a minibatch: steps, or sequences of a recurrent network.
            beta: Strength of the weights exp(beta A / c) of actions with advantages A.
            max_weight: Largest weight of a recorded action.
            advantage_norm_start: Initial value of the running mean square c^2 of advantages.
            advantage_norm_rate: Rate at which c^2 follows the mean square of each minibatch's advantages.
            vf_loss_coeff: Weight of the value loss.
            entropy_coeff: Weight of an entropy bonus.
        """

class MBMPO(_MBMPO):
    """Model-based meta-policy optimization: MAML whose tasks are the members of a dynamics ensemble (arXiv:1809.05214)."""
    def __init__(
        self,
        config: MBMPOConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float = 0.99,
        max_grad_norm: float | None = 0.5,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: AdaptableModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 200,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        inner_steps: int = 1,
        inner_lr: float = 0.1,
        first_order: bool = False,
        num_epochs: int = 5,
        clip_param: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.2,
        entropy_coeff: float = 0.0,
        replay: TransitionReplayConfig | Mapping[str, Any] = ...,
        dynamics: DynamicsConfig | Mapping[str, Any] = ...,
        dynamics_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        imagined_episodes: int = 20,
        imagined_length: int = 100,
        meta_updates: int = 10,
    ) -> None:
        """Model-based meta-policy optimization: MAML whose tasks are the members of a dynamics ensemble (arXiv:1809.05214).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the policy.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            inner_steps: Number of inner gradient steps per adaptation to a task, each on new episodes of the policy
                before the step.
            inner_lr: Inner step size, the paper's alpha.
            first_order: First-order MAML: whether second derivatives are dropped from the meta-gradient (section 5.2 of
                the paper).
            num_epochs: Meta-updates per batch.
            clip_param: Clip range of the probability ratio in the adapted policies' surrogate.
            entropy_coeff: Weight of the adapted policies' entropy bonus.
            replay: Settings of the replay buffer of collected transitions.
            dynamics: Settings of the dynamics ensemble, which is fitted to collected transitions.
            dynamics_lr: Learning rate of the dynamics ensemble.
            imagined_episodes: Imagined episodes in each phase of a task.
            imagined_length: Horizon of imagined episodes: steps after which they are truncated.
            meta_updates: Number of imagined batches of tasks after every fit of the ensemble, each with a meta-update.
        """

class MBPO(_MBPO):
    """Model-based policy optimization: SAC on model rollouts branched from replayed states (arXiv:1906.08253)."""
    def __init__(
        self,
        config: MBPOConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ModelBasedModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: TransitionReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 20.0,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "minimum",
        policy_delay: int = 1,
        exploration: Literal["sampled", "repeated"] | str = "sampled",
        alpha_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        initial_alpha: float = 1.0,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        dynamics: DynamicsConfig | Mapping[str, Any] = ...,
        dynamics_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        real_ratio: float = 0.05,
        rollout_length: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 1.0,
        rollouts_per_env_step: int = 400,
        rollout_rounds: int = 4,
    ) -> None:
        """Model-based policy optimization: SAC on model rollouts branched from replayed states (arXiv:1906.08253).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer of collected transitions.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            alpha_lr: Learning rate of the entropy temperature.
            initial_alpha: Initial entropy temperature.
            learn_alpha: Whether the temperature is learned, so that the actor's entropy approaches target_entropy
                (arXiv:1812.05905, section 5).
            target_entropy: Target entropy in nats, for actions in units of half the distance between their bounds.
            dynamics: Settings of the dynamics ensemble, which is fitted to collected transitions.
            dynamics_lr: Learning rate of the dynamics ensemble.
            real_ratio: Fraction of each minibatch that was collected, rounded to whole transitions.
            rollout_length: Steps of a model rollout, rounded down.
            rollouts_per_env_step: Model rollouts per env step.
            rollout_rounds: Number of latest rounds of rollouts from which imagined transitions are sampled.
        """

class NPG(_NPG):
    """Natural policy gradient: steps of constant KL divergence (Kakade 2001; Rajeswaran et al., arXiv:1703.02660)."""
    def __init__(
        self,
        config: NPGConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float = 0.99,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: SeparateValueModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        seq_len: int = 16,
        gae_lambda: float = 0.95,
        max_kl: float = 0.05,
        cg_steps: int = 15,
        damping: float = 0.1,
        value_epochs: int = 10,
        minibatch_size: int = 128,
    ) -> None:
        """Natural policy gradient: steps of constant KL divergence (Kakade 2001; Rajeswaran et al., arXiv:1703.02660).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the policy and of the values.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            gae_lambda: Lambda of GAE, between one-step (0) and Monte Carlo (1) advantages (arXiv:1506.02438).
            max_kl: Bound of a step's mean KL divergence from the old policy, the trust region's size (eq. 12's delta).
            cg_steps: Iterations of the conjugate gradient method.
            damping: Damping: multiple of the identity that is added to the Fisher matrix.
            value_epochs: Epochs (passes over each batch) in which the values are fitted.
            minibatch_size: Number of steps per minibatch in these epochs.
        """

class PG(_PG):
    """REINFORCE: Monte Carlo policy gradient over whole episodes, with an optional value baseline."""
    def __init__(
        self,
        config: PGConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.002,
        gamma: float = 0.99,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = 32,
        min_env_steps_per_iteration: int = 2000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 1000,
        seq_len: int = 16,
        constraint: ConstraintConfig | Mapping[str, Any] | None = None,
        use_baseline: bool = True,
        standardize_advantages: bool = True,
        vf_loss_coeff: float = 0.5,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
    ) -> None:
        """REINFORCE: Monte Carlo policy gradient over whole episodes, with an optional value baseline.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps of completed episodes per batch, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            constraint: Constraint on the mean cost of an episode.
            use_baseline: Whether a value baseline is subtracted from returns.
            standardize_advantages: Whether advantages are standardized (mean 0, standard deviation 1) over a batch.
            vf_loss_coeff: Weight of the baseline's value loss (squared error).
            entropy_coeff: Weight of the entropy bonus.
        """

class PPG(_PPG):
    """Phasic policy gradient: PPO whose policy network learns values in separate phases (arXiv:2009.04416)."""
    def __init__(
        self,
        config: PPGConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] | AdaptiveRate | Mapping[str, Any] = 0.0005,
        gamma: float = 0.999,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: PPGModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        seq_len: int = 16,
        num_epochs: int = 1,
        minibatch_size: int = 64,
        asynchronous: bool = False,
        early_stop_kl: float | None = None,
        kl_penalty: KLPenaltyConfig | Mapping[str, Any] | None = None,
        recompute_advantages: bool = False,
        separate_grad_norms: bool = False,
        gae_lambda: float = 0.95,
        clip_param: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.2,
        vf_clip_param: float | None = None,
        vf_loss_coeff: float = 0.5,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.01,
        policy_iterations: int = 32,
        auxiliary_epochs: int = 6,
        clone_coeff: float = 1.0,
    ) -> None:
        """Phasic policy gradient: PPO whose policy network learns values in separate phases (arXiv:2009.04416).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate: a number, a schedule, or a section that adapts it to the KL divergence of updates.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the policy and of the values.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            asynchronous: Whether remote workers collect while the learner learns, with weights up to one batch old,
                instead of waiting.
            early_stop_kl: Early stopping: no further epoch begins once the mean KL divergence of an epoch exceeds 1.5
                times this.
            kl_penalty: Penalty on the KL divergence from the policy that collected the batch, in addition to clipping.
            recompute_advantages: Whether advantages and value targets are computed again before each epoch except the
                first, with the current network's values (arXiv:2006.05990, section 3.5).
            separate_grad_norms: Whether `max_grad_norm` bounds the gradients of the policy network and of the value
                network separately, instead of their joint norm.
            gae_lambda: Lambda of GAE, between one-step (0) and Monte Carlo (1) advantages (arXiv:1506.02438).
            clip_param: Clip range of the probability ratio (eq. 7's epsilon).
            vf_clip_param: Clip range of the value's change from the value at collection.
            vf_loss_coeff: Weight of the value loss (eq. 9's c1).
            entropy_coeff: Weight of the entropy bonus (eq. 9's c2).
            policy_iterations: Batches in a phase (N_pi): PPO learns from each batch, and the auxiliary phase then
                learns from all of them.
            auxiliary_epochs: Epochs (passes over the kept batches) of an auxiliary phase (E_aux).
            clone_coeff: Weight of the KL divergence from the policy before the auxiliary phase (beta_clone).
        """

class PPO(_PPO):
    """Proximal policy optimization: the clipped surrogate objective over epochs of minibatch SGD (arXiv:1707.06347)."""
    def __init__(
        self,
        config: PPOConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] | AdaptiveRate | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        seq_len: int = 16,
        curiosity: CuriosityConfig | Mapping[str, Any] | None = None,
        constraint: ConstraintConfig | Mapping[str, Any] | None = None,
        num_epochs: int = 10,
        minibatch_size: int = 64,
        asynchronous: bool = False,
        early_stop_kl: float | None = None,
        kl_penalty: KLPenaltyConfig | Mapping[str, Any] | None = None,
        recompute_advantages: bool = False,
        separate_grad_norms: bool = False,
        gae_lambda: float = 0.95,
        clip_param: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.2,
        vf_clip_param: float | None = None,
        vf_loss_coeff: float = 0.5,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
    ) -> None:
        """Proximal policy optimization: the clipped surrogate objective over epochs of minibatch SGD (arXiv:1707.06347).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate: a number, a schedule, or a section that adapts it to the KL divergence of updates.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            curiosity: Intrinsic rewards for novelty, in addition to the env's rewards.
            constraint: Constraint on the mean cost of an episode.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            asynchronous: Whether remote workers collect while the learner learns, with weights up to one batch old,
                instead of waiting.
            early_stop_kl: Early stopping: no further epoch begins once the mean KL divergence of an epoch exceeds 1.5
                times this.
            kl_penalty: Penalty on the KL divergence from the policy that collected the batch, in addition to clipping.
            recompute_advantages: Whether advantages and value targets are computed again before each epoch except the
                first, with the current network's values (arXiv:2006.05990, section 3.5).
            separate_grad_norms: Whether `max_grad_norm` bounds the gradients of the policy network and of the value
                network separately, instead of their joint norm.
            gae_lambda: Lambda of GAE, between one-step (0) and Monte Carlo (1) advantages (arXiv:1506.02438).
            clip_param: Clip range of the probability ratio (eq. 7's epsilon).
            vf_clip_param: Clip range of the value's change from the value at collection.
            vf_loss_coeff: Weight of the value loss (eq. 9's c1).
            entropy_coeff: Weight of the entropy bonus (eq. 9's c2).
        """

class PQN(_PQN):
    """Parallelised Q-network: Q(lambda) with LayerNorm, over epochs of minibatch SGD (arXiv:2407.04811)."""
    def __init__(
        self,
        config: PQNConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0005,
        gamma: float = 0.99,
        max_grad_norm: float | None = 10.0,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: QModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 32,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        num_epochs: int = 4,
        minibatch_size: int = 128,
        huber: float | None = None,
        q_lambda: float = 0.95,
        exploration: Literal["epsilon_greedy"] | str = "epsilon_greedy",
        epsilon: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 1.0), (100000, 0.05)),
    ) -> None:
        """Parallelised Q-network: Q(lambda) with LayerNorm, over epochs of minibatch SGD (arXiv:2407.04811).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            q_lambda: Lambda of the Q(lambda) targets, between one-step (0) and Monte Carlo (1) returns.
            exploration: Exploration in training: epsilon-greedy, or a custom exploration `package.module:Class`.
            epsilon: Probability of a uniformly random action.
        """

class QLearning(_QLearning):
    """Tabular Q-learning (Watkins and Dayan, 1992): one TD update of the table per step."""
    def __init__(
        self,
        config: QLearningConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.1,
        gamma: float = 0.99,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        torch_threads: int = 1,
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = 8,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        initial_value: float = 0.0,
        epsilon: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.1,
    ) -> None:
        """Tabular Q-learning (Watkins and Dayan, 1992): one TD update of the table per step.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            initial_value: Initial Q value of every action.
            epsilon: Probability of a uniformly random action.
        """

class QMIX(_QMIX):
    """Monotonic value factorization: a mixing network combines the members' Q values (arXiv:1803.11485)."""
    def __init__(
        self,
        config: QMIXConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0005,
        gamma: float = 0.99,
        max_grad_norm: float | None = 10.0,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: TeamQModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 4,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 64,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 0.25,
        n_step: int = 1,
        target_update_interval: int = 200,
        tau: float = 1.0,
        huber: float | None = None,
        optimizer: Literal["adam", "rmsprop"] = "rmsprop",
        double: bool = True,
        team_reward: Literal["sum", "once"] = "sum",
        exploration: Literal["epsilon_greedy"] | str = "epsilon_greedy",
        epsilon: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 1.0), (50000, 0.05)),
        mixer_hidden: int = 32,
    ) -> None:
        """Monotonic value factorization: a mixing network combines the members' Q values (arXiv:1803.11485).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture shared by all members.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            optimizer: Name of the optimizer.
            double: Double Q-learning: the online network selects the next actions and the target network evaluates them
                (van Hasselt et al., arXiv:1509.06461).
            team_reward: Team reward: the `sum` of the members' rewards, or `once` if the world gives the team's reward
                to every member.
            exploration: Exploration of the members in training: epsilon-greedy, or a custom exploration
                `package.module:Class`.
            epsilon: Probability of a uniformly random action, drawn independently for each member.
            mixer_hidden: Width of the mixing network's hidden layer.
        """

class QTOpt(_QTOpt):
    """Off-policy Q-learning with continuous actions, which the cross-entropy method chooses (arXiv:1806.10293)."""
    def __init__(
        self,
        config: QTOptConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ActionValueModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 128,
        replay: ReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 1.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        huber: float | None = None,
        exploration: Literal["gaussian"] | str = "gaussian",
        exploration_noise: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.1,
        cem_iterations: int = 2,
        cem_samples: int = 64,
        cem_elites: int = 6,
        asynchrony: AsynchronyConfig | Mapping[str, Any] = ...,
    ) -> None:
        """Off-policy Q-learning with continuous actions, which the cross-entropy method chooses (arXiv:1806.10293).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of each of the two critics.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            exploration: Exploration noise of actions in training: Gaussian, independent at each step.
            exploration_noise: Standard deviation of the exploration noise, in units of half the distance between the
                action bounds.
            cem_iterations: Iterations of the cross-entropy method per action (the paper's 2).
            cem_samples: Samples per iteration (the paper's N).
            cem_elites: Elites: best samples, to which the next distribution is fitted (the paper's M).
            asynchrony: Concurrency of remote workers, replay buffer and learner.
        """

class R2D2(_R2D2):
    """Recurrent replay distributed DQN: double Q-learning from sequences with stored recurrent states."""
    def __init__(
        self,
        config: R2D2Config | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0005,
        gamma: float = 0.99,
        max_grad_norm: float | None = 10.0,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: RecurrentModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 4,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 32,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 0.1,
        n_step: int = 3,
        target_update_interval: int = 100,
        tau: float = 1.0,
        huber: float | None = None,
        exploration: Literal["epsilon_greedy"] | str = "epsilon_greedy",
        epsilon: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 1.0), (10000, 0.05)),
    ) -> None:
        """Recurrent replay distributed DQN: double Q-learning from sequences with stored recurrent states.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Sequences per minibatch from the replay buffer.
            replay: Settings of the replay buffer and of the replayed sequences.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            exploration: Exploration in training: epsilon-greedy, or a custom exploration `package.module:Class`.
            epsilon: Probability of a uniformly random action.
        """

class R2D3(_R2D3):
    """R2D2 that samples a share of its sequences from demonstrations (arXiv:1909.01387)."""
    def __init__(
        self,
        config: R2D3Config | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0005,
        gamma: float = 0.99,
        max_grad_norm: float | None = 10.0,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: RecurrentModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 4,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 32,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 0.1,
        n_step: int = 3,
        target_update_interval: int = 100,
        tau: float = 1.0,
        huber: float | None = None,
        exploration: Literal["epsilon_greedy"] | str = "epsilon_greedy",
        epsilon: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 1.0), (10000, 0.05)),
        demonstrations: str | None = None,
        demonstration_ratio: float = 0.25,
    ) -> None:
        """R2D2 that samples a share of its sequences from demonstrations (arXiv:1909.01387).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Sequences per minibatch from the replay buffer.
            replay: Settings of the replay buffer and of the replayed sequences.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            exploration: Exploration in training: epsilon-greedy, or a custom exploration `package.module:Class`.
            epsilon: Probability of a uniformly random action.
            demonstrations: Path of a file or a data set of demonstrations, written by `rlrun demonstrate`.
            demonstration_ratio: Probability that a sequence of a minibatch is sampled from the demonstrations.
        """

class REDQ(_ExtendedSAC):
    """Randomized ensembled double Q-learning: many critics, and many updates per env step (arXiv:2101.05982)."""
    def __init__(
        self,
        config: ExtendedSACConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float | Literal["auto"] = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ExtendedModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 5000,
        training_intensity: float = 20.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        num_critics: int = 10,
        num_target_critics: int | None = 2,
        actor_objective: Literal["first", "minimum", "mean"] = "mean",
        policy_delay: int = 20,
        exploration: Literal["sampled", "repeated"] | str = "sampled",
        alpha_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        initial_alpha: float = 1.0,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        target_entropy_per_action: float = -1.0,
        num_quantiles: int | None = None,
        dropped_per_critic: int = 0,
        num_bins: int | None = None,
        support: Sequence[float] = (-5.0, 5.0),
        scale_rewards: bool = False,
        critic_dropout: float = 0.0,
        joint_targets: bool = False,
        joint_actor: bool = False,
        actor_first: bool = False,
        adam_beta_1: float = 0.9,
        weight_decay: float = 0.0,
        weight_projection: Literal["dense", "dense_and_norms"] | None = None,
        reset_interval: int | None = None,
    ) -> None:
        """Randomized ensembled double Q-learning: many critics, and many updates per env step (arXiv:2101.05982).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            alpha_lr: Learning rate of the entropy temperature.
            initial_alpha: Initial entropy temperature.
            learn_alpha: Whether the temperature is learned, so that the actor's entropy approaches target_entropy
                (arXiv:1812.05905, section 5).
            target_entropy: Target entropy in nats, for actions in units of half the distance between their bounds.
            target_entropy_per_action: Target entropy in nats for each continuous action, where `target_entropy` is
                null.
            num_quantiles: Number of quantiles of the return that each critic estimates by quantile regression (TQC,
                arXiv:2005.04269).
            dropped_per_critic: Number of quantiles per critic that targets omit: the largest ones after pooling all
                target critics' quantiles.
            num_bins: Number of evenly spaced returns whose probabilities each critic estimates (C51, arXiv:1707.06887).
            support: Smallest and largest of the `num_bins` returns.
            scale_rewards: Whether the rewards of minibatches are divided by the standard deviation of all discounted
                returns so far, and by more if the largest return would otherwise be outside `support`.
            critic_dropout: Probability that a hidden unit of a critic, or of a target critic, is dropped in a loss
                (DroQ, arXiv:2110.02034).
            joint_targets: Whether targets come from the critics themselves, in one pass with the values of the actions
                taken, and there are no target networks (CrossQ, arXiv:1902.05605).
            joint_actor: Whether the actor's loss normalizes recorded and next observations together, in one pass
                (FlashSAC, arXiv:2604.04539).
            actor_first: Whether a minibatch updates actor and temperature before the critics (FlashSAC,
                arXiv:2604.04539).
            adam_beta_1: Decay rate of Adam's first moment, for all networks and the temperature.
            weight_decay: Decoupled weight decay of actor and critics (AdamW): each update subtracts lr * weight_decay
                times the parameter.
            weight_projection: Projection after each optimizer step of actor and critics: `dense` scales the weights of
                each output of a dense layer to norm 1 (XQC, arXiv:2509.25174).
            reset_interval: Number of minibatches between resets, in which all networks, the temperature and the
                optimizers are reinitialized and the replay buffer is kept (arXiv:2205.07802).
        """

class RLHF(_RLHF):
    """Reinforcement learning from human feedback: PPO on a reward model's scores, with a KL penalty to a reference."""
    def __init__(
        self,
        config: RLHFConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float = 1.0,
        max_grad_norm: float | None = 0.5,
        model: WholeEpisodesModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        seq_len: int = 64,
        num_epochs: int = 10,
        minibatch_size: int = 64,
        asynchronous: bool = False,
        early_stop_kl: float | None = None,
        kl_penalty: KLPenaltyConfig | Mapping[str, Any] | None = None,
        recompute_advantages: bool = False,
        separate_grad_norms: bool = False,
        gae_lambda: float = 0.95,
        clip_param: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.2,
        vf_clip_param: float | None = None,
        vf_loss_coeff: float = 0.5,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
        reward_model: RewardNetworkConfig | Mapping[str, Any] = ...,
        reference_kl_coeff: float = 0.05,
    ) -> None:
        """Reinforcement learning from human feedback: PPO on a reward model's scores, with a KL penalty to a reference.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            model: Network architecture of policy and value.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Maximum length of an episode in steps: a batch has whole episodes, and a recurrent network learns
                from each as one sequence.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            asynchronous: Whether remote workers collect while the learner learns, with weights up to one batch old,
                instead of waiting.
            early_stop_kl: Early stopping: no further epoch begins once the mean KL divergence of an epoch exceeds 1.5
                times this.
            kl_penalty: Penalty on the KL divergence from the policy that collected the batch, in addition to clipping.
            recompute_advantages: Whether advantages and value targets are computed again before each epoch except the
                first, with the current network's values (arXiv:2006.05990, section 3.5).
            separate_grad_norms: Whether `max_grad_norm` bounds the gradients of the policy network and of the value
                network separately, instead of their joint norm.
            gae_lambda: Lambda of GAE, between one-step (0) and Monte Carlo (1) advantages (arXiv:1506.02438).
            clip_param: Clip range of the probability ratio (eq. 7's epsilon).
            vf_clip_param: Clip range of the value's change from the value at collection.
            vf_loss_coeff: Weight of the value loss (eq. 9's c1).
            entropy_coeff: Weight of the entropy bonus (eq. 9's c2).
            reward_model: Network of the reward model.
            reference_kl_coeff: Weight of the penalty log pi(a|s) - log pi_reference(a|s) at each step.
        """

class RLOO(_RLOO):
    """REINFORCE leave-one-out: critic-free PPO whose baseline is the mean return of a group's other episodes."""
    def __init__(
        self,
        config: GRPOConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] | AdaptiveRate | Mapping[str, Any] = 0.0003,
        gamma: float = 1.0,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        microbatch_size: int | None = None,
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = 32,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        seq_len: int = 16,
        num_epochs: int = 4,
        minibatch_size: int = 64,
        early_stop_kl: float | None = None,
        kl_penalty: KLPenaltyConfig | Mapping[str, Any] | None = None,
        clip_param: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.2,
        entropy_coeff: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0,
        group_size: int = 8,
    ) -> None:
        """REINFORCE leave-one-out: critic-free PPO whose baseline is the mean return of a group's other episodes.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate: a number, a schedule, or a section that adapts it to the KL divergence of updates.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            microbatch_size: Steps per microbatch (gradient accumulation): summing the gradients of parts of a minibatch
                saves memory and gives the same update.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            num_epochs: Epochs (passes over each batch).
            minibatch_size: Steps per minibatch.
            early_stop_kl: Early stopping: no further epoch begins once the mean KL divergence of an epoch exceeds 1.5
                times this.
            kl_penalty: Penalty on the KL divergence from the policy that collected the batch, in addition to clipping.
            clip_param: Clip range of the probability ratio (eq. 7's epsilon).
            entropy_coeff: Weight of the entropy bonus (eq. 9's c2).
            group_size: Number of episodes in a group, all from the same start.
        """

class RLPD(_RLPD):
    """Reinforcement learning with prior data: SAC with layer normalization, many critics and symmetric sampling."""
    def __init__(
        self,
        config: RLPDConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: RLPDModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 20.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        num_critics: int = 10,
        num_target_critics: int | None = 2,
        actor_objective: Literal["first", "minimum", "mean"] = "mean",
        policy_delay: int = 20,
        exploration: Literal["sampled", "repeated"] | str = "sampled",
        alpha_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        initial_alpha: float = 1.0,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        sgd_steps_per_iteration: int = 1000,
    ) -> None:
        """Reinforcement learning with prior data: SAC with layer normalization, many critics and symmetric sampling.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            alpha_lr: Learning rate of the entropy temperature.
            initial_alpha: Initial entropy temperature.
            learn_alpha: Whether the temperature is learned, so that the actor's entropy approaches target_entropy
                (arXiv:1812.05905, section 5).
            target_entropy: Target entropy in nats, for actions in units of half the distance between their bounds.
            input: Data sets to learn from, each with its `share` of a minibatch.
            sgd_steps_per_iteration: SGD steps per iteration when training from data alone.
        """

class Random(_Random):
    """Uniformly random choice among the allowed actions: a baseline without learning."""
    def __init__(
        self,
        config: RandomConfig | None = None,
        /,
        *,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        torch_threads: int = 1,
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = 32,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
    ) -> None:
        """Uniformly random choice among the allowed actions: a baseline without learning.

        Args:
            config: Parsed settings, instead of settings by name.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
        """

class RewardModel(_RewardModel):
    """Reward model: maximum likelihood of preferences between two episodes under the Bradley-Terry model."""
    def __init__(
        self,
        config: RewardModelConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        max_grad_norm: float | None = 0.5,
        model: WholeEpisodesModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        worker_timeout_s: float = 300.0,
        min_share_of_fragments: float = 1.0,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        sgd_steps_per_iteration: int = 100,
        minibatch_size: int = 64,
        reward_model: RewardNetworkConfig | Mapping[str, Any] = ...,
        seq_len: int = 64,
        pairs: int = 1000,
        held_out_pairs: int = 500,
        temperature: float = 0.1,
    ) -> None:
        """Reward model: maximum likelihood of preferences between two episodes under the Bradley-Terry model.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            max_grad_norm: Gradient clipping threshold (global norm).
            model: Network architecture of policy and value.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            input: Data sets to learn from, each with its `share` of a minibatch.
            sgd_steps_per_iteration: SGD steps per iteration when training from data alone.
            minibatch_size: Items in a minibatch: steps, or sequences of a recurrent network.
            reward_model: Network of the reward model.
            seq_len: Maximum length of an episode in steps.
            pairs: Number of pairs of episodes to learn from, drawn once.
            held_out_pairs: Number of additional pairs, on which `held_out_accuracy` is measured.
            temperature: Difference of two returns at which the better episode is preferred with odds of e to 1.
        """

class SAC(_SAC):
    """Soft Actor-Critic: maximum-entropy actor-critic with twin Q functions and a learned temperature."""
    def __init__(
        self,
        config: SACConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: SoftModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 1.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "minimum",
        policy_delay: int = 1,
        exploration: Literal["sampled", "repeated"] | str = "sampled",
        alpha_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        initial_alpha: float = 1.0,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
    ) -> None:
        """Soft Actor-Critic: maximum-entropy actor-critic with twin Q functions and a learned temperature.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            alpha_lr: Learning rate of the entropy temperature.
            initial_alpha: Initial entropy temperature.
            learn_alpha: Whether the temperature is learned, so that the actor's entropy approaches target_entropy
                (arXiv:1812.05905, section 5).
            target_entropy: Target entropy in nats, for actions in units of half the distance between their bounds.
        """

class SimBa(_ExtendedSAC):
    """SAC with normalized observations, residual blocks with LayerNorm, and weight decay (arXiv:2410.09754)."""
    def __init__(
        self,
        config: ExtendedSACConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0001,
        gamma: float | Literal["auto"] = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = True,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ExtendedModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 5000,
        training_intensity: float = 2.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0001,
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "minimum",
        policy_delay: int = 1,
        exploration: Literal["sampled", "repeated"] | str = "sampled",
        alpha_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0001,
        initial_alpha: float = 0.01,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        target_entropy_per_action: float = -0.5,
        num_quantiles: int | None = None,
        dropped_per_critic: int = 0,
        num_bins: int | None = None,
        support: Sequence[float] = (-5.0, 5.0),
        scale_rewards: bool = False,
        critic_dropout: float = 0.0,
        joint_targets: bool = False,
        joint_actor: bool = False,
        actor_first: bool = False,
        adam_beta_1: float = 0.9,
        weight_decay: float = 0.01,
        weight_projection: Literal["dense", "dense_and_norms"] | None = None,
        reset_interval: int | None = None,
    ) -> None:
        """SAC with normalized observations, residual blocks with LayerNorm, and weight decay (arXiv:2410.09754).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            alpha_lr: Learning rate of the entropy temperature.
            initial_alpha: Initial entropy temperature.
            learn_alpha: Whether the temperature is learned, so that the actor's entropy approaches target_entropy
                (arXiv:1812.05905, section 5).
            target_entropy: Target entropy in nats, for actions in units of half the distance between their bounds.
            target_entropy_per_action: Target entropy in nats for each continuous action, where `target_entropy` is
                null.
            num_quantiles: Number of quantiles of the return that each critic estimates by quantile regression (TQC,
                arXiv:2005.04269).
            dropped_per_critic: Number of quantiles per critic that targets omit: the largest ones after pooling all
                target critics' quantiles.
            num_bins: Number of evenly spaced returns whose probabilities each critic estimates (C51, arXiv:1707.06887).
            support: Smallest and largest of the `num_bins` returns.
            scale_rewards: Whether the rewards of minibatches are divided by the standard deviation of all discounted
                returns so far, and by more if the largest return would otherwise be outside `support`.
            critic_dropout: Probability that a hidden unit of a critic, or of a target critic, is dropped in a loss
                (DroQ, arXiv:2110.02034).
            joint_targets: Whether targets come from the critics themselves, in one pass with the values of the actions
                taken, and there are no target networks (CrossQ, arXiv:1902.05605).
            joint_actor: Whether the actor's loss normalizes recorded and next observations together, in one pass
                (FlashSAC, arXiv:2604.04539).
            actor_first: Whether a minibatch updates actor and temperature before the critics (FlashSAC,
                arXiv:2604.04539).
            adam_beta_1: Decay rate of Adam's first moment, for all networks and the temperature.
            weight_decay: Decoupled weight decay of actor and critics (AdamW): each update subtracts lr * weight_decay
                times the parameter.
            weight_projection: Projection after each optimizer step of actor and critics: `dense` scales the weights of
                each output of a dense layer to norm 1 (XQC, arXiv:2509.25174).
            reset_interval: Number of minibatches between resets, in which all networks, the temperature and the
                optimizers are reinitialized and the replay buffer is kept (arXiv:2205.07802).
        """

class SlateQ(_SlateQ):
    """Q-learning for slates; a slate's value is the mean value of its items, weighted by their click probabilities."""
    def __init__(
        self,
        config: SlateQConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.00025,
        gamma: float = 0.99,
        max_grad_norm: float | None = 10.0,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: SlateModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 4,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 32,
        replay: ReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 20000,
        training_intensity: float = 0.25,
        target_update_interval: int = 800,
        tau: float = 1.0,
        huber: float | None = None,
        choice_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        epsilon: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 1.0), (250000, 0.01)),
    ) -> None:
        """Q-learning for slates; a slate's value is the mean value of its items, weighted by their click probabilities.

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            choice_lr: Learning rate of the choice model.
            epsilon: Probability of a uniformly random slate.
        """

class TD3(_TD3):
    """DDPG with clipped double Q-learning, delayed policy updates and target policy smoothing (arXiv:1802.09477)."""
    def __init__(
        self,
        config: TD3Config | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ActorQModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 1.0,
        n_step: int = 1,
        target_update_interval: int = 2,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "first",
        policy_delay: int = 2,
        exploration: Literal["gaussian", "repeated_gaussian", "ornstein_uhlenbeck"] | str = "gaussian",
        exploration_noise: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.1,
        ou_theta: float = 0.15,
        target_noise: float = 0.2,
        target_noise_clip: float = 0.5,
    ) -> None:
        """DDPG with clipped double Q-learning, delayed policy updates and target policy smoothing (arXiv:1802.09477).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration noise of actions in training: Gaussian, independent at each step.
            exploration_noise: Standard deviation of the Gaussian noise, or of the Ornstein-Uhlenbeck process's
                increments, in units of half the distance between the action bounds.
            ou_theta: Mean reversion rate theta of the Ornstein-Uhlenbeck process: the fraction of the noise that decays
                per step.
            target_noise: Standard deviation of the target policy smoothing noise (TD3, arXiv:1802.09477, eq. 14), in
                units of half the distance between the action bounds.
            target_noise_clip: Clip bound of the target policy smoothing noise.
        """

class TD3BC(_TD3BC):
    """TD3 with a penalty on the squared distance between the actor's and the recorded actions (arXiv:2106.06860)."""
    def __init__(
        self,
        config: TD3BCConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ActionValueModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 0,
        training_intensity: float = 1.0,
        n_step: int = 1,
        target_update_interval: int = 2,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "first",
        policy_delay: int = 2,
        exploration: Literal["gaussian", "repeated_gaussian", "ornstein_uhlenbeck"] | str = "gaussian",
        exploration_noise: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.1,
        ou_theta: float = 0.15,
        target_noise: float = 0.2,
        target_noise_clip: float = 0.5,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        sgd_steps_per_iteration: int = 1000,
        value_weight: float = 2.5,
        critic_penalty: float = 0.0,
    ) -> None:
        """TD3 with a penalty on the squared distance between the actor's and the recorded actions (arXiv:2106.06860).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration noise of actions in training: Gaussian, independent at each step.
            exploration_noise: Standard deviation of the Gaussian noise, or of the Ornstein-Uhlenbeck process's
                increments, in units of half the distance between the action bounds.
            ou_theta: Mean reversion rate theta of the Ornstein-Uhlenbeck process: the fraction of the noise that decays
                per step.
            target_noise: Standard deviation of the target policy smoothing noise (TD3, arXiv:1802.09477, eq. 14), in
                units of half the distance between the action bounds.
            target_noise_clip: Clip bound of the target policy smoothing noise.
            input: Data sets to learn from, each with its `share` of a minibatch.
            sgd_steps_per_iteration: SGD steps per iteration when training from data alone.
            value_weight: Weight alpha of the normalized values relative to the squared distance to recorded actions.
            critic_penalty: Weight of the squared distance between the target actor's next action and the recorded one,
                subtracted from the next value (ReBRAC's beta_2).
        """

class TQC(_ExtendedSAC):
    """Truncated quantile critics: targets drop the largest quantiles of all critics (arXiv:2005.04269)."""
    def __init__(
        self,
        config: ExtendedSACConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        gamma: float | Literal["auto"] = 0.99,
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ExtendedModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 1.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        num_critics: int = 5,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "mean",
        policy_delay: int = 1,
        exploration: Literal["sampled", "repeated"] | str = "sampled",
        alpha_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0003,
        initial_alpha: float = 1.0,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        target_entropy_per_action: float = -1.0,
        num_quantiles: int | None = 25,
        dropped_per_critic: int = 2,
        num_bins: int | None = None,
        support: Sequence[float] = (-5.0, 5.0),
        scale_rewards: bool = False,
        critic_dropout: float = 0.0,
        joint_targets: bool = False,
        joint_actor: bool = False,
        actor_first: bool = False,
        adam_beta_1: float = 0.9,
        weight_decay: float = 0.0,
        weight_projection: Literal["dense", "dense_and_norms"] | None = None,
        reset_interval: int | None = None,
    ) -> None:
        """Truncated quantile critics: targets drop the largest quantiles of all critics (arXiv:2005.04269).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            alpha_lr: Learning rate of the entropy temperature.
            initial_alpha: Initial entropy temperature.
            learn_alpha: Whether the temperature is learned, so that the actor's entropy approaches target_entropy
                (arXiv:1812.05905, section 5).
            target_entropy: Target entropy in nats, for actions in units of half the distance between their bounds.
            target_entropy_per_action: Target entropy in nats for each continuous action, where `target_entropy` is
                null.
            num_quantiles: Number of quantiles of the return that each critic estimates by quantile regression (TQC,
                arXiv:2005.04269).
            dropped_per_critic: Number of quantiles per critic that targets omit: the largest ones after pooling all
                target critics' quantiles.
            num_bins: Number of evenly spaced returns whose probabilities each critic estimates (C51, arXiv:1707.06887).
            support: Smallest and largest of the `num_bins` returns.
            scale_rewards: Whether the rewards of minibatches are divided by the standard deviation of all discounted
                returns so far, and by more if the largest return would otherwise be outside `support`.
            critic_dropout: Probability that a hidden unit of a critic, or of a target critic, is dropped in a loss
                (DroQ, arXiv:2110.02034).
            joint_targets: Whether targets come from the critics themselves, in one pass with the values of the actions
                taken, and there are no target networks (CrossQ, arXiv:1902.05605).
            joint_actor: Whether the actor's loss normalizes recorded and next observations together, in one pass
                (FlashSAC, arXiv:2604.04539).
            actor_first: Whether a minibatch updates actor and temperature before the critics (FlashSAC,
                arXiv:2604.04539).
            adam_beta_1: Decay rate of Adam's first moment, for all networks and the temperature.
            weight_decay: Decoupled weight decay of actor and critics (AdamW): each update subtracts lr * weight_decay
                times the parameter.
            weight_projection: Projection after each optimizer step of actor and critics: `dense` scales the weights of
                each output of a dense layer to norm 1 (XQC, arXiv:2509.25174).
            reset_interval: Number of minibatches between resets, in which all networks, the temperature and the
                optimizers are reinitialized and the replay buffer is kept (arXiv:2205.07802).
        """

class TRPO(_TRPO):
    """Trust region policy optimization: a natural gradient step with bounded KL divergence (arXiv:1502.05477)."""
    def __init__(
        self,
        config: TRPOConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.001,
        gamma: float = 0.99,
        max_grad_norm: float | None = 0.5,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: SeparateValueModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 8,
        rollout_fragment_length: int | None = None,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        train_batch_size: int = 2048,
        seq_len: int = 16,
        gae_lambda: float = 0.95,
        max_kl: float = 0.01,
        cg_steps: int = 15,
        damping: float = 0.1,
        line_search_steps: int = 10,
        shrink: float = 0.8,
        value_epochs: int = 10,
        minibatch_size: int = 128,
    ) -> None:
        """Trust region policy optimization: a natural gradient step with bounded KL divergence (arXiv:1502.05477).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            normalize_rewards: Whether rewards are divided by the running standard deviation of discounted returns.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the policy and of the values.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env in one fragment.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            train_batch_size: Steps collected for an update, over all workers and envs.
            seq_len: Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through
                time, at most a fragment.
            gae_lambda: Lambda of GAE, between one-step (0) and Monte Carlo (1) advantages (arXiv:1506.02438).
            max_kl: Bound of a step's mean KL divergence from the old policy, the trust region's size (eq. 12's delta).
            cg_steps: Iterations of the conjugate gradient method.
            damping: Damping: multiple of the identity that is added to the Fisher matrix.
            line_search_steps: Step lengths that the backtracking line search tries.
            shrink: Ratio of each step length of the line search to the one before it.
            value_epochs: Epochs (passes over each batch) in which the values are fitted.
            minibatch_size: Number of steps per minibatch in these epochs.
        """

class VDN(_VDN):
    """Value decomposition networks: double Q-learning of the sum of members' Q values (arXiv:1706.05296)."""
    def __init__(
        self,
        config: VDNConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = 0.0005,
        gamma: float = 0.99,
        max_grad_norm: float | None = 10.0,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: TeamQModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 4,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 64,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 1000,
        training_intensity: float = 0.25,
        n_step: int = 1,
        target_update_interval: int = 200,
        tau: float = 1.0,
        huber: float | None = None,
        optimizer: Literal["adam", "rmsprop"] = "rmsprop",
        double: bool = True,
        team_reward: Literal["sum", "once"] = "sum",
        exploration: Literal["epsilon_greedy"] | str = "epsilon_greedy",
        epsilon: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 1.0), (50000, 0.05)),
    ) -> None:
        """Value decomposition networks: double Q-learning of the sum of members' Q values (arXiv:1706.05296).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture shared by all members.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            huber: Bound of the Huber loss of TD errors, beyond which the loss is linear.
            optimizer: Name of the optimizer.
            double: Double Q-learning: the online network selects the next actions and the target network evaluates them
                (van Hasselt et al., arXiv:1509.06461).
            team_reward: Team reward: the `sum` of the members' rewards, or `once` if the world gives the team's reward
                to every member.
            exploration: Exploration of the members in training: epsilon-greedy, or a custom exploration
                `package.module:Class`.
            epsilon: Probability of a uniformly random action, drawn independently for each member.
        """

class ValueIteration(_ValueIteration):
    """Value iteration: Bellman optimality backups of all states in sweeps (Bellman, 1957)."""
    def __init__(
        self,
        config: ValueIterationConfig | None = None,
        /,
        *,
        gamma: float = 0.99,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        torch_threads: int = 1,
        num_envs_per_worker: int = 1,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
    ) -> None:
        """Value iteration: Bellman optimality backups of all states in sweeps (Bellman, 1957).

        Args:
            config: Parsed settings, instead of settings by name.
            gamma: Discount factor.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
        """

class XQC(_ExtendedSAC):
    """SAC with batch normalization, projected weights and categorical critics of scaled returns (arXiv:2509.25174)."""
    def __init__(
        self,
        config: ExtendedSACConfig | None = None,
        /,
        *,
        lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 0.0003), (1000000, 3e-05)),
        gamma: float | Literal["auto"] = "auto",
        max_grad_norm: float | None = None,
        normalize_observations: bool = False,
        reward_scale: float = 1.0,
        clip_rewards: float | None = None,
        model: ExtendedModelConfig | Mapping[str, Any] = ...,
        before_learning: Sequence[str | Mapping[str, Mapping[str, Any]]] = (),
        num_learners: int = 0,
        num_gpus: float = 0.0,
        torch_threads: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
        compile: Literal["auto"] | bool = "auto",
        num_workers: int = 0,
        num_envs_per_worker: int = 1,
        rollout_fragment_length: int | None = 1,
        min_env_steps_per_iteration: int = 1000,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 100,
        min_share_of_fragments: float = 1.0,
        inference: InferenceConfig | Mapping[str, Any] = ...,
        minibatch_size: int = 256,
        replay: SequenceReplayConfig | Mapping[str, Any] = ...,
        learning_starts: int = 5000,
        training_intensity: float = 2.0,
        n_step: int = 1,
        target_update_interval: int = 1,
        tau: float = 0.005,
        critic_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 0.0003), (1000000, 3e-05)),
        num_critics: int = 2,
        num_target_critics: int | None = None,
        actor_objective: Literal["first", "minimum", "mean"] = "minimum",
        policy_delay: int = 3,
        exploration: Literal["sampled", "repeated"] | str = "sampled",
        alpha_lr: float | Sequence[Sequence[float]] | Cosine | Mapping[str, Any] = ((0, 0.0003), (1000000, 3e-05)),
        initial_alpha: float = 0.01,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        target_entropy_per_action: float = -0.5,
        num_quantiles: int | None = None,
        dropped_per_critic: int = 0,
        num_bins: int | None = 101,
        support: Sequence[float] = (-5.0, 5.0),
        scale_rewards: bool = True,
        critic_dropout: float = 0.0,
        joint_targets: bool = False,
        joint_actor: bool = False,
        actor_first: bool = False,
        adam_beta_1: float = 0.9,
        weight_decay: float = 0.0,
        weight_projection: Literal["dense", "dense_and_norms"] | None = "dense",
        reset_interval: int | None = None,
    ) -> None:
        """SAC with batch normalization, projected weights and categorical critics of scaled returns (arXiv:2509.25174).

        Args:
            config: Parsed settings, instead of settings by name.
            lr: Learning rate of the actor.
            gamma: Discount factor.
            max_grad_norm: Gradient clipping threshold (global norm).
            normalize_observations: Whether Box observations that enter the network as vectors (including integers) are
                normalized by running mean and standard deviation, except those with `model.observations: {KEY: {bounds:
                ...}}`.
            reward_scale: Factor of rewards for learning, before clipping.
            clip_rewards: Reward clipping bound for learning, usually 1 for Atari.
            model: Network architecture of the actor and of each critic.
            before_learning: Operators that may change fragments before the algorithm learns from them:
                package.module:Class, or {package.module:Class: SETTINGS}.
            num_learners: Data-parallel learner processes that share each minibatch.
            num_gpus: Total number of GPUs of the learners.
            torch_threads: Number of torch and BLAS threads in the trial's process, and in each learner process.
            precision: Precision of the network's forward and backward passes.
            compile: Compilation of the learner's update.
            num_workers: Number of remote rollout workers, one process each.
            num_envs_per_worker: Number of envs that each rollout worker steps in parallel.
            rollout_fragment_length: Steps of each env between two rounds of updates.
            min_env_steps_per_iteration: Minimum number of env steps per iteration, which ends with a result.
            num_cpus_per_worker: CPUs that Ray reserves for each rollout worker.
            worker_timeout_s: Seconds after which a rollout worker that does not answer is killed and replaced.
            max_worker_restarts: Maximum number of replaced rollout workers before the run fails.
            min_share_of_fragments: Share of the remote workers that a synchronous round waits for.
            inference: Where policies choose the actions of remote rollout workers.
            minibatch_size: Transitions per minibatch from the replay buffer.
            replay: Settings of the replay buffer.
            learning_starts: Env steps that are stored before the first minibatch is sampled.
            training_intensity: Minibatches per env step after learning starts, for any number of envs.
            n_step: Number n of steps in n-step returns.
            target_update_interval: Minibatches between two updates of the target network.
            tau: Polyak coefficient of the target network's updates.
            critic_lr: Learning rate of the critics.
            num_critics: Number of critics (Q functions), N.
            num_target_critics: Number M of target critics whose minimum the targets use, drawn at random for each
                minibatch (REDQ, arXiv:2101.05982, algorithm 1).
            actor_objective: Value that the actor maximizes: the value of the `first` critic, the `minimum` of all
                critics, or their `mean`, as in REDQ.
            policy_delay: Policy delay: number of critic updates per update of the actor, and of a temperature.
            exploration: Exploration in training: `sampled` samples actions from the actor's distribution.
            alpha_lr: Learning rate of the entropy temperature.
            initial_alpha: Initial entropy temperature.
            learn_alpha: Whether the temperature is learned, so that the actor's entropy approaches target_entropy
                (arXiv:1812.05905, section 5).
            target_entropy: Target entropy in nats, for actions in units of half the distance between their bounds.
            target_entropy_per_action: Target entropy in nats for each continuous action, where `target_entropy` is
                null.
            num_quantiles: Number of quantiles of the return that each critic estimates by quantile regression (TQC,
                arXiv:2005.04269).
            dropped_per_critic: Number of quantiles per critic that targets omit: the largest ones after pooling all
                target critics' quantiles.
            num_bins: Number of evenly spaced returns whose probabilities each critic estimates (C51, arXiv:1707.06887).
            support: Smallest and largest of the `num_bins` returns.
            scale_rewards: Whether the rewards of minibatches are divided by the standard deviation of all discounted
                returns so far, and by more if the largest return would otherwise be outside `support`.
            critic_dropout: Probability that a hidden unit of a critic, or of a target critic, is dropped in a loss
                (DroQ, arXiv:2110.02034).
            joint_targets: Whether targets come from the critics themselves, in one pass with the values of the actions
                taken, and there are no target networks (CrossQ, arXiv:1902.05605).
            joint_actor: Whether the actor's loss normalizes recorded and next observations together, in one pass
                (FlashSAC, arXiv:2604.04539).
            actor_first: Whether a minibatch updates actor and temperature before the critics (FlashSAC,
                arXiv:2604.04539).
            adam_beta_1: Decay rate of Adam's first moment, for all networks and the temperature.
            weight_decay: Decoupled weight decay of actor and critics (AdamW): each update subtracts lr * weight_decay
                times the parameter.
            weight_projection: Projection after each optimizer step of actor and critics: `dense` scales the weights of
                each output of a dense layer to norm 1 (XQC, arXiv:2509.25174).
            reset_interval: Number of minibatches between resets, in which all networks, the temperature and the
                optimizers are reinitialized and the replay buffer is kept (arXiv:2205.07802).
        """
