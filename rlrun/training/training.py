"""Training: one policy in an env, or several in a world of many agents, as a running whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithm import Algorithm
from rlrun.checkpoint.format import Content, read_checkpoint, write_checkpoint
from rlrun.envs.env_config import EnvConfig
from rlrun.envs.env_watch import hangs_fail_after
from rlrun.envs.make import check_same_spaces, spaces_of
from rlrun.errors import CheckpointError, CompilerMissing, UsageError, did_you_mean
from rlrun.functional.seeding import child_seed
from rlrun.league.league import LEAGUE_METRICS
from rlrun.league.matches import SIDES, Matches, other_side
from rlrun.league.scripted_opponent import ScriptedPlayer
from rlrun.nn.network_spec import chosen_by_observation
from rlrun.nn.observation_leaves import described_leaves
from rlrun.policy.action_masks import policy_leaves
from rlrun.rollout.evaluation import ActsInWorld, EvaluationResult, evaluate
from rlrun.training.assembly import assemble, policies_in_world
from rlrun.training.checkpointing import (
    saved_policies,
    saved_training,
    section_state,
    trainee_tensors,
    update_executor_of,
)
from rlrun.training.learner_factory import chosen_update_executor, demand_compiler, made_policy, silent
from rlrun.training.metric_table import metric_table, refuse_undeclared, world_metric_table
from rlrun.training.policies import Policies, schedules_of
from rlrun.training.running_training import RunningTraining
from rlrun.training.saved_opponents import SavedOpponent, copied_opponents
from rlrun.worlds.make import spaces_of_policies

if TYPE_CHECKING:
    from rlrun.algorithm_config import AlgorithmConfig
    from rlrun.envs.spaces import Spaces
    from rlrun.flow.flow import Flow
    from rlrun.flow.trainee import Trainee
    from rlrun.league.ratings import Outcomes
    from rlrun.learner.update_executor import UpdateExecutor
    from rlrun.metric import Metric
    from rlrun.policy.behavior import BehaviorPolicy
    from rlrun.rollout.worker_set import WorkerSet
    from rlrun.training.acting import ActingPolicy


_ANY_ENV = EnvConfig(id="CartPole-v1")
"""An env of which nothing is made."""


class Training:
    """Steps, saves, restores and evaluates what is trained; as a context manager it leaves no process behind.

    Nothing is started before the first `step`, `act`, `evaluate` or `save`.

    Args:
        env: The environment, or the world of many agents.
        learns: The algorithm with its settings; or of a world the policies with theirs.
        seed: Root seed; every episode, worker and minibatch order draws from a child of it.
        total_env_steps: How long the run is meant to be, with all others that share its compiled update, if known:
            updates are compiled where that pays over so many env steps.
        announce: Called with a sentence when something is about to take long.

    Attributes:
        env: The environment, or the world of many agents.
        policies: What learns, and how.
        seed: Root seed.
        update_executor: How updates are computed; None before that is decided.
        env_slots_restarted: Env slots that a restored training could not bring back exactly.
        unsaved: What the checkpoint lacked that a restored training goes on from, so that its numbers differ.
        is_restored_in_part: Whether it was restored from an older format, of which env places, replay and dataflow are
            not read.
    """

    def __init__(
        self,
        env: EnvConfig,
        learns: Algorithm[Any] | Policies,
        *,
        seed: int = 0,
        total_env_steps: int | None = None,
        announce: Callable[[str], None] = silent,
    ) -> None:
        self.env = env
        self.policies = learns if isinstance(learns, Policies) else Policies.alone(learns)
        self.seed = seed
        self.update_executor: UpdateExecutor | None = None
        self.env_slots_restarted = 0
        self.is_restored_in_part = False
        self.unsaved: tuple[str, ...] = ()
        self._copied_opponents: Mapping[str, SavedOpponent] = {}
        self._total_env_steps = total_env_steps
        self._announce = announce
        self._running: RunningTraining | None = None
        self._declared: set[str] = set()  # names that results have held so far

    @property
    def algorithm(self) -> Algorithm[Any]:
        """The first policy's algorithm: the only one where an env has one agent."""
        return self.policies.first

    # What a user calls.

    def start(self) -> None:
        """Builds policy, learner and dataflow, unless that has been done; `step` does so by itself."""
        self._started()

    def step(self, since_last_s: float = 0.0) -> dict[str, Any]:
        """Runs one iteration and returns its result: flat, with the names of `metrics`.

        Args:
            since_last_s: Seconds that evaluation and saving took since the last iteration; they count into this one.

        Raises:
            TrainingFailed: An env, a plugin or a worker failed for good.
            UsageError: A part of the algorithm reports a metric that nobody declares.
        """
        running = self._started()
        with self._hangs_fail():
            result = running.step(self.policies.sampling.min_env_steps_per_iteration, since_last_s)
        if undeclared := result.keys() - self._declared:
            refuse_undeclared(undeclared, self.metrics(), self.policies)
            self._declared |= undeclared
        return result

    def act(
        self,
        observation: Any,
        explore: bool = False,
        *,
        episode_start: bool = False,
        prev_reward: float = 0.0,
        policy: str = "",
    ) -> Any:
        """Returns the action for one observation: the likeliest one, or with `explore` a drawn one.

        Args:
            observation: What the env shows.
            explore: Whether the action is drawn.
            episode_start: Whether an episode begins with it, which only policies with memory or views need to know.
            prev_reward: What the env gave for the action before, which only views show.
            policy: Which policy acts; "" for the first.
        """
        acting = self._acting(policy)
        return acting.act(observation, explore=explore, episode_start=episode_start, prev_reward=prev_reward)

    def act_from(
        self,
        memory: Mapping[str, Any] | None,
        observation: Any,
        explore: bool = False,
        *,
        prev_reward: float = 0.0,
        prev_action: Any = None,
        policy: str = "",
    ) -> tuple[Any, Mapping[str, Any]]:
        """Returns the action for one observation of an episode whose memory the caller keeps, and the memory behind it.

        Args:
            memory: What this returned for the observation before; None at an episode's start.
            observation: What the env shows.
            explore: Whether the action is drawn.
            prev_reward: What the env gave for the action before.
            prev_action: What the env was given, if that was not the action that this returned.
            policy: Which policy acts; "" for the first.
        """
        return self._acting(policy).act_from(
            memory, observation, explore=explore, prev_reward=prev_reward, prev_action=prev_action
        )

    def search(self, simulations: int) -> None:
        """Has all policies search before they act from now on, in evaluations and games too.

        Args:
            simulations: Simulations of each search; 0 for none.

        Raises:
            UsageError: A policy knows no game that it could search in.
        """
        for acting in self._started().acting.values():
            acting.search(simulations)

    def _acting(self, policy: str) -> ActingPolicy:
        """Returns what acts for a policy, or for the first one for ""."""
        acting = self._started().acting
        return acting[policy or next(iter(acting))]

    def evaluate(
        self,
        episodes: int = 20,
        *,
        seed: int = 0,
        explore: bool = False,
        env: EnvConfig | None = None,
        draw: Callable[[NDArray[Any] | None], None] | None = None,
    ) -> EvaluationResult:
        """Runs exactly so many episodes with the present weights and the saved normalisation.

        Args:
            episodes: How many; their seeds are fixed beforehand.
            seed: Seed of the episodes.
            explore: Whether actions are drawn instead of the likeliest ones.
            env: Another environment than the one trained on, with its `evaluation_kwargs`.
            draw: Called with a picture [height, width, 3] of the world at each of its steps, None where it has none;
                for worlds alone, whose episodes then run one after the other.

        Raises:
            UsageError: The policy does not fit that environment.
        """
        with self._hangs_fail():
            world = self.env.in_evaluation() if env is None else env
            acting = self._started().acting
            self.check_fits(world)
            behaviors: dict[str, ActsInWorld] = {
                **{policy: own.behavior() for policy, own in acting.items()},
                **self._started().seats(),
            }
            return evaluate(
                behaviors,
                world,
                episodes,
                seed,
                mapping=self.policies.agent_mapping(),
                slots=self.policies.slots,
                explore=explore,
                draw=draw,
            )

    def versus(
        self,
        opponent: Training | str,
        episodes: int = 20,
        *,
        seed: int = 0,
        explore: bool = False,
        policy: str = "",
        opponent_policy: str = "",
    ) -> dict[str, Outcomes]:
        """Returns how games against an opponent ended in this world, by the side that one's own policy played.

        Sides are `first` and `second`: those of the agents that the mapping tells apart. A policy plays those that the
        mapping gives it.

        Args:
            opponent: Another training, or package.module:Name of a scripted opponent.
            episodes: How many games, as many on each side; rounded up to an even number where there are two.
            seed: Seed of the games.
            explore: Whether policies draw their actions. In a world without chance two that do not play the same game
                again and again.
            policy: Which policy plays; "" for the first of each side that learns.
            opponent_policy: Which policy of the other training plays, likewise.

        Raises:
            UsageError: There is no such policy, the opponent's spaces differ, or the world does not have two sides.
        """
        matches = self._matches()
        pairs: dict[str, tuple[ActsInWorld, ActsInWorld]] = {}
        theirs = matches if isinstance(opponent, str) else opponent._matches()
        for side in SIDES:
            mine = self._playing(side, policy, matches)
            spaces = matches.spaces[other_side(side)]
            other: ActsInWorld | None
            if isinstance(opponent, str):
                example = np.asarray(spaces.action.sample())
                other = ScriptedPlayer(opponent, example.dtype, example.shape, child_seed(seed, "script"))
            else:
                other = opponent._playing(other_side(side), opponent_policy, theirs, spaces)
            if mine is not None and other is not None:
                pairs[side] = mine, other
        if not pairs:
            raise UsageError("both policies are of one side, and never meet")
        games = -(-episodes // len(pairs))
        return {
            side: matches.play(mine, other, games, seed, sides=(side,), explore=explore)[side]
            for side, (mine, other) in pairs.items()
        }

    def player(self, side: str, *, policy: str = "") -> BehaviorPolicy:
        """Returns what plays a side of this world, with the present weights.

        Args:
            side: `first` or `second`, as in `versus`.
            policy: Which policy plays; "" for the first of that side that learns.

        Raises:
            UsageError: There is no such policy, none plays that side, or the world does not have two sides.
        """
        found = self._playing(side, policy, self._matches())
        if found is None:
            raise UsageError(f"no policy that learns plays the {side} side of {self.env.id}")
        return found

    def _playing(self, side: str, policy: str, matches: Matches, spaces: Spaces | None = None) -> BehaviorPolicy | None:
        """Returns what plays a side: the policy that is named, or the first that learns there; None if there is none.

        Raises:
            UsageError: There is no policy of this name, or its spaces are others than `spaces`.
        """
        named = (policy,) if policy else self.policies.trained
        acting = next((self._acting_for(name) for name in named if side in matches.sides_of(name)), None)
        if policy and acting is None:
            self._acting_for(policy)  # raises where there is no such policy
        if acting is None:
            return None
        if spaces is not None and acting.trainee.spaces != spaces:
            raise UsageError(
                f"the policies cannot play one another: one has {acting.trainee.spaces}, and agents on that side have "
                f"{spaces}"
            )
        return acting.behavior()

    def check_sides(self) -> None:
        """Makes sure that there are two sides to play against one another.

        Raises:
            UsageError: The env has one agent, or its agents are not two sides.
        """
        self._matches()

    def _matches(self) -> Matches:
        """Returns what plays games in this world.

        Raises:
            UsageError: It is none, or does not have two sides.
        """
        world = self.env.in_evaluation()
        if not world.has_many_agents:
            raise UsageError(f"env {world.id} has one agent: only in a world of many can policies play one another")
        return Matches(world, self.policies.agent_mapping(), self.policies.seats)

    def _acting_for(self, policy: str) -> ActingPolicy:
        """Returns what acts for a policy.

        Raises:
            UsageError: There is no such policy.
        """
        acting = self._started().acting
        if policy not in acting:
            known = ", ".join(acting)
            raise UsageError(f"there is no policy {policy!r}{did_you_mean(policy, acting)}; there are {known}")
        return acting[policy]

    def check(self) -> None:
        """Makes the env and the policy once, and nothing else.

        Raises:
            UsageError: The algorithm cannot learn in this env.
            EnvironmentUnusable: The env cannot be made here.
            EnvError: The env's own code raised.
        """
        with self._hangs_fail():
            if not self.env.has_many_agents:
                made_policy(self.algorithm, spaces_of(self.env), None, self.seed)
                return
            mapping = self.policies.agent_mapping()
            world = policies_in_world(self.env, mapping, self.policies.slots)
            for policy, algorithm in self.policies.algorithms.items():
                made_policy(algorithm, world.spaces[policy], world.views[policy], self.seed)
            self.plan()  # refuses algorithms that cannot learn side by side

    def check_fits(self, env: EnvConfig) -> None:
        """Makes sure that the policies can be judged in another env than the one that they are trained in.

        Raises:
            UsageError: They do not fit it.
        """
        if env.has_many_agents and not self.env.has_many_agents:
            raise UsageError(f"env {env.id} is a world of many agents, and the policy was trained in {self.env.id}")
        if self.env.has_many_agents and not env.has_many_agents:
            raise UsageError(f"env {env.id} has one agent, and the policies were trained in the world {self.env.id}")
        if env == self.env:
            return
        with self._hangs_fail():
            if env.has_many_agents:
                mine = self._spaces() if self._running is None else self._running.spaces()
                others = self._spaces_in(env)
                for policy, spaces in others.items():
                    if spaces != mine[policy]:
                        raise UsageError(
                            f"env {env.id}: agents of policy {policy} have {spaces}, and it was trained with "
                            f"{mine[policy]}"
                        )
            elif not self.env.has_many_agents:
                check_same_spaces(env, self.env)

    def _spaces_in(self, world: EnvConfig) -> dict[str, Spaces]:
        found = spaces_of_policies(world, self.policies.agent_mapping())
        return {policy: found[policy] for policy in self.policies.algorithms}

    def _spaces(self) -> dict[str, Spaces]:
        """Returns each policy's spaces; makes an env, or a world, to ask it."""
        if self.env.has_many_agents:
            return self._spaces_in(self.env)
        return {policy: spaces_of(self.env) for policy in self.policies.algorithms}

    def plan(self) -> Flow[Any]:
        """Returns the dataflow for printing; it starts nothing and is not to be pulled."""
        return assemble(self.env, self.policies, self.seed, self._announce, update_executor="eager", for_plan=True).flow

    def metrics(self) -> list[Metric]:
        """Returns what results report, declared; like `plan` it starts nothing."""
        if not self.env.has_many_agents:
            return metric_table(self.algorithm, self.plan())
        # What an algorithm reports does not depend on its env, so that no world has to be made.
        algorithms = self.policies.sampling_together()
        learned = {
            policy: (algorithm, Training(_ANY_ENV, algorithm).plan()) for policy, algorithm in algorithms.items()
        }
        return [*world_metric_table(learned), *(LEAGUE_METRICS if self.policies.seats else ())]

    def pictures(self) -> dict[str, str]:
        """Returns by policy an SVG of what was learned so far, of those whose algorithms draw one."""
        algorithms = self.policies.algorithms
        drawn = {trainee.name: algorithms[trainee.name].picture(trainee) for trainee in self.trainees}
        return {name: picture for name, picture in drawn.items() if picture is not None}

    def describe_network(self) -> list[str]:
        """Returns in lines what the network's settings that are left to the observations come to, and how these enter.

        Like `plan` it starts nothing.

        Raises:
            UsageError: A part of an observation cannot enter a network.
            EnvironmentUnusable: The env cannot be made here.
        """
        spaces = self._spaces() if self._running is None else self._running.spaces()
        lines = []
        for policy, own in spaces.items():
            prefix = f"policy {policy}: " if self.env.has_many_agents else ""
            lines += [f"{prefix}{line}" for line in _described_network(self.policies.algorithms[policy].config, own)]
        return lines

    def close(self) -> None:
        """Ends the workers and learners; the next call would start everything anew."""
        if self._running is not None:
            with self._hangs_fail():
                self._running.close()
            self._running = None

    def go_on_as(self, successor: Training) -> None:
        """Ends, and starts another training in its place.

        Args:
            successor: Computes updates as this one did, and counts its iterations and seconds on.
        """
        iteration, time_total_s = self.iteration, self.time_total_s
        self.close()
        successor.update_executor = self.update_executor
        running = successor._started()
        running.iteration, running.time_total_s = iteration, time_total_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What runs.

    @property
    def iteration(self) -> int:
        """Iterations so far."""
        return 0 if self._running is None else self._running.iteration

    @property
    def time_total_s(self) -> float:
        """Seconds that they took."""
        return 0.0 if self._running is None else self._running.time_total_s

    @property
    def trainee(self) -> Trainee:
        """What is trained; everything is started for it if it has not been."""
        return self._started().trainee

    @property
    def trainees(self) -> list[Trainee]:
        """What is trained, in the order of the policies."""
        return self._started().trainees

    @property
    def workers(self) -> WorkerSet:
        """The rollout workers."""
        return self._started().workers

    @property
    def flow(self) -> Flow[Any]:
        """The running dataflow."""
        return self._started().flow

    def _started(self, *, for_training: bool = True) -> RunningTraining:
        """Builds policy, learner, workers and dataflow at the first call; for acting alone no worker starts."""
        if self._running is None:
            if self.update_executor is None:
                self.update_executor = self._chosen_update_executor()
            with self._hangs_fail():
                self._running = assemble(
                    self.env,
                    self.policies,
                    self.seed,
                    self._announce,
                    update_executor=self.update_executor,
                    copied=self._copied_opponents,
                )
                if for_training:
                    self._running.broadcast()
            for policy, spaces in self._running.spaces().items():
                if told := _nothing_to_normalize(self.policies.algorithms[policy].config, spaces):
                    self._announce(told)
        return self._running

    def _hangs_fail(self) -> AbstractContextManager[None]:
        """Has an env's own code that hangs in this process fail after `worker_timeout_s`."""
        return hangs_fail_after(self.policies.sampling.worker_timeout_s)

    def _chosen_update_executor(self) -> UpdateExecutor:
        """Returns how the updates of all policies are computed: the one that serves all of them."""
        chosen = {
            chosen_update_executor(algorithm.config, self._total_env_steps)
            for algorithm in self.policies.algorithms.values()
        }
        if chosen == {"numpy", "compiled"}:
            return "compiled"
        return chosen.pop() if len(chosen) == 1 else "eager"

    # Checkpoints.

    def save(self, path: Path | str) -> Path:
        """Writes a checkpoint and returns its directory; it is there whole or not at all."""
        spec = {**self.policies.to_data(), "env": self.env.to_data(), "seed": self.seed}
        return write_checkpoint(Path(path), self.content(spec))

    @classmethod
    def restore(
        cls,
        path: Path | str,
        *,
        trained_by: type[Algorithm[Any]] = Algorithm,
        trust: bool = False,
        eager: bool = False,
        for_training: bool = True,
        announce: Callable[[str], None] = silent,
    ) -> Self:
        """Returns the training that a checkpoint describes, where it left off.

        Args:
            path: The checkpoint's directory.
            trained_by: What its algorithm must be.
            trust: Whether it may ask for more than what is known to be harmless.
            eager: Whether a run that began with compiled updates may go on without.
            for_training: Whether it is to be trained on or saved; for acting alone no episode is replayed.
            announce: Called with a sentence when something is about to take long.

        Raises:
            CheckpointCorrupt: A file of it is missing, truncated or altered.
            CheckpointRefused: It asks for more, and `trust` is False.
            CheckpointError: It is not a checkpoint of a training, or of another algorithm.
            CompilerMissing: It began with compiled updates, there is no compiler here, and `eager` is False.
        """
        content = read_checkpoint(Path(path))
        saved = saved_training(content, path, trust=trust)
        if not all(isinstance(algorithm, trained_by) for algorithm in saved.policies.algorithms.values()):
            found = saved.policies.title if len(saved.policies.algorithms) > 1 else type(saved.policies.first).__name__
            raise CheckpointError(f"{path}: a checkpoint of {found}, not of {trained_by.__name__}")
        training = cls(saved.env, saved.policies, seed=saved.seed, announce=announce)
        try:
            training.load(content, eager=eager, for_training=for_training)
        except BaseException as error:
            training.close()
            if isinstance(error, UsageError) and not isinstance(error, CompilerMissing):
                raise CheckpointError(f"{path}: its spec cannot be used here: {error}") from error
            if isinstance(error, CheckpointError):
                raise CheckpointError(f"{path}: {error}") from error
            raise
        return training

    def content(self, spec: dict[str, Any]) -> Content:
        """Returns everything that a checkpoint of this moment holds.

        Args:
            spec: What the checkpoint says of how it was made; at least `env`, `seed`, `config`, and `algorithm` or
                `policies`.
        """
        running = self._started()
        trainee = running.trainee
        return Content(
            manifest={
                "algorithm": self.policies.title,
                "observation_space": str(trainee.spaces.observation),
                "action_space": str(trainee.spaces.action),
                **self._spaces_in_words(),
                "update_executor": self.update_executor,
                "iteration": running.iteration,
                "env_steps": running.workers.counts.env_steps,
                "sgd_steps": sum(own.learner.sgd_steps for own in running.trainees),
            },
            spec=spec,
            tensors={stem: named for own in running.trainees for stem, named in trainee_tensors(own).items()},
            state=running.sections(),
        )

    def _spaces_in_words(self) -> dict[str, Any]:
        """Returns what a manifest says of the spaces of each policy of a world."""
        if not self.env.has_many_agents:
            return {}
        spaces = self._started().spaces()
        return {
            "policies": {
                policy: {"observation_space": str(own.observation), "action_space": str(own.action)}
                for policy, own in spaces.items()
            }
        }

    def load(self, content: Content, *, eager: bool = False, for_training: bool = True) -> None:
        """Goes on where a checkpoint left off.

        Of a checkpoint in version 1 of the format the places of the envs, the replay and the dataflow are left out.
        Policies of a world that the checkpoint lacks, or that learned by another algorithm, begin anew.

        Args:
            content: What `content` returned.
            eager: Whether a run that began with compiled updates may go on without.
            for_training: Whether it is to be trained on or saved.

        Raises:
            CompilerMissing: It began with compiled updates, there is no compiler here, and `eager` is False.
            CheckpointError: It does not fit this env or network.
        """
        if "league" in content.state:
            self._copied_opponents = copied_opponents(section_state(content.state, "league"))
        began_with = update_executor_of(content.manifest)
        self.update_executor = "eager" if began_with == "compiled" and eager else began_with
        if self.update_executor == "compiled":
            demand_compiler()
        with self._hangs_fail():
            new = self._new_policies_since(content.spec)
            running = self._started(for_training=for_training)
            self.env_slots_restarted = running.load(content, new, for_training=for_training)
        self.is_restored_in_part = content.format_version == 1
        self.unsaved = self._started().unsaved

    def _new_policies_since(self, spec: Mapping[str, Any]) -> frozenset[str] | None:
        """Returns the policies that a checkpoint with this spec lacks, or that learned by another algorithm.

        None means that nothing differs, neither policies nor the agents that they act for.
        """
        if self.policies.is_alone and not spec.get("policies"):
            return None
        try:
            before, now = saved_policies(spec), self.policies
        except (KeyError, TypeError, AttributeError, UsageError) as error:
            raise CheckpointError(f"the checkpoint's policies cannot be read: {error}") from error
        kinds = {policy: type(algorithm) for policy, algorithm in before.algorithms.items()}
        new = {policy for policy, algorithm in now.algorithms.items() if kinds.get(policy) is not type(algorithm)}
        same_roles = before.roles == now.roles
        if not new and same_roles and list(kinds) == list(now.algorithms):
            return None
        return frozenset(new)

    def load_weights(self, content: Content) -> None:
        """Loads only the policy and its filters, to start another run from them.

        Raises:
            CheckpointError: It does not fit this env or network.
        """
        self._started().load_weights(content)

    def adopt(self, content: Content) -> None:
        """Adopts what another run of the algorithm has learned: weights, optimizer, filters, counters, returns.

        Its own envs and draws go on where they are, and its iterations and seconds are counted on.

        Args:
            content: A checkpoint of the other run.

        Raises:
            CheckpointError: It does not fit this env or network.
        """
        self._started().adopt(content)

    def reconfigure(self, learns: AlgorithmConfig | Policies) -> bool:
        """Goes on with new settings, if they differ from the present ones only where that is possible.

        Args:
            learns: The new settings of the algorithm; or of a world the policies with theirs.

        Returns:
            Whether it does: only `scheduled_fields` can change in place, anything else needs a new training.
        """
        policies = learns if isinstance(learns, Policies) else Policies.alone(type(self.algorithm)(learns))
        if not self.policies.differ_in_schedules_alone(policies):
            return False
        self.policies = policies
        if self._running is not None:
            for trainee in self._running.trainees:
                trainee.clock.schedules = schedules_of(policies.algorithms[trainee.name].config)
        return True


def _described_network(config: AlgorithmConfig, spaces: Spaces) -> list[str]:
    """Returns in lines what a policy's network comes to for its spaces; none of a policy without one."""
    if "model" in config.refused:
        return []
    if config.model.module is not None:
        return [f"observations: as they are, to {config.model.module}"]
    leaves = policy_leaves(*spaces, config.model, normalize_observations=config.normalize_observations)
    found = chosen_by_observation(config.model, leaves).items()
    chosen = [f"{name} {value}" for name, value in found if config.learns_values or name != "shared_value"]
    parts = [f"observations{f' {path}' if path else ''}: {how}" for path, how in described_leaves(leaves)]
    told = _nothing_to_normalize(config, spaces)
    return ([f"model: {', '.join(chosen)}"] if chosen else []) + parts + ([told] if told else [])


def _nothing_to_normalize(config: AlgorithmConfig, spaces: Spaces) -> str:
    """Returns what is to be said where `normalize_observations` has no effect, "" where it has one."""
    if "model" in config.refused or config.model.module is not None or not config.normalize_observations:
        return ""
    described = described_leaves(policy_leaves(*spaces, config.model, normalize_observations=True))
    if described != described_leaves(policy_leaves(*spaces, config.model, normalize_observations=False)):
        return ""
    return (
        "normalize_observations: there is nothing to normalise, since no part of an observation enters as a vector of "
        "numbers; where one should, set its encode_as: vector under model.observations"
    )
