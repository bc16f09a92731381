"""Public names that algorithms, envs, policies, hooks and other plugins import from rlrun.

This module and `rlrun` are stable; every other module may change without notice. Names are imported at first use, so
that a plugin loads only what it needs. docs/extending.md shows each kind of plugin.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    # Algorithms: classes, settings, losses and reported metrics.
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
    "rlrun.engine.learner.projection": "Projection",
    "rlrun.engine.learner.optimizers": "Adam AdamW RMSProp SGD",
    # Dataflow: streams, operators and recipes, and the trainee that they work on.
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
    "rlrun.engine.settings.schedules": "value_at",
    "rlrun.engine.learner.value_losses": "summed_value_losses",
    "rlrun.engine.functional.sequence_rows": "row_priorities",
    "rlrun.algorithms.loss_metrics": "td_statistics TD_METRICS",
    "rlrun.algorithms.td_loss": "huber cross_entropy projected",
    "rlrun.algorithms.dqn.dqn": "gather_actions DQN DQNConfig IQN IQNConfig",
    # Policies: the learning side, the acting side, networks and exploration.
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
    "rlrun.engine.policy.action_spaces.action_space": "Actions Floats Distribution",
    "rlrun.engine.policy.action_spaces.discrete": "DiscreteActions",
    "rlrun.engine.policy.action_spaces.box": "DeterministicBoxActions",
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
    "rlrun.engine.envs.tensor_vector_env": "TensorVectorEnv TensorStep FinalObservations",
    # Multi-agent worlds, games for tree search, and leagues.
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
    # Objects that specs name: wrappers, worlds, mappings and rules.
    "rlrun.engine.envs.batched_observation": "BatchedObservation",
    "rlrun.engine.envs.partial_view": "PartialView HideVelocities Flicker Parts",
    "rlrun.engine.envs.trials": "Trials TrialsWithValues",
    "rlrun.engine.envs.without_env": "WithoutEnv",
    "rlrun.bridges.openenv": "OpenEnv",
    "rlrun.bridges.tensor_envs.gymnasium_env": "GymnasiumTensorEnv",
    "rlrun.bridges.tensor_envs.jax_env": "JaxEnv BraxSimulator brax_env gymnax_env playground_env",
    "rlrun.bridges.tensor_envs.rsl_rl_env": "RslRlEnv",
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
    "rlrun.algorithms.actor_q.presets": "CrossQ DroQ FlashSAC REDQ SimBa TQC XQC",
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
    "rlrun.algorithms.groups.grpo": "GRPO GRPOConfig RLOO",
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
