"""Creation of a training run's learners, rollout workers and dataflow, for one or several policies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rlrun.engine.data.action_kind import DEFAULT_KIND, ActionKind
from rlrun.engine.envs.env_config import EnvConfig, missing_column
from rlrun.engine.flow.clock import Clock
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.worker import NO_WORKER, ROLLOUT_WORKER, TENSOR_WORKER
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.rollout.worker_set import WorkerSet
from rlrun.engine.settings.registry import load_internal
from rlrun.engine.training.assemble.learner_factory import COMPILED_ELSEWHERE, AlgorithmLearnerFactory, started_learner
from rlrun.engine.training.assemble.learning import learning_alone
from rlrun.engine.training.assemble.policies import Policies, clock_unit_of, learns_offline, schedules_of
from rlrun.engine.training.assemble.policies_in_world import PoliciesInWorld, placeholder, policies_in_world
from rlrun.engine.training.branch import Branch
from rlrun.engine.training.running_training import RunningTraining

if TYPE_CHECKING:
    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.algorithm_config import AlgorithmConfig
    from rlrun.engine.flow.flow import Flow
    from rlrun.engine.learner.executors.update_executor import UpdateExecutor
    from rlrun.engine.learner.learner import Learner
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.replay.hindsight import GoalFunctions
    from rlrun.engine.replay.local_replay import LocalReplay
    from rlrun.engine.replay.replay import Lend
    from rlrun.engine.replay.replay_config import ReplayConfig
    from rlrun.engine.rollout.inference.server_actor import ServedPolicies
    from rlrun.engine.rollout.worker_behavior import WorkerBehavior
    from rlrun.engine.training.assemble.curriculum import Curriculum
    from rlrun.engine.training.assemble.seats import Seats
    from rlrun.engine.training.assemble.trial_hooks import TrialHooks
    from rlrun.engine.training.results.run_output import RunOutput
    from rlrun.engine.training.save.saved_opponents import SavedOpponent

PARTS = {
    "acting in kernels": "rlrun.engine.policy.acting_network:in_kernels",
    "curriculum": "rlrun.engine.training.assemble.curriculum:Curriculum",
    "goals": "rlrun.engine.envs.goal_env:GoalEnv",
    "inference server": "rlrun.engine.training.assemble.central_inference:served_policies",
    "hooks of a trial": "rlrun.engine.training.assemble.trial_hooks:TrialHooks",
    "hooks of workers": "rlrun.engine.hook:worker_hooks",
    "learning in turn": "rlrun.engine.training.assemble.joint_learning:learning_in_turn",
    "learning together": "rlrun.engine.training.assemble.joint_learning:learning_together",
    "logged actions": "rlrun.engine.training.assemble.external_env:with_logged_actions",
    "output": "rlrun.engine.training.results.run_output:RunOutput",
    "replay": "rlrun.engine.replay.local_replay:local_replay",
    "seats": "rlrun.engine.training.assemble.seats:Seats",
    "check of tensors": "rlrun.engine.training.assemble.tensor_settings:refuse_misfits",
    "dataflow of tensors": "rlrun.engine.training.assemble.tensor_training:put_on_device",
    "worker of tensors": "rlrun.engine.training.assemble.tensor_training:tensor_worker",
}
"""Import paths of a training run's optional parts, which are imported if its settings need them."""


