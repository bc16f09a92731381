"""Assembly of a training: trainees, workers and dataflow, for one or several policies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rlrun.engine.data.action_kind import DEFAULT_KIND, ActionKind
from rlrun.engine.envs.env_config import EnvConfig, missing_column
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.flow.clock import Clock
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.hook import worker_hooks
from rlrun.engine.league.frozen_policy import FrozenPolicy
from rlrun.engine.league.league import League
from rlrun.engine.league.league_settings import SeatSettings
from rlrun.engine.league.matches import Matches
from rlrun.engine.league.seat_behavior import SeatBehavior
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.local_replay import local_replay
from rlrun.engine.rollout.no_worker import NO_WORKER
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.worker import ROLLOUT_WORKER
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.rollout.worker_set import WorkerSet
from rlrun.engine.training.assemble.curriculum import Curriculum
from rlrun.engine.training.assemble.external_env import with_logged_actions
from rlrun.engine.training.assemble.joint_learning import learning_in_turn, learning_together
from rlrun.engine.training.assemble.learner_factory import COMPILED_ELSEWHERE, AlgorithmLearnerFactory, started_learner
from rlrun.engine.training.assemble.policies import Policies, clock_unit_of, learns_offline, schedules_of
from rlrun.engine.training.assemble.trial_hooks import TrialHooks
from rlrun.engine.training.results.run_output import RunOutput
from rlrun.engine.training.running_training import RunningTraining
from rlrun.engine.training.save.saved_opponents import SavedOpponent, read_opponent
from rlrun.engine.worlds.make import game_of, make_vector_world
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.world_view import WorldView

if TYPE_CHECKING:
    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.algorithm_config import AlgorithmConfig
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.learner.executors.update_executor import UpdateExecutor
    from rlrun.engine.learner.learner import Learner
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.replay.hindsight import GoalFunctions
    from rlrun.engine.rollout.worker_behavior import WorkerBehavior


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
    """Assembles a training: creates its trainees, rollout workers and dataflow.

    Args:
        env: The environment, or the multi-agent world.
        policies: The policies, with their algorithms and settings.
        seed: Root seed.
        announce: Callback with a message before a slow operation.
        update_executor: Executor of updates.
        actions: Kind of actions of the inference policies.
        copied: Frozen opponents copied into a saved run, by checkpoint path; other opponents are loaded from the seats'
            paths.
        for_plan: Whether the dataflow is only built for printing; only a world is then created, to read its spaces.
        output: Folder of the data set of the collected steps; None for none.
        hooks: Settings of each hook by its import path.

    Raises:
        UsageError: An algorithm does not support this env, or several algorithms cannot be combined.
    """
    _refuse_misfits(env, policies, for_plan=for_plan)
    env = with_logged_actions(env, policies.algorithms)
    sampling, mapping = policies.sampling, policies.agent_mapping()
    world = (
        policies_in_world(env, mapping, policies.slots) if env.has_many_agents else _placeholder(*policies.algorithms)
    )
    algorithms = _sampling_together(policies, world.slots)
    wanted = {policy: algorithms[policy].config.fragment_length for policy in policies.trained}
    length = sampling.rollout_fragment_length or min(wanted.values())
    making = _trainee_factories(env, policies, algorithms, world, seed, announce, update_executor)
    saved = {} if for_plan else _saved_opponents(policies.seats, world, copied)
    make_seats = {seat: partial(_seat, seat, policies, world, making, saved) for seat in policies.seats}
    behaviors: dict[str, WorkerBehavior] = {}
    if not for_plan:
        behaviors |= {name: _collecting(own.start_learner().policy, update_executor) for name, own in making.items()}
        behaviors |= {seat: make() for seat, make in make_seats.items()}
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
        hooks=worker_hooks(hooks),
    )
    workers = _workers(worker, policies, algorithms)
    trainees = {}
    for policy, own in making.items():
        joined = -(-wanted[policy] // length) * length if len(wanted) > 1 and policy in wanted else length
        trainees[policy] = own.trainee(policy, workers, _seed_of(policy, policies, seed), joined)
    if policies.is_offline:
        branches, flow = learning_in_turn(algorithms, trainees, policies.trained)
    else:
        branches, flow = learning_together(algorithms, trainees, policies.trained, length)
    for trainee in trainees.values():
        _announce_compilation(algorithms[trainee.name].config, trainee, update_executor, announce)
    return RunningTraining(
        workers,
        branches,
        flow,
        announce=announce,
        env_slots=sampling.env_slots,
        actions=actions,
        agents=world.agents,
        curriculum=None if env.curriculum is None else Curriculum(env.curriculum),
        league=_league(env, policies, trainees, make_seats, saved, seed) if policies.seats and not for_plan else None,
        output=None if output is None else RunOutput(output, env, trainees),
        hooks=TrialHooks(hooks, seed, announce) if hooks else None,
    )


def _collecting(policy: Policy, update_executor: UpdateExecutor) -> WorkerBehavior:
    """Creates the behavior by which workers collect experience: by C kernels where the updates run by them."""
    behavior = policy.behavior()
    if update_executor == "c":
        from rlrun.engine.policy.acting_network import in_kernels

        behavior.collector.collect_by(in_kernels)
    return behavior


def _refuse_misfits(env: EnvConfig, policies: Policies, *, for_plan: bool) -> None:
    """Validates that each policy and algorithm supports the env's spaces and settings.

    Raises:
        UsageError: An algorithm or policy does not support them.
    """
    if not env.has_many_agents and (len(policies.acting) > 1 or policies.slots or policies.mapping):
        raise UsageError(
            f"env {env.id} has one agent, and so one policy: say `env: {{world: ...}}` or `env: {{pettingzoo: ...}}` "
            "for a world of many agents"
        )
    policies.check_input()
    for policy, algorithm in policies.algorithms.items():
        chooses_episodes = _worker_factory(algorithm) != ROLLOUT_WORKER
        if chooses_episodes and env.has_many_agents and env.varies:
            raise UsageError(
                f"policy {policy}: {algorithm.name()} makes its experience by itself, in one game; leave out env.tasks "
                "and env.curriculum"
            )
        if chooses_episodes and env.external is not None:
            raise UsageError(f"{algorithm.name()} makes its experience by itself, and so not with an external env")
        if chooses_episodes and env.curriculum is not None:
            raise UsageError(
                "env.curriculum: this algorithm's workers begin the episodes that it chooses; leave it out"
            )
        # What is printed does not depend on the env.
        if not for_plan and (lacks := missing_column(env.columns, algorithm.config.env_columns)):
            raise UsageError(f"env {env.id}: {lacks}")


@dataclass(frozen=True)
class PoliciesInWorld:
    """Observation and action spaces, world views and agent slots of each policy, read from an env or a world.

    Attributes:
        spaces: Observation and action space of each policy's agents.
        views: Properties of the world by policy (state space, number of agents, clock, game); empty for single-agent
            envs.
        slots: Agent slots of each policy in one world.
        agents: Possible agents of a multi-agent world; empty for single-agent envs.
    """

    spaces: Mapping[str, Spaces]
    views: Mapping[str, WorldView]
    slots: Mapping[str, int]
    agents: tuple[str, ...]


def policies_in_world(env: EnvConfig, mapping: PolicyMapping, slots: Mapping[str, int]) -> PoliciesInWorld:
    """Instantiates one env or world, and reads the spaces, views and agent slots of its policies."""
    world = make_vector_world(env, env.fixed_num_envs or 1, EpisodeSeeds(0, 0), mapping, slots)
    try:
        game = game_of(env)
        views = {
            policy: WorldView(world.state_space, number, world.clock, game)
            for policy, number in world.slots.items()
            if env.has_many_agents
        }
        agents = tuple(world.possible_agents) if views else ()
        return PoliciesInWorld(dict(world.spaces), views, dict(world.slots), agents)
    finally:
        world.close()


def _placeholder(policy: str) -> PoliciesInWorld:
    """Placeholder for a single-agent env: one slot and no spaces, so that the env is created only on demand."""
    return PoliciesInWorld({}, {}, {policy: 1}, ())


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


def _workers(worker: WorkerConfig, policies: Policies, algorithms: Mapping[str, Algorithm[Any]]) -> WorkerSet:
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
                f"policy {policy}: {algorithm.name()} makes its experience by itself, for all agents of a world; leave "
                "out other policies and seats"
            )
        own = algorithm.worker_config(worker)
        return _worker_set(own, policies.sampling, factory, policies.sampling.worker_timeout_s)
    timeout_s = policies.sampling.worker_timeout_s if worker.env.external is None else math.inf  # it waits for clients
    return _worker_set(worker, policies.sampling, ROLLOUT_WORKER, timeout_s)


def _worker_factory(algorithm: Algorithm[Any]) -> str:
    return NO_WORKER if learns_offline(algorithm.config) else algorithm.worker_factory


def _saved_opponents(
    seats: Mapping[str, SeatSettings], world: PoliciesInWorld, copied: Mapping[str, SavedOpponent]
) -> dict[str, FrozenPolicy]:
    """Loads the frozen opponents that seats name by checkpoint path; returns them by path.

    Raises:
        CheckpointError: There is no such checkpoint, or it cannot be used.
        UsageError: A checkpoint lacks the policy, or the policy's spaces differ from those of the seat's agents.
    """
    found: dict[str, FrozenPolicy] = {}
    for seat, settings in seats.items():
        for path in settings.checkpoints:
            opponent = copied[path] if path in copied else read_opponent(path)
            try:
                found[path] = opponent.in_world(world.spaces[seat], world.views[seat])
            except UsageError as error:
                raise UsageError(f"seats.{seat}.checkpoints: {path} {error}") from error
    return found


def _seat(
    seat: str,
    policies: Policies,
    world: PoliciesInWorld,
    making: Mapping[str, _TraineeFactory],
    saved: Mapping[str, FrozenPolicy],
) -> SeatBehavior:
    """Creates a seat's behavior: the frozen policies (past selves and checkpoints) that can act there.

    Raises:
        UsageError: The policies whose past selves play there have other spaces, or different kinds of actions.
    """
    checkpoints = policies.seats[seat].checkpoints
    behaviors = {name: making[name].start_learner().policy.behavior() for name in policies.seats[seat].selves}
    for name in behaviors:
        if world.spaces[name] != world.spaces[seat]:
            raise UsageError(
                f"seats.{seat}: its agents have {world.spaces[seat]}, and selves of policy {name} act on "
                f"{world.spaces[name]}"
            )
    behaviors |= {path: saved[path].make() for path in checkpoints}
    first = next(iter(behaviors.values()))
    if any(type(behavior.action_space) is not type(first.action_space) for behavior in behaviors.values()):
        raise UsageError(f"seats.{seat}: {', '.join(behaviors)} have actions of different kinds")
    return SeatBehavior(behaviors, first.action_space)


def _league(
    env: EnvConfig,
    policies: Policies,
    trainees: Mapping[str, Trainee],
    make_seats: Mapping[str, Callable[[], SeatBehavior]],
    saved: Mapping[str, FrozenPolicy],
    seed: int,
) -> League:
    """Creates the league: opponent pool, ratings and matches of the learning policies."""
    return League(
        policies.league,
        policies.seats,
        {policy: trainees[policy] for policy in policies.trained},
        make_seats,
        Matches(env.in_evaluation(), policies.agent_mapping(), policies.seats),
        saved,
        child_seed(seed, "league"),
    )


def _learner_cpus(config: AlgorithmConfig) -> float:
    """Number of CPUs reserved for a policy's learner processes; 0 where the learner runs in this process."""
    return config.num_learners * config.cpus_per_learner


