"""Public names that algorithms, envs, policies, hooks and other plugins import from rlrun.

This module and `rlrun` are stable; every other module may change without notice. Names are imported at first use, so
that a plugin loads only what it needs. docs/extending.md shows each kind of plugin.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlrun.algorithms.a2c import A2C as A2C
    from rlrun.algorithms.a2c import A2CConfig as A2CConfig
    from rlrun.algorithms.a3c import A3C as A3C
    from rlrun.algorithms.a3c import A3CConfig as A3CConfig
    from rlrun.algorithms.actor_q.actor_q_nets import critic_spec as critic_spec
    from rlrun.algorithms.actor_q.apex_ddpg import ApexDDPG as ApexDDPG
    from rlrun.algorithms.actor_q.apex_ddpg import ApexDDPGConfig as ApexDDPGConfig
    from rlrun.algorithms.actor_q.ddpg import DDPG as DDPG
    from rlrun.algorithms.actor_q.ddpg import TD3 as TD3
    from rlrun.algorithms.actor_q.ddpg import DDPGConfig as DDPGConfig
    from rlrun.algorithms.actor_q.ddpg import TD3Config as TD3Config
    from rlrun.algorithms.actor_q.deterministic_policy import DeterministicPolicy as DeterministicPolicy
    from rlrun.algorithms.actor_q.extended_sac import ExtendedSAC as ExtendedSAC
    from rlrun.algorithms.actor_q.extended_sac import ExtendedSACConfig as ExtendedSACConfig
    from rlrun.algorithms.actor_q.networks import DeterministicNetworks as DeterministicNetworks
    from rlrun.algorithms.actor_q.presets import REDQ as REDQ
    from rlrun.algorithms.actor_q.presets import TQC as TQC
    from rlrun.algorithms.actor_q.presets import CrossQ as CrossQ
    from rlrun.algorithms.actor_q.presets import DroQ as DroQ
    from rlrun.algorithms.actor_q.presets import SimBa as SimBa
    from rlrun.algorithms.actor_q.sac import SAC as SAC
    from rlrun.algorithms.actor_q.sac import SACConfig as SACConfig
    from rlrun.algorithms.actor_q.soft_networks import SoftNetworks as SoftNetworks
    from rlrun.algorithms.actor_q.soft_networks import SquashedNetworks as SquashedNetworks
    from rlrun.algorithms.actor_q.soft_policy import SoftPolicy as SoftPolicy
    from rlrun.algorithms.alphazero.alphazero import AlphaZero as AlphaZero
    from rlrun.algorithms.alphazero.alphazero import AlphaZeroConfig as AlphaZeroConfig
    from rlrun.algorithms.archer.archer import Archer as Archer
    from rlrun.algorithms.archer.settings import ArcherConfig as ArcherConfig
    from rlrun.algorithms.bandits.linear_bandits import LinTS as LinTS
    from rlrun.algorithms.bandits.linear_bandits import LinTSConfig as LinTSConfig
    from rlrun.algorithms.bandits.linear_bandits import LinUCB as LinUCB
    from rlrun.algorithms.bandits.linear_bandits import LinUCBConfig as LinUCBConfig
    from rlrun.algorithms.dagger.dagger import DAgger as DAgger
    from rlrun.algorithms.dagger.distill import Distill as Distill
    from rlrun.algorithms.dagger.distill import DistillConfig as DistillConfig
    from rlrun.algorithms.dagger.settings import DAggerConfig as DAggerConfig
    from rlrun.algorithms.ddppo.ddppo import DDPPO as DDPPO
    from rlrun.algorithms.ddppo.ddppo import DDPPOConfig as DDPPOConfig
    from rlrun.algorithms.decision_transformer.dt import DT as DT
    from rlrun.algorithms.decision_transformer.dt import DTConfig as DTConfig
    from rlrun.algorithms.dqn.apex import Apex as Apex
    from rlrun.algorithms.dqn.apex import ApexConfig as ApexConfig
    from rlrun.algorithms.dqn.async_dqn import AsyncDQN as AsyncDQN
    from rlrun.algorithms.dqn.async_dqn import AsyncDQNConfig as AsyncDQNConfig
    from rlrun.algorithms.dqn.dqn import DQN as DQN
    from rlrun.algorithms.dqn.dqn import IQN as IQN
    from rlrun.algorithms.dqn.dqn import DQNConfig as DQNConfig
    from rlrun.algorithms.dqn.dqn import IQNConfig as IQNConfig
    from rlrun.algorithms.dqn.dqn import gather_actions as gather_actions
    from rlrun.algorithms.dqn.gorila import Gorila as Gorila
    from rlrun.algorithms.dqn.gorila import GorilaConfig as GorilaConfig
    from rlrun.algorithms.dqn.networks import QNetworks as QNetworks
    from rlrun.algorithms.dqn.policy import QPolicy as QPolicy
    from rlrun.algorithms.dqn.pqn import PQN as PQN
    from rlrun.algorithms.dqn.pqn import PQNConfig as PQNConfig
    from rlrun.algorithms.dqn.q_settings import QSettings as QSettings
    from rlrun.algorithms.dreamer.dreamer import Dreamer as Dreamer
    from rlrun.algorithms.dreamer.dreamer import DreamerConfig as DreamerConfig
    from rlrun.algorithms.evolution.actor_policy import ActorPolicy as ActorPolicy
    from rlrun.algorithms.evolution.ars import ARS as ARS
    from rlrun.algorithms.evolution.ars import ARSConfig as ARSConfig
    from rlrun.algorithms.evolution.cem import CEM as CEM
    from rlrun.algorithms.evolution.cem import CEMConfig as CEMConfig
    from rlrun.algorithms.evolution.cmaes import CMAES as CMAES
    from rlrun.algorithms.evolution.cmaes import CMAESConfig as CMAESConfig
    from rlrun.algorithms.evolution.es import ES as ES
    from rlrun.algorithms.evolution.es import ESConfig as ESConfig
    from rlrun.algorithms.evolution.generations import GatherWorkers as GatherWorkers
    from rlrun.algorithms.gail.gail import GAIL as GAIL
    from rlrun.algorithms.gail.settings import GAILConfig as GAILConfig
    from rlrun.algorithms.impala.appo import APPO as APPO
    from rlrun.algorithms.impala.appo import APPOConfig as APPOConfig
    from rlrun.algorithms.impala.impala import Impala as Impala
    from rlrun.algorithms.impala.impala import ImpalaConfig as ImpalaConfig
    from rlrun.algorithms.loss_metrics import TD_METRICS as TD_METRICS
    from rlrun.algorithms.loss_metrics import td_statistics as td_statistics
    from rlrun.algorithms.meta.maml import MAML as MAML
    from rlrun.algorithms.meta.maml import MAMLConfig as MAMLConfig
    from rlrun.algorithms.model_based.mbmpo import MBMPO as MBMPO
    from rlrun.algorithms.model_based.mbmpo import MBMPOConfig as MBMPOConfig
    from rlrun.algorithms.model_based.mbpo import MBPO as MBPO
    from rlrun.algorithms.model_based.mbpo import MBPOConfig as MBPOConfig
    from rlrun.algorithms.multi_agent.ippo import IPPO as IPPO
    from rlrun.algorithms.multi_agent.ippo import IPPOConfig as IPPOConfig
    from rlrun.algorithms.multi_agent.maddpg import MADDPG as MADDPG
    from rlrun.algorithms.multi_agent.maddpg import MADDPGConfig as MADDPGConfig
    from rlrun.algorithms.multi_agent.mappo import MAPPO as MAPPO
    from rlrun.algorithms.multi_agent.mappo import MAPPOConfig as MAPPOConfig
    from rlrun.algorithms.multi_agent.qmix import QMIX as QMIX
    from rlrun.algorithms.multi_agent.qmix import QMIXConfig as QMIXConfig
    from rlrun.algorithms.multi_agent.vdn import VDN as VDN
    from rlrun.algorithms.multi_agent.vdn import VDNConfig as VDNConfig
    from rlrun.algorithms.offline.awac_crr import AWAC as AWAC
    from rlrun.algorithms.offline.awac_crr import CRR as CRR
    from rlrun.algorithms.offline.awac_crr import AWACConfig as AWACConfig
    from rlrun.algorithms.offline.awac_crr import CRRConfig as CRRConfig
    from rlrun.algorithms.offline.bc import BC as BC
    from rlrun.algorithms.offline.bc import BCConfig as BCConfig
    from rlrun.algorithms.offline.bcq import BCQ as BCQ
    from rlrun.algorithms.offline.bcq import BCQConfig as BCQConfig
    from rlrun.algorithms.offline.cql import CQL as CQL
    from rlrun.algorithms.offline.cql import CQLConfig as CQLConfig
    from rlrun.algorithms.offline.iql import IQL as IQL
    from rlrun.algorithms.offline.iql import IQLConfig as IQLConfig
    from rlrun.algorithms.offline.marwil import MARWIL as MARWIL
    from rlrun.algorithms.offline.marwil import MARWILConfig as MARWILConfig
    from rlrun.algorithms.offline.replay_or_data import ReplayOrData as ReplayOrData
    from rlrun.algorithms.offline.rlpd import RLPD as RLPD
    from rlrun.algorithms.offline.rlpd import RLPDConfig as RLPDConfig
    from rlrun.algorithms.offline.td3_bc import TD3BC as TD3BC
    from rlrun.algorithms.offline.td3_bc import TD3BCConfig as TD3BCConfig
    from rlrun.algorithms.pg.filtered_bc import FilteredBC as FilteredBC
    from rlrun.algorithms.pg.filtered_bc import FilteredBCConfig as FilteredBCConfig
    from rlrun.algorithms.pg.pg import PG as PG
    from rlrun.algorithms.pg.pg import PGConfig as PGConfig
    from rlrun.algorithms.ppg.ppg import PPG as PPG
    from rlrun.algorithms.ppg.ppg import PPGConfig as PPGConfig
    from rlrun.algorithms.ppo import PPO as PPO
    from rlrun.algorithms.ppo import PPOConfig as PPOConfig
    from rlrun.algorithms.preferences.dpo import DPO as DPO
    from rlrun.algorithms.preferences.reward_model import RewardModel as RewardModel
    from rlrun.algorithms.preferences.rlhf import RLHF as RLHF
    from rlrun.algorithms.preferences.settings import DPOConfig as DPOConfig
    from rlrun.algorithms.preferences.settings import RewardModelConfig as RewardModelConfig
    from rlrun.algorithms.preferences.settings import RLHFConfig as RLHFConfig
    from rlrun.algorithms.qtopt.qtopt import QTOpt as QTOpt
    from rlrun.algorithms.qtopt.qtopt import QTOptConfig as QTOptConfig
    from rlrun.algorithms.random.random import Random as Random
    from rlrun.algorithms.random.random import RandomConfig as RandomConfig
    from rlrun.algorithms.recurrent_q.policy import RecurrentQPolicy as RecurrentQPolicy
    from rlrun.algorithms.recurrent_q.r2d2 import R2D2 as R2D2
    from rlrun.algorithms.recurrent_q.r2d2 import R2D2Config as R2D2Config
    from rlrun.algorithms.recurrent_q.r2d3 import R2D3 as R2D3
    from rlrun.algorithms.recurrent_q.r2d3 import R2D3Config as R2D3Config
    from rlrun.algorithms.settings.off_policy import OffPolicyConfig as OffPolicyConfig
    from rlrun.algorithms.settings.offline import OfflineConfig as OfflineConfig
    from rlrun.algorithms.settings.on_policy import EpochsSettings as EpochsSettings
    from rlrun.algorithms.settings.on_policy import OnPolicyConfig as OnPolicyConfig
    from rlrun.algorithms.slateq.settings import SlateQConfig as SlateQConfig
    from rlrun.algorithms.slateq.slateq import SlateQ as SlateQ
    from rlrun.algorithms.tabular.q_learning import QLearning as QLearning
    from rlrun.algorithms.tabular.q_learning import QLearningConfig as QLearningConfig
    from rlrun.algorithms.tabular.value_iteration import ValueIteration as ValueIteration
    from rlrun.algorithms.tabular.value_iteration import ValueIterationConfig as ValueIterationConfig
    from rlrun.algorithms.td_loss import cross_entropy as cross_entropy
    from rlrun.algorithms.td_loss import huber as huber
    from rlrun.algorithms.td_loss import projected as projected
    from rlrun.algorithms.trust_region.settings import TRPOConfig as TRPOConfig
    from rlrun.algorithms.trust_region.trpo import NPG as NPG
    from rlrun.algorithms.trust_region.trpo import TRPO as TRPO
    from rlrun.algorithms.trust_region.trpo import NPGConfig as NPGConfig
    from rlrun.bridges.openenv import OpenEnv as OpenEnv
    from rlrun.deploy.serving.decisions import Asked as Asked
    from rlrun.deploy.serving.decisions import Decisions as Decisions
    from rlrun.deploy.serving.served_policy import ServedPolicy as ServedPolicy
    from rlrun.engine.algorithm import Algorithm as Algorithm
    from rlrun.engine.algorithm_config import AlgorithmConfig as AlgorithmConfig
    from rlrun.engine.algorithm_config import WorldSamplingSettings as WorldSamplingSettings
    from rlrun.engine.data.demonstrations import load_demonstrations as load_demonstrations
    from rlrun.engine.data.sample_batch import ACTS as ACTS
    from rlrun.engine.data.sample_batch import WORLD_STATE as WORLD_STATE
    from rlrun.engine.data.sample_batch import SampleBatch as SampleBatch
    from rlrun.engine.data.uniform_sampler import uniform_choices as uniform_choices
    from rlrun.engine.datasets.data_set import DataSet as DataSet
    from rlrun.engine.datasets.input_config import DataSettings as DataSettings
    from rlrun.engine.datasets.writer import SetWriter as SetWriter
    from rlrun.engine.envs.json_values import batch_from_json as batch_from_json
    from rlrun.engine.envs.make import make_env as make_env
    from rlrun.engine.envs.make import make_vector_env as make_vector_env
    from rlrun.engine.envs.object_level_values import TrialsWithValues as TrialsWithValues
    from rlrun.engine.envs.partial_view import Flicker as Flicker
    from rlrun.engine.envs.partial_view import HideVelocities as HideVelocities
    from rlrun.engine.envs.partial_view import PartialView as PartialView
    from rlrun.engine.envs.partial_view import Parts as Parts
    from rlrun.engine.envs.spaces import SpaceMismatch as SpaceMismatch
    from rlrun.engine.envs.spaces import Spaces as Spaces
    from rlrun.engine.envs.trials import Trials as Trials
    from rlrun.engine.envs.vector_env import VectorEnv as VectorEnv
    from rlrun.engine.envs.without_env import WithoutEnv as WithoutEnv
    from rlrun.engine.flow.concurrently import concurrently as concurrently
    from rlrun.engine.flow.flow import Flow as Flow
    from rlrun.engine.flow.flow import Operator as Operator
    from rlrun.engine.flow.flow import StatefulOperator as StatefulOperator
    from rlrun.engine.flow.flow import WorkerOperator as WorkerOperator
    from rlrun.engine.flow.operators.advantages import ComputeAdvantages as ComputeAdvantages
    from rlrun.engine.flow.operators.advantages import Standardize as Standardize
    from rlrun.engine.flow.operators.batches import ConcatBatches as ConcatBatches
    from rlrun.engine.flow.operators.minibatches import TrainOnMinibatch as TrainOnMinibatch
    from rlrun.engine.flow.operators.minibatches import UpdateTargetNetwork as UpdateTargetNetwork
    from rlrun.engine.flow.operators.replay import NormalizeObservations as NormalizeObservations
    from rlrun.engine.flow.operators.replay import StoreToReplay as StoreToReplay
    from rlrun.engine.flow.operators.replay import UpdatePriorities as UpdatePriorities
    from rlrun.engine.flow.operators.training import TrainOnBatch as TrainOnBatch
    from rlrun.engine.flow.operators.weights import BroadcastWeights as BroadcastWeights
    from rlrun.engine.flow.operators.weights import MergeFilters as MergeFilters
    from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS as REPLAY_METRICS
    from rlrun.engine.flow.recipes.replay_updates import replay_updates as replay_updates
    from rlrun.engine.flow.sources.items import StatefulSource as StatefulSource
    from rlrun.engine.flow.sources.items import from_items as from_items
    from rlrun.engine.flow.trainee import Trainee as Trainee
    from rlrun.engine.functional.masked import masked_mean as masked_mean
    from rlrun.engine.functional.schedules import value_at as value_at
    from rlrun.engine.functional.seeding import child_seed as child_seed
    from rlrun.engine.functional.seeding import generator as generator
    from rlrun.engine.functional.sequence_rows import row_priorities as row_priorities
    from rlrun.engine.hook import Answer as Answer
    from rlrun.engine.hook import EpisodeStep as EpisodeStep
    from rlrun.engine.hook import Fragment as Fragment
    from rlrun.engine.hook import Hook as Hook
    from rlrun.engine.hook import RunningEpisode as RunningEpisode
    from rlrun.engine.hook import Stop as Stop
    from rlrun.engine.league.league_settings import LeagueSettings as LeagueSettings
    from rlrun.engine.league.league_settings import SeatSettings as SeatSettings
    from rlrun.engine.league.sides import alternate as alternate
    from rlrun.engine.league.sides import alternate_roles as alternate_roles
    from rlrun.engine.league.sides import alternate_with_exploiter as alternate_with_exploiter
    from rlrun.engine.league.sides import alternate_with_self_play as alternate_with_self_play
    from rlrun.engine.learner.objective import Loss as Loss
    from rlrun.engine.learner.objective import Objective as Objective
    from rlrun.engine.learner.optimizers import SGD as SGD
    from rlrun.engine.learner.optimizers import Adam as Adam
    from rlrun.engine.learner.optimizers import AdamW as AdamW
    from rlrun.engine.learner.optimizers import RMSProp as RMSProp
    from rlrun.engine.learner.value_losses import summed_value_losses as summed_value_losses
    from rlrun.engine.messages.errors import SpecError as SpecError
    from rlrun.engine.nn.model_config import CriticsModelConfig as CriticsModelConfig
    from rlrun.engine.nn.model_config import FeedForwardModelConfig as FeedForwardModelConfig
    from rlrun.engine.nn.model_config import ModelConfig as ModelConfig
    from rlrun.engine.nn.model_config import QModelConfig as QModelConfig
    from rlrun.engine.nn.network_spec import NetworkSpec as NetworkSpec
    from rlrun.engine.nn.observation_leaves import ObservationTree as ObservationTree
    from rlrun.engine.policy.action_masks import ActionMask as ActionMask
    from rlrun.engine.policy.action_masks import policy_leaves as policy_leaves
    from rlrun.engine.policy.action_spaces.action_space import Actions as Actions
    from rlrun.engine.policy.action_spaces.action_space import Floats as Floats
    from rlrun.engine.policy.action_spaces.deterministic_box import DeterministicBoxActions as DeterministicBoxActions
    from rlrun.engine.policy.action_spaces.discrete import DiscreteActions as DiscreteActions
    from rlrun.engine.policy.action_spaces.squashed_box import SquashedBoxActions as SquashedBoxActions
    from rlrun.engine.policy.action_spaces.squashed_box import SquashedGaussian as SquashedGaussian
    from rlrun.engine.policy.actor_critic import ActorCriticPolicy as ActorCriticPolicy
    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs as ActorCriticOutputs
    from rlrun.engine.policy.behavior import BehaviorPolicy as BehaviorPolicy
    from rlrun.engine.policy.exploration.exploration import Exploration as Exploration
    from rlrun.engine.policy.exploration.exploration import Heads as Heads
    from rlrun.engine.policy.exploration.exploration import RunNetwork as RunNetwork
    from rlrun.engine.policy.flat_parameters import FlatParameters as FlatParameters
    from rlrun.engine.policy.policy import Policy as Policy
    from rlrun.engine.policy.stochastic_actor import StochasticActorOutputs as StochasticActorOutputs
    from rlrun.engine.policy.stochastic_actor import StochasticActorPolicy as StochasticActorPolicy
    from rlrun.engine.policy.weights import Weights as Weights
    from rlrun.engine.replay.local_replay import Experience as Experience
    from rlrun.engine.replay.local_replay import LocalReplay as LocalReplay
    from rlrun.engine.replay.replay_config import ReplayConfig as ReplayConfig
    from rlrun.engine.replay.replay_config import SequenceReplayConfig as SequenceReplayConfig
    from rlrun.engine.replay.row_sampler import Rows as Rows
    from rlrun.engine.replay.row_sampler import RowSampler as RowSampler
    from rlrun.engine.rollout.evaluation import evaluate as evaluate
    from rlrun.engine.rollout.rollout import Episode as Episode
    from rlrun.engine.rollout.rollout import Rollout as Rollout
    from rlrun.engine.rollout.worker import Orders as Orders
    from rlrun.engine.rollout.worker import Worker as Worker
    from rlrun.engine.rollout.worker_config import WorkerConfig as WorkerConfig
    from rlrun.engine.settings.config import ConfigModel as ConfigModel
    from rlrun.engine.settings.config import Fraction as Fraction
    from rlrun.engine.settings.config import ImportPath as ImportPath
    from rlrun.engine.settings.config import NonEmptyText as NonEmptyText
    from rlrun.engine.settings.config import NonNegativeFloat as NonNegativeFloat
    from rlrun.engine.settings.config import NonNegativeInt as NonNegativeInt
    from rlrun.engine.settings.config import Plugin as Plugin
    from rlrun.engine.settings.config import Plugins as Plugins
    from rlrun.engine.settings.config import PositiveFloat as PositiveFloat
    from rlrun.engine.settings.config import PositiveInt as PositiveInt
    from rlrun.engine.settings.config import Schedule as Schedule
    from rlrun.engine.settings.config import defaults as defaults
    from rlrun.engine.settings.config import fixed as fixed
    from rlrun.engine.settings.metric import Metric as Metric
    from rlrun.engine.training.assemble.policies import Policies as Policies
    from rlrun.engine.worlds.array_worlds import ArrayGroup as ArrayGroup
    from rlrun.engine.worlds.array_worlds import ArrayStep as ArrayStep
    from rlrun.engine.worlds.array_worlds import ArrayWorld as ArrayWorld
    from rlrun.engine.worlds.games.array_game import ArrayGame as ArrayGame
    from rlrun.engine.worlds.games.game_tree import GameTree as GameTree
    from rlrun.engine.worlds.games.searchable import ObjectGame as ObjectGame
    from rlrun.engine.worlds.games.searchable import Searchable as Searchable
    from rlrun.engine.worlds.games.searched_env import SearchedEnv as SearchedEnv
    from rlrun.engine.worlds.games.tree_world import TreeWorld as TreeWorld
    from rlrun.engine.worlds.joint_envs import JointEnv as JointEnv
    from rlrun.engine.worlds.world import World as World
    from rlrun.engine.worlds.world import WorldStep as WorldStep
    from rlrun.engine.worlds.world_view import WorldView as WorldView
    from rlrun.engine.worlds.wrappers import AgentIndicator as AgentIndicator
    from rlrun.engine.worlds.wrappers import BlackDeath as BlackDeath
    from rlrun.engine.worlds.wrappers import PadSpaces as PadSpaces
    from rlrun.engine.worlds.wrappers import Team as Team
    from rlrun.engine.worlds.wrappers import WrappedWorld as WrappedWorld
    from rlrun.exact.task_automaton import StateLabels as StateLabels
    from rlrun.exact.task_automaton import TaskAutomaton as TaskAutomaton
    from rlrun.experiments.spec.loggers import TrialLogger as TrialLogger

_NAMES = {
    # An algorithm: its class, its settings, its losses and the metrics that it reports.
    "rlrun.engine.algorithm": "Algorithm",
    "rlrun.engine.algorithm_config": "AlgorithmConfig WorldSamplingSettings",
    "rlrun.algorithms.settings.on_policy": "OnPolicyConfig EpochsSettings",
    "rlrun.algorithms.settings.off_policy": "OffPolicyConfig",
    "rlrun.algorithms.settings.offline": "OfflineConfig",
    "rlrun.engine.settings.config": (
        "ConfigModel defaults fixed PositiveInt NonNegativeInt PositiveFloat NonNegativeFloat Fraction Schedule "
        "ImportPath NonEmptyText Plugin Plugins"
    ),
    "rlrun.engine.settings.metric": "Metric",
    "rlrun.engine.learner.objective": "Objective Loss",
    "rlrun.engine.learner.optimizers": "Adam AdamW RMSProp SGD",
    # The dataflow: streams, operators and recipes, and the trainee that they work on.
    "rlrun.engine.flow.flow": "Flow Operator StatefulOperator WorkerOperator",
    "rlrun.engine.flow.concurrently": "concurrently",
    "rlrun.engine.flow.trainee": "Trainee",
    "rlrun.engine.data.sample_batch": "SampleBatch WORLD_STATE ACTS",
    "rlrun.engine.flow.sources.items": "StatefulSource from_items",
    "rlrun.engine.flow.operators.advantages": "ComputeAdvantages Standardize",
    "rlrun.engine.flow.operators.batches": "ConcatBatches",
    "rlrun.engine.flow.operators.training": "TrainOnBatch",
    "rlrun.engine.flow.operators.minibatches": "TrainOnMinibatch UpdateTargetNetwork",
    "rlrun.engine.flow.operators.weights": "BroadcastWeights MergeFilters",
    "rlrun.engine.flow.operators.replay": "StoreToReplay NormalizeObservations UpdatePriorities",
    "rlrun.engine.flow.recipes.replay_updates": "REPLAY_METRICS replay_updates",
    "rlrun.algorithms.evolution.generations": "GatherWorkers",
    # Replay buffers.
    "rlrun.engine.replay.replay_config": "ReplayConfig SequenceReplayConfig",
    "rlrun.engine.replay.local_replay": "Experience LocalReplay",
    "rlrun.engine.replay.row_sampler": "RowSampler Rows",
    # Functions that losses and operators use.
    "rlrun.engine.functional.masked": "masked_mean",
    "rlrun.engine.functional.seeding": "generator child_seed",
    "rlrun.engine.functional.schedules": "value_at",
    "rlrun.engine.learner.value_losses": "summed_value_losses",
    "rlrun.engine.functional.sequence_rows": "row_priorities",
    "rlrun.algorithms.loss_metrics": "td_statistics TD_METRICS",
    "rlrun.algorithms.td_loss": "huber cross_entropy projected",
    "rlrun.algorithms.dqn.dqn": "gather_actions DQN DQNConfig IQN IQNConfig",
    # A policy: the learning side, the acting side and the networks; an exploration.
    "rlrun.engine.policy.policy": "Policy",
    "rlrun.engine.policy.behavior": "BehaviorPolicy",
    "rlrun.engine.policy.flat_parameters": "FlatParameters",
    "rlrun.engine.policy.action_masks": "policy_leaves ActionMask",
    "rlrun.engine.nn.observation_leaves": "ObservationTree",
    "rlrun.engine.envs.spaces": "Spaces SpaceMismatch",
    "rlrun.engine.nn.network_spec": "NetworkSpec",
    "rlrun.engine.nn.model_config": "ModelConfig FeedForwardModelConfig QModelConfig CriticsModelConfig",
    "rlrun.algorithms.dqn.q_settings": "QSettings",
    "rlrun.engine.policy.weights": "Weights",
    "rlrun.engine.policy.exploration.exploration": "Exploration Heads RunNetwork",
    "rlrun.engine.policy.action_spaces.action_space": "Actions Floats",
    "rlrun.engine.policy.action_spaces.discrete": "DiscreteActions",
    "rlrun.engine.policy.action_spaces.deterministic_box": "DeterministicBoxActions",
    "rlrun.engine.policy.action_spaces.squashed_box": "SquashedBoxActions SquashedGaussian",
    "rlrun.engine.data.uniform_sampler": "uniform_choices",
    "rlrun.algorithms.actor_q.actor_q_nets": "critic_spec",
    "rlrun.algorithms.actor_q.soft_policy": "SoftPolicy",
    "rlrun.algorithms.actor_q.deterministic_policy": "DeterministicPolicy",
    "rlrun.engine.policy.actor_critic_outputs": "ActorCriticOutputs",
    "rlrun.engine.policy.actor_critic": "ActorCriticPolicy",
    "rlrun.algorithms.dqn.policy": "QPolicy",
    "rlrun.algorithms.recurrent_q.policy": "RecurrentQPolicy",
    "rlrun.algorithms.evolution.actor_policy": "ActorPolicy",
    "rlrun.engine.policy.stochastic_actor": "StochasticActorPolicy StochasticActorOutputs",
    "rlrun.algorithms.dqn.networks": "QNetworks",
    "rlrun.algorithms.actor_q.networks": "DeterministicNetworks",
    "rlrun.algorithms.actor_q.soft_networks": "SoftNetworks SquashedNetworks",
    # Rollout workers and evaluation.
    "rlrun.engine.rollout.worker": "Worker Orders",
    "rlrun.engine.rollout.worker_config": "WorkerConfig",
    "rlrun.engine.rollout.rollout": "Rollout Episode",
    "rlrun.engine.rollout.evaluation": "evaluate",
    "rlrun.engine.envs.make": "make_env make_vector_env",
    "rlrun.engine.envs.vector_env": "VectorEnv",
    # Worlds of many agents, games for tree search, and leagues.
    "rlrun.engine.worlds.world": "World WorldStep",
    "rlrun.engine.worlds.array_worlds": "ArrayWorld ArrayStep ArrayGroup",
    "rlrun.engine.worlds.world_view": "WorldView",
    "rlrun.engine.worlds.games.array_game": "ArrayGame",
    "rlrun.engine.worlds.games.searchable": "Searchable ObjectGame",
    "rlrun.engine.worlds.games.game_tree": "GameTree",
    "rlrun.engine.worlds.games.tree_world": "TreeWorld",
    "rlrun.engine.training.assemble.policies": "Policies",
    "rlrun.engine.league.league_settings": "LeagueSettings SeatSettings",
    # Hooks.
    "rlrun.engine.hook": "Hook Answer Stop RunningEpisode EpisodeStep Fragment",
    # Loggers.
    "rlrun.experiments.spec.loggers": "TrialLogger",
    # Recorded experience.
    "rlrun.engine.datasets.data_set": "DataSet",
    "rlrun.engine.datasets.writer": "SetWriter",
    "rlrun.engine.datasets.input_config": "DataSettings",
    "rlrun.algorithms.offline.replay_or_data": "ReplayOrData",
    "rlrun.engine.data.demonstrations": "load_demonstrations",
    # Serving a saved policy, and errors.
    "rlrun.deploy.serving.decisions": "Asked Decisions",
    "rlrun.deploy.serving.served_policy": "ServedPolicy",
    "rlrun.engine.envs.json_values": "batch_from_json",
    "rlrun.engine.messages.errors": "SpecError",
    # What specs name: wrappers, worlds, mappings and rules.
    "rlrun.engine.envs.partial_view": "PartialView HideVelocities Flicker Parts",
    "rlrun.engine.envs.trials": "Trials",
    "rlrun.engine.envs.object_level_values": "TrialsWithValues",
    "rlrun.engine.envs.without_env": "WithoutEnv",
    "rlrun.bridges.openenv": "OpenEnv",
    "rlrun.exact.task_automaton": "StateLabels TaskAutomaton",
    "rlrun.engine.worlds.joint_envs": "JointEnv",
    "rlrun.engine.worlds.games.searched_env": "SearchedEnv",
    "rlrun.engine.worlds.wrappers": "WrappedWorld AgentIndicator PadSpaces BlackDeath Team",
    "rlrun.engine.league.sides": "alternate alternate_roles alternate_with_exploiter alternate_with_self_play",
    # Built-in algorithms and their settings, to derive from.
    "rlrun.algorithms.a2c": "A2C A2CConfig",
    "rlrun.algorithms.a3c": "A3C A3CConfig",
    "rlrun.algorithms.actor_q.apex_ddpg": "ApexDDPG ApexDDPGConfig",
    "rlrun.algorithms.actor_q.ddpg": "DDPG DDPGConfig TD3 TD3Config",
    "rlrun.algorithms.actor_q.extended_sac": "ExtendedSAC ExtendedSACConfig",
    "rlrun.algorithms.actor_q.presets": "CrossQ DroQ REDQ SimBa TQC",
    "rlrun.algorithms.actor_q.sac": "SAC SACConfig",
    "rlrun.algorithms.alphazero.alphazero": "AlphaZero AlphaZeroConfig",
    "rlrun.algorithms.archer.archer": "Archer",
    "rlrun.algorithms.archer.settings": "ArcherConfig",
    "rlrun.algorithms.bandits.linear_bandits": "LinTS LinTSConfig LinUCB LinUCBConfig",
    "rlrun.algorithms.dagger.dagger": "DAgger",
    "rlrun.algorithms.dagger.distill": "Distill DistillConfig",
    "rlrun.algorithms.dagger.settings": "DAggerConfig",
    "rlrun.algorithms.ddppo.ddppo": "DDPPO DDPPOConfig",
    "rlrun.algorithms.decision_transformer.dt": "DT DTConfig",
    "rlrun.algorithms.dqn.apex": "Apex ApexConfig",
    "rlrun.algorithms.dqn.async_dqn": "AsyncDQN AsyncDQNConfig",
    "rlrun.algorithms.dqn.gorila": "Gorila GorilaConfig",
    "rlrun.algorithms.dqn.pqn": "PQN PQNConfig",
    "rlrun.algorithms.dreamer.dreamer": "Dreamer DreamerConfig",
    "rlrun.algorithms.evolution.ars": "ARS ARSConfig",
    "rlrun.algorithms.evolution.cem": "CEM CEMConfig",
    "rlrun.algorithms.evolution.cmaes": "CMAES CMAESConfig",
    "rlrun.algorithms.evolution.es": "ES ESConfig",
    "rlrun.algorithms.gail.gail": "GAIL",
    "rlrun.algorithms.gail.settings": "GAILConfig",
    "rlrun.algorithms.impala.appo": "APPO APPOConfig",
    "rlrun.algorithms.impala.impala": "Impala ImpalaConfig",
    "rlrun.algorithms.meta.maml": "MAML MAMLConfig",
    "rlrun.algorithms.model_based.mbmpo": "MBMPO MBMPOConfig",
    "rlrun.algorithms.model_based.mbpo": "MBPO MBPOConfig",
    "rlrun.algorithms.multi_agent.ippo": "IPPO IPPOConfig",
    "rlrun.algorithms.multi_agent.maddpg": "MADDPG MADDPGConfig",
    "rlrun.algorithms.multi_agent.mappo": "MAPPO MAPPOConfig",
    "rlrun.algorithms.multi_agent.qmix": "QMIX QMIXConfig",
    "rlrun.algorithms.multi_agent.vdn": "VDN VDNConfig",
    "rlrun.algorithms.offline.awac_crr": "AWAC AWACConfig CRR CRRConfig",
    "rlrun.algorithms.offline.bc": "BC BCConfig",
    "rlrun.algorithms.offline.bcq": "BCQ BCQConfig",
    "rlrun.algorithms.offline.cql": "CQL CQLConfig",
    "rlrun.algorithms.offline.iql": "IQL IQLConfig",
    "rlrun.algorithms.offline.marwil": "MARWIL MARWILConfig",
    "rlrun.algorithms.offline.rlpd": "RLPD RLPDConfig",
    "rlrun.algorithms.offline.td3_bc": "TD3BC TD3BCConfig",
    "rlrun.algorithms.pg.filtered_bc": "FilteredBC FilteredBCConfig",
    "rlrun.algorithms.pg.pg": "PG PGConfig",
    "rlrun.algorithms.ppg.ppg": "PPG PPGConfig",
    "rlrun.algorithms.ppo": "PPO PPOConfig",
    "rlrun.algorithms.preferences.dpo": "DPO",
    "rlrun.algorithms.preferences.reward_model": "RewardModel",
    "rlrun.algorithms.preferences.rlhf": "RLHF",
    "rlrun.algorithms.preferences.settings": "DPOConfig RewardModelConfig RLHFConfig",
    "rlrun.algorithms.qtopt.qtopt": "QTOpt QTOptConfig",
    "rlrun.algorithms.random.random": "Random RandomConfig",
    "rlrun.algorithms.recurrent_q.r2d2": "R2D2 R2D2Config",
    "rlrun.algorithms.recurrent_q.r2d3": "R2D3 R2D3Config",
    "rlrun.algorithms.slateq.settings": "SlateQConfig",
    "rlrun.algorithms.slateq.slateq": "SlateQ",
    "rlrun.algorithms.tabular.q_learning": "QLearning QLearningConfig",
    "rlrun.algorithms.tabular.value_iteration": "ValueIteration ValueIterationConfig",
    "rlrun.algorithms.trust_region.trpo": "NPG NPGConfig TRPO",
    "rlrun.algorithms.trust_region.settings": "TRPOConfig",
}
"""Names that plugins may import, by the module that defines them."""

_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # so that a type checker reports a name that does not exist

    def __getattr__(name: str) -> Any:
        """Imports a name at its first use."""
        if name not in _PLACES:
            raise AttributeError(f"module 'rlrun.plugin' has no attribute '{name}'")
        found = getattr(importlib.import_module(_PLACES[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """Lists the names that plugins may import."""
    return sorted(_PLACES)