def assemble(
    env: EnvConfig,
    policies: Policies,
    seed: int,
    announce: Callable[[str], None],
    *,
    update_executor: UpdateExecutor,
    actions: ActionKind = DEFAULT_KIND,
    copied: Mapping[str, SavedOpponent] = MappingProxyType({}),
    for_plan: bool = False,
    output: Path | None = None,
    hooks: Sequence[Mapping[str, Mapping[str, Any]]] = (),
) -> RunningTraining:
    """Creates the parts of a training run: policies with their learners, rollout workers and dataflow.

    Args:
        env: The environment, or the multi-agent world.
        policies: The policies, with their algorithms and settings.
        seed: Root seed.
        announce: Callback for a message before a slow operation.
        update_executor: Backend of parameter updates.
        actions: Whether policies act greedily or sample their actions in evaluations.
        copied: Frozen opponents that a resumed run saved as copies, by the path of their checkpoint; other opponents
            are loaded from their paths.
        for_plan: Whether the dataflow is built only for printing; if so, no policies are created.
        output: Folder to which the collected steps are written as a data set; None to write none.
        hooks: Settings of each hook by its import path.

    Raises:
        UsageError: An algorithm does not support this env, or several algorithms cannot be combined.
    """
    _refuse_misfits(env, policies, for_plan=for_plan)
    if env.tensors is not None:
        load_internal(PARTS["check of tensors"])(env, policies, records=output is not None, hooks=hooks)
    if env.external is not None:
        env = load_internal(PARTS["logged actions"])(env, policies.algorithms)
    sampling, mapping = policies.sampling, policies.agent_mapping()
    world = (
        policies_in_world(env, mapping, policies.slots) if env.has_many_agents else placeholder(*policies.algorithms)
    )
    algorithms = _sampling_together(policies, world.slots)
    wanted = {policy: algorithms[policy].config.fragment_length for policy in policies.trained}
    length = sampling.rollout_fragment_length or min(wanted.values())
    making = _trainee_factories(env, policies, algorithms, world, seed, announce, update_executor)
    seats: Seats | None = None
    behaviors: dict[str, WorkerBehavior] = {}
    if not for_plan:
        if policies.seats:
            learners = {name: own.start_learner for name, own in making.items()}
            seats = load_internal(PARTS["seats"])(policies, world, learners, copied)
        behaviors |= {name: _collecting(own.start_learner().policy, update_executor) for name, own in making.items()}
        behaviors |= {} if seats is None else seats.behaviors()
    worker_hooks = load_internal(PARTS["hooks of workers"])(hooks) if hooks else ()
    served: ServedPolicies | None = None
    if sampling.is_served:
        serve = load_internal(PARTS["inference server"])
        served = serve(env, policies, behaviors, output, worker_hooks)
    lenders: dict[str, Lend] = {}
    worker = WorkerConfig(
        env=env,
        num_envs=sampling.num_envs_per_worker,
        fragment_length=length,
        seed=seed,
        behaviors=behaviors,
        rewards={
            **{policy: rewards_of(algorithm.config) for policy, algorithm in algorithms.items()},
            **dict.fromkeys(policies.seats, RewardSettings(gamma=1.0)),
        },
        mapping=mapping,
        slots=world.slots,
        num_workers=max(sampling.num_workers, 1),
        records=output is not None,
        hooks=worker_hooks,
        episodes_per_seed=max(algorithm.config.episodes_per_seed for algorithm in algorithms.values()),
        lenders=lenders,
    )
    if env.tensors is not None and not for_plan:
        worker = load_internal(PARTS["worker of tensors"])(worker, algorithms, making)
    workers = _workers(worker, policies, algorithms, served)
    trainees = {}
    for policy, own in making.items():
        joined = -(-wanted[policy] // length) * length if len(wanted) > 1 and policy in wanted else length
        trainees[policy] = own.trainee(policy, workers, _seed_of(policy, policies, seed), joined, lenders)
    branches, flow = _learning(policies, algorithms, trainees, length)
    if env.tensors is not None:
        load_internal(PARTS["dataflow of tensors"])(flow, env, policies)
    for trainee in trainees.values():
        _announce_compilation(algorithms[trainee.name].config, trainee, update_executor, announce)
    return RunningTraining(
        workers,
        branches,
        flow,
        announce=announce,
        env_slots=sampling.env_slots,
        actions=actions,
        execution=load_internal(PARTS["acting in kernels"]) if update_executor == "c" else None,
        agents=world.agents,
        curriculum=_curriculum(env),
        league=None if seats is None else seats.league(env, trainees, seed),
        output=_output(output, env, trainees),
        hooks=_trial_hooks(hooks, seed, announce),
    )


def _learning(
    policies: Policies, algorithms: Mapping[str, Algorithm[Any]], trainees: Mapping[str, Trainee], length: int
) -> tuple[dict[str, Branch], Flow[Any]]:
    """Builds the dataflow of each trainee, and the joint flow of all trainees."""
    found: tuple[dict[str, Branch], Flow[Any]]
    if len(policies.trained) == 1:
        (only,) = policies.trained
        flow = learning_alone(algorithms[only], trainees[only])
        return {policy: Branch(own, flow if policy == only else None) for policy, own in trainees.items()}, flow
    if policies.is_offline:
        found = load_internal(PARTS["learning in turn"])(algorithms, trainees, policies.trained)
    else:
        found = load_internal(PARTS["learning together"])(algorithms, trainees, policies.trained, length)
    return found


def _curriculum(env: EnvConfig) -> Curriculum | None:
    made: Curriculum | None = None if env.curriculum is None else load_internal(PARTS["curriculum"])(env.curriculum)
    return made


def _output(output: Path | None, env: EnvConfig, trainees: Mapping[str, Trainee]) -> RunOutput | None:
    made: RunOutput | None = None if output is None else load_internal(PARTS["output"])(output, env, trainees)
    return made


def _trial_hooks(
    hooks: Sequence[Mapping[str, Mapping[str, Any]]], seed: int, announce: Callable[[str], None]
) -> TrialHooks | None:
    made: TrialHooks | None = load_internal(PARTS["hooks of a trial"])(hooks, seed, announce) if hooks else None
    return made


def _collecting(policy: Policy, update_executor: UpdateExecutor) -> WorkerBehavior:
    """Creates the behavior with which workers collect experience; it uses C kernels if parameter updates do."""
    behavior = policy.behavior()
    if update_executor == "c":
        behavior.collector.collect_by(load_internal(PARTS["acting in kernels"]))
    return behavior


def _refuse_misfits(env: EnvConfig, policies: Policies, *, for_plan: bool) -> None:
    """Validates that each policy and algorithm supports the env's spaces and settings.

    Raises:
        UsageError: An algorithm or policy does not support them.
    """
    if not env.has_many_agents and (len(policies.acting) > 1 or policies.slots or policies.mapping):
        raise UsageError(
            f"env {env.id} has a single agent, so it needs exactly one policy; for a multi-agent world, write "
            "`env: {world: ...}` or `env: {pettingzoo: ...}`"
        )
    policies.check_input()
    for policy, algorithm in policies.algorithms.items():
        chooses_episodes = _worker_factory(algorithm) != ROLLOUT_WORKER
        if chooses_episodes and env.has_many_agents and env.varies:
            raise UsageError(
                f"policy {policy}: {algorithm.name()} generates its experience in a single game; leave out "
                "env.tasks and env.curriculum"
            )
        if chooses_episodes and env.external is not None:
            raise UsageError(
                f"{algorithm.name()} generates its own experience, so it does not work with an external env"
            )
        if chooses_episodes and env.curriculum is not None:
            raise UsageError("env.curriculum: this algorithm chooses its episodes itself; leave it out")
        # The printed plan does not depend on the env.
        if not for_plan and (lacks := missing_column(env.columns, algorithm.config.env_columns)):
            raise UsageError(f"env {env.id}: {lacks}")


def _trainee_factories(
    env: EnvConfig,
    policies: Policies,
    algorithms: Mapping[str, Algorithm[Any]],
    world: PoliciesInWorld,
    seed: int,
    announce: Callable[[str], None],
    update_executor: UpdateExecutor,
) -> dict[str, _TraineeFactory]:
    """Creates the trainee factories, one per policy."""
    cpus = {policy: _learner_cpus(algorithm.config) for policy, algorithm in algorithms.items()}
    return {
        policy: _TraineeFactory(
            algorithm,
            AlgorithmLearnerFactory(
                algorithm,
                world.spaces.get(policy, env),
                _seed_of(policy, policies, seed),
                update_executor,
                world.views.get(policy),
            ),
            announce,
            cpus_of_others=sum(cpus.values()) - cpus[policy],
        )
        for policy, algorithm in algorithms.items()
    }


def _workers(
    worker: WorkerConfig,
    policies: Policies,
    algorithms: Mapping[str, Algorithm[Any]],
    served: ServedPolicies | None,
) -> WorkerSet:
    """Creates the worker set: rollout workers, or the custom workers of the only policy's algorithm.

    Raises:
        UsageError: An algorithm with custom workers is combined with other policies.
    """
    if policies.is_offline:
        return _worker_set(worker, policies.sampling, NO_WORKER, policies.sampling.worker_timeout_s)
    for policy, algorithm in algorithms.items():
        factory = _worker_factory(algorithm)
        if factory == ROLLOUT_WORKER:
            continue
        if len(algorithms) > 1 or policies.seats:
            raise UsageError(
                f"policy {policy}: {algorithm.name()} generates experience for all agents of a world; leave "
                "out other policies and seats"
            )
        own = algorithm.worker_config(worker)
        return _worker_set(own, policies.sampling, factory, policies.sampling.worker_timeout_s)
    if worker.env.tensors is not None:
        return _worker_set(worker, policies.sampling, TENSOR_WORKER, policies.sampling.worker_timeout_s)
    timeout_s = policies.sampling.worker_timeout_s if worker.env.external is None else math.inf  # it waits for clients
    gpus = sum(algorithm.config.num_gpus for algorithm in algorithms.values() if algorithm.config.learns_on_workers)
    return _worker_set(worker, policies.sampling, ROLLOUT_WORKER, timeout_s, gpus, served)


def _worker_factory(algorithm: Algorithm[Any]) -> str:
    return NO_WORKER if learns_offline(algorithm.config) else algorithm.worker_factory


def _learner_cpus(config: AlgorithmConfig) -> float:
    """Returns the number of CPUs reserved for a policy's learner processes; 0 if the learner runs in this process."""
    return config.num_learners * config.cpus_per_learner


def _seed_of(policy: str, policies: Policies, seed: int) -> int:
    """Returns the root seed of a policy; if there are several, it depends on the policy's name."""
    return seed if len(policies.algorithms) == 1 else child_seed(seed, f"policy {policy}")


def _sampling_together(policies: Policies, slots: Mapping[str, int]) -> dict[str, Algorithm[Any]]:
    """Returns the algorithms with shared sampling settings; `num_envs_per_worker` counts each agent slot as an env."""
    algorithms = {}
    for policy, algorithm in policies.sampling_together().items():
        if slots[policy] > 1 and not policies.is_offline:
            env_slots = policies.sampling.num_envs_per_worker * slots[policy]
            algorithm = type(algorithm)(algorithm.config.replace(num_envs_per_worker=env_slots))
        algorithms[policy] = algorithm
    return algorithms


class _TraineeFactory:
    """Factory of one algorithm's trainee, with lazy creation of the learner."""

    def __init__(
        self,
        algorithm: Algorithm[Any],
        factory: AlgorithmLearnerFactory,
        announce: Callable[[str], None],
        *,
        cpus_of_others: float = 0.0,
    ) -> None:
        self.algorithm = algorithm
        self.factory = factory
        self.start_learner: Callable[[], Learner] = cache(partial(started_learner, factory, announce, cpus_of_others))

    def trainee(
        self, name: str, workers: WorkerSet, seed: int, fragment_length: int, lenders: dict[str, Lend]
    ) -> Trainee:
        """Creates the trainee, with its view of the workers and its clock of scheduled settings.

        If a worker runs in this process, the replay buffer adds itself to `lenders`, to lend the worker memory.
        """
        config, start_learner = self.algorithm.config, self.start_learner
        env = self.factory.env
        make_goals = partial(goal_env, env) if isinstance(env, EnvConfig) else None
        return Trainee(
            name=name,
            model=config.model,
            seed=seed,
            fragment_length=fragment_length,
            learner_factory=self.factory,
            start_learner=start_learner,
            get_spaces=lambda: self.factory.spaces,
            workers=PolicyWorkers(workers, name),
            clock=Clock(
                schedules_of(config),
                workers.counts,
                start_learner,
                clock_unit_of(self.algorithm),
                config.fixed_schedules(),
            ),
            make_replay=partial(
                _local_replay,
                workers.indices,
                seed,
                make_goals=make_goals,
                in_kernels=self.factory.update_executor == "c",
                offer=None if workers.num_workers else partial(lenders.setdefault, name),
            ),
            is_sparse=self.factory.world is not None,
            make_goals=make_goals,
            world=self.factory.world,
        )


def goal_env(env: EnvConfig) -> GoalFunctions:
    """Creates an env whose goal functions compute rewards for relabeled goals, in hindsight experience replay (HER)."""
    made: GoalFunctions = load_internal(PARTS["goals"])(env)
    return made


def _local_replay(
    workers: Sequence[int],
    seed: int,
    config: ReplayConfig,
    *,
    n_step: int,
    gamma: float,
    sequences: bool = False,
    make_goals: Callable[[], GoalFunctions] | None,
    in_kernels: bool,
    offer: Callable[[Lend], object] | None,
) -> LocalReplay:
    """Creates an empty replay in this process; see `ReplayFactory`."""
    make = load_internal(PARTS["replay"])
    made: LocalReplay = make(
        workers,
        seed,
        config,
        n_step=n_step,
        gamma=gamma,
        sequences=sequences,
        make_goals=make_goals,
        in_kernels=in_kernels,
        offer=offer,
    )
    return made


def rewards_of(config: AlgorithmConfig) -> RewardSettings:
    """Returns an algorithm's settings for processing rewards: discount factor, scale, clipping and normalization."""
    return RewardSettings(config.gamma, RewardScale(config.reward_scale, config.clip_rewards), config.normalize_rewards)


def _announce_compilation(
    config: AlgorithmConfig, trainee: Trainee, update_executor: UpdateExecutor, announce: Callable[[str], None]
) -> None:
    learns_elsewhere = config.num_learners or (config.num_workers and trainee.workers.learns_on_workers)
    if update_executor == "compiled" and learns_elsewhere:
        announce(COMPILED_ELSEWHERE)


def _worker_set(
    worker: Any,
    sampling: AlgorithmConfig,
    factory: str,
    timeout_s: float,
    num_gpus: float = 0.0,
    served: ServedPolicies | None = None,
) -> WorkerSet:
    """Creates a set of workers, whose processes start on first use and share GPUs equally."""
    return WorkerSet(
        worker,
        sampling.num_workers,
        num_cpus_per_worker=sampling.num_cpus_per_worker,
        num_gpus_per_worker=num_gpus / max(sampling.num_workers, 1),
        worker_timeout_s=timeout_s,
        max_worker_restarts=sampling.max_worker_restarts,
        factory=factory,
        min_share_of_fragments=sampling.min_share_of_fragments,
        served=served,
    )