def _seed_of(policy: str, policies: Policies, seed: int) -> int:
    """Root seed of a policy: derived from its name where there are several, for different initial parameters."""
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

    def trainee(self, name: str, workers: WorkerSet, seed: int, fragment_length: int) -> Trainee:
        """Creates the trainee, with its view of the workers and its clock of scheduled settings."""
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
            make_replay=partial(local_replay, workers.indices, seed, make_goals=make_goals),
            is_sparse=self.factory.world is not None,
            make_goals=make_goals,
            world=self.factory.world,
        )


def goal_env(env: EnvConfig) -> GoalFunctions:
    """Creates an env instance on which goal functions are called; used in any process that relabels goals."""
    from rlrun.engine.envs.goal_env import GoalEnv

    return GoalEnv(env)


def rewards_of(config: AlgorithmConfig) -> RewardSettings:
    """Reward preprocessing settings of an algorithm: discount, clipping and normalization."""
    return RewardSettings(config.gamma, config.clip_rewards, config.normalize_rewards)


def _announce_compilation(
    config: AlgorithmConfig, trainee: Trainee, update_executor: UpdateExecutor, announce: Callable[[str], None]
) -> None:
    learns_elsewhere = config.num_learners or (config.num_workers and trainee.workers.learns_on_workers)
    if update_executor == "compiled" and learns_elsewhere:
        announce(COMPILED_ELSEWHERE)


def _worker_set(worker: Any, sampling: AlgorithmConfig, factory: str, timeout_s: float) -> WorkerSet:
    """Creates a set of workers, whose processes start on first use."""
    return WorkerSet(
        worker,
        sampling.num_workers,
        num_cpus_per_worker=sampling.num_cpus_per_worker,
        worker_timeout_s=timeout_s,
        max_worker_restarts=sampling.max_worker_restarts,
        factory=factory,
        min_share_of_fragments=sampling.min_share_of_fragments,
    )
