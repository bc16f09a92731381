"""The plugin contract: an algorithm is its settings, its formulas and its dataflow."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from rlrun.algorithm_config import AlgorithmConfig
from rlrun.data.sample_batch import SampleBatch
from rlrun.errors import UsageError
from rlrun.flow.clock import ClockUnit
from rlrun.flow.flow import Flow
from rlrun.flow.sources.rollouts import RolloutMode
from rlrun.flow.trainee import Trainee
from rlrun.learner.objective import Loss, Objective
from rlrun.registry import BUILT_IN, load_object
from rlrun.rollout.worker import ROLLOUT_WORKER

if TYPE_CHECKING:
    from rlrun.envs.spaces import Spaces
    from rlrun.metric import Metric
    from rlrun.policy.policy import Policy
    from rlrun.rollout.worker_config import WorkerConfig
    from rlrun.worlds.world_view import WorldView

__all__ = ["Algorithm", "AlgorithmConfig"]

C = TypeVar("C", bound=AlgorithmConfig)

POLICY_FAMILIES = {
    "actor": "rlrun.algorithms.evolution.actor_policy:ActorPolicy",
    "actor_critic": "rlrun.policy.actor_critic:ActorCriticPolicy",
    "q": "rlrun.algorithms.dqn.policy:QPolicy",
    "recurrent_q": "rlrun.algorithms.recurrent_q.policy:RecurrentQPolicy",
}
"""Import paths of the policy families that come with rlrun."""


class Algorithm(Generic[C]):
    """A plugin: subclasses give a config, a loss and a dataflow.

    It is a value: nothing of a run is kept in it, and it travels to the processes that learn. What runs is a
    `rlrun.training.training.Training`.

    Args:
        config: The settings, parsed; those of `settings` where it is None.
        former: Nothing; what a training was once written with is answered with how it is written now.
        settings: The settings by name, as a spec has them; those left out have their defaults.

    Raises:
        SpecError: With everything that is wrong in `settings`.
        UsageError: `config` is none, or there are both.

    Attributes:
        Config: The class of its settings.
        policy_family: Name of a built-in policy family, or `package.module:Class` of one's own.
        has_target_network: Whether the learner keeps a target network, which the dataflow reads and updates.
        worker_factory: `package.module:Class` of the worker that collects; see `rlrun.rollout.worker.Worker`.
        clock_unit: What schedules and iterations count: `env_steps`, or `sgd_steps` where no env is stepped.
        learner_metrics: The statistics that its losses return, and the gradients' norms, reported as `learner/<name>`.
        learns_in_worlds: Whether it learns in worlds of many agents too.
        collect_settings: Settings that only `collect` reads. Several policies of a world share one stream, and such
            settings are refused there.
        config: The settings.
    """

    Config: ClassVar[type[AlgorithmConfig]]
    policy_family: ClassVar[str] = "actor_critic"
    has_target_network: ClassVar[bool] = False
    worker_factory: ClassVar[str] = ROLLOUT_WORKER
    clock_unit: ClassVar[ClockUnit] = "env_steps"
    learner_metrics: ClassVar[tuple[Metric, ...]] = ()
    learns_in_worlds: ClassVar[bool] = True
    collect_settings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: C | None = None, /, *former: Any, **settings: Any) -> None:
        if config is None and not former:
            config = cast("C", self.Config.parse(settings, path="config"))
        elif former or settings or not isinstance(config, AlgorithmConfig):
            name = type(self).__name__
            raise UsageError(
                f"{name} takes its settings by name: {name}(lr=1e-3), or {name}(**settings); to train it, write "
                f'rlrun.Training("CartPole-v1", {name}(lr=1e-3))'
            )
        self.config: C = config

    @classmethod
    def name(cls) -> str:
        """The name by which a spec finds this class."""
        path = f"{cls.__module__}:{cls.__qualname__}"
        return next((name for name, built_in in BUILT_IN.items() if built_in == path), path)

    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Returns the policy as it is at the start of a run: the family's, of spaces, settings and seed.

        Args:
            spaces: Observation and action space.
            seed: Seed of the first parameters.

        Raises:
            UsageError: The family takes something else.
        """
        return self.family_policy(spaces, seed)

    def family_policy(self, spaces: Spaces, seed: int, world: WorldView | None = None) -> Policy:
        """Returns a policy of the family, made from `(spaces, config, seed)`, and from `world` where one is given.

        Args:
            spaces: Observation and action space.
            seed: Seed of the first parameters.
            world: What the world of its agents has to offer, for families that need it.

        Raises:
            UsageError: The family takes something else.
        """
        path = POLICY_FAMILIES.get(self.policy_family, self.policy_family)
        family = load_object(path, "policy family")
        arguments: dict[str, Any] = {"spaces": spaces, "config": self.config, "seed": seed}
        if world is not None:
            arguments["world"] = world
        signature = inspect.signature(family)
        try:
            signature.bind(**arguments)
        except TypeError as error:
            names = ", ".join(arguments)
            raise UsageError(
                f"the policy family {path} must be made from ({names}), and it takes {signature} ({error}): write "
                f"def __init__(self, {names})"
            ) from None
        policy: Policy = family(**arguments)
        return policy

    def policy_in_world(self, spaces: Spaces, world: WorldView, seed: int) -> Policy:
        """Returns the policy of agents of a world as it is at the start of a run; by default what `policy` returns.

        Args:
            spaces: Observation and action space of its agents.
            world: What there is besides: the world's state, and how many agents a team has.
            seed: Seed of the first parameters.

        Raises:
            UsageError: It learns in envs with one agent alone.
        """
        if not self.learns_in_worlds:
            raise UsageError(f"{self.name()} learns in an env with one agent, not in a world of many agents")
        return self.policy(spaces, seed)

    def loss(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Any]) -> Loss:
        """Loss on rows of experience, to be minimised.

        It may use all tensor methods, but no Python control flow that depends on tensors' values: it is compiled.

        Args:
            outputs: The policy's networks, or one pass of them over the rows.
            batch: Columns [S, L, ...]; empty steps (`valid` 0) hold zeros and must not count.
            scheduled: Settings that change over a run, each [].

        Raises:
            UsageError: A subclass gives neither a loss nor objectives.
        """
        raise UsageError(
            f"{type(self).__name__} does not say what it minimises: write loss(self, outputs, batch, scheduled), or "
            "objectives(self, policy)"
        )

    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives of the learner, in order; by default the one loss."""
        bound = self.config.max_grad_norm
        return [Objective("loss", self.loss, parameters=policy.descended, max_grad_norm=bound, is_main=True)]

    def picture(self, trainee: Trainee) -> str | None:
        """SVG of the learned policy or model for reports; None without one.

        It is drawn after each iteration with an evaluation, and must change no state.

        Args:
            trainee: The policy in training, with its learner and workers.
        """
        return None

    def worker_config(self, config: WorkerConfig) -> Any:
        """Config of the rollout workers; a custom worker may have a picklable dataclass of its own.

        Args:
            config: Config of the default worker, which steps envs with behavior policies.
        """
        return config

    @property
    def mode(self) -> RolloutMode:
        """Whether a round of fragments waits for all workers (`sync`) or fragments come as they are ready (`async`)."""
        return "sync"

    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """Returns the operators that each fragment passes on its worker, before it travels; none by default."""
        return ()

    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Returns the stream of experience: by default a fragment of every worker in turn, with the latest weights."""
        return trainee.workers.rollouts(*self.on_worker(trainee), mode=self.mode)

    def learn(self, items: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Returns the dataflow of learning; pulling it runs it, and what it delivers has no meaning of its own.

        Args:
            items: What `collect` returned.
            trainee: What is trained: learner, workers, filters and clock.

        Raises:
            UsageError: A subclass does not say it.
        """
        raise UsageError(f"{type(self).__name__} does not say how it learns: write learn(self, items, trainee)")
