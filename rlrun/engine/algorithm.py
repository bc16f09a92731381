"""Plugin interface of algorithms: each defines settings, a policy, a loss and a dataflow."""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Self, TypeVar, Union, cast, get_args, get_origin

from typing_extensions import override

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.space_kinds import ActionKind
from rlrun.engine.flow.clock import ClockUnit
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.sources.rollouts import RolloutMode
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.worker import ROLLOUT_WORKER
from rlrun.engine.settings.config import ConfigModel
from rlrun.engine.settings.registry import BUILT_IN, load_internal

if TYPE_CHECKING:
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.rollout.worker_config import WorkerConfig
    from rlrun.engine.settings.metric import Metric
    from rlrun.engine.worlds.world_view import WorldView

__all__ = ["Algorithm", "AlgorithmConfig"]

C = TypeVar("C", bound=AlgorithmConfig)


class SettingsByName:
    """Descriptor that gives algorithm classes a `__signature__` in which each setting is a keyword parameter.

    A class that defines a constructor has the constructor's signature; a class without settings has its base's
    signature.
    """

    def __get__(self, instance: object, owner: type[Any]) -> Signature:
        constructor = owner.__init__
        parameters = inspect.signature(constructor).parameters
        config = getattr(owner, "Config", None)
        if config is None or "__init__" in vars(owner) or "config" not in parameters:
            return Signature([*parameters.values()][1:])
        first = parameters["config"].replace(annotation=config | None)
        return Signature([first, *settings_of(config)])


class Algorithm(Generic[C]):
    """Base class of algorithms: a subclass defines settings (`Config`), a loss and a dataflow.

    Instances are immutable, hold no state of a run, and are sent to learner processes.
    `rlrun.engine.training.training.Training` runs an algorithm.

    Args:
        config: Parsed settings; None to parse `settings`.
        others: Further positional arguments, which are not accepted; a policy and an env, as in other libraries, raise
            an error that shows the right usage.
        settings: Settings by name, as in a spec; omitted settings have their defaults.

    Attributes:
        Config: Config class of the settings.
        policy_family: Import path `package.module:Class` of the class of the algorithm's policies.
        worker_factory: Import path `package.module:Class` of the rollout worker; see
            `rlrun.engine.rollout.worker.Worker`.
        clock_unit: Unit of schedules and iterations: `env_steps`, or `sgd_steps` for training without env steps.
        learner_metrics: Statistics that the losses return, and gradient norms, reported as `learner/<name>`.
        acts_in: Kinds of action spaces that the algorithm supports.
        learns_in_worlds: Whether the algorithm supports multi-agent worlds.
        collect_settings: Names of the settings that only `collect` reads. They are rejected in runs with several
            policies, which share one stream of rollouts.
        config: Settings of the algorithm.

    Raises:
        SpecError: Settings are invalid; the error lists all mistakes.
        UsageError: `config` is not a config, or is combined with `settings`.
    """

    Config: ClassVar[type[AlgorithmConfig]]
    policy_family: ClassVar[str] = "rlrun.engine.policy.actor_critic:ActorCriticPolicy"
    worker_factory: ClassVar[str] = ROLLOUT_WORKER
    clock_unit: ClassVar[ClockUnit] = "env_steps"
    learner_metrics: ClassVar[tuple[Metric, ...]] = ()
    acts_in: ClassVar[tuple[ActionKind, ...]] = ("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Dict", "Tuple")
    learns_in_worlds: ClassVar[bool] = True
    collect_settings: ClassVar[tuple[str, ...]] = ()
    __signature__ = SettingsByName()

    def __init__(self, config: C | None = None, /, *others: Any, **settings: Any) -> None:
        if config is None and not others:
            config = cast("C", self.Config.parse(settings, path="config"))
        elif others or settings or not isinstance(config, AlgorithmConfig):
            name = type(self).__name__
            raise UsageError(
                f"{name} takes settings as keyword arguments: {name}(lr=1e-3), or {name}(**settings); to "
                f'train it, write rlrun.Training("CartPole-v1", {name}(lr=1e-3))'
            )
        self.config: C = config

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({repr(self.config).partition('(')[2]}"

    @property
    def operator_metrics(self) -> Sequence[Metric]:
        """Declarations of the metrics that the operators of the dataflow report; none by default."""
        return ()

    @property
    def has_target_network(self) -> bool:
        """Whether the learner keeps a target network, which the dataflow reads and updates."""
        return False

    @classmethod
    def name(cls) -> str:
        """Name of the algorithm in a spec: a short name, or the class's import path."""
        path = f"{cls.__module__}:{cls.__qualname__}"
        return next((name for name, built_in in BUILT_IN.items() if built_in == path), path)

    @classmethod
    def is_built_in(cls) -> bool:
        """Whether the algorithm is part of rlrun, rather than a user's own or an installed plugin."""
        return cls.name() in BUILT_IN

    def in_env(self, env: EnvConfig) -> Self:
        """Returns the algorithm with its settings adapted to the env; by default, the algorithm itself.

        Args:
            env: Config of the single-agent or multi-agent env.
        """
        return self

    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Creates the policy with its initial parameters; by default, an instance of the class `policy_family`.

        Args:
            spaces: Observation and action space.
            seed: Seed of the initial parameters.

        Raises:
            UsageError: The policy family has a different constructor signature.
        """
        return self.family_policy(spaces, seed)

    def family_policy(self, spaces: Spaces, seed: int, world: WorldView | None = None) -> Policy:
        """Creates a policy of the class `policy_family` from spaces, settings, seed and, optionally, env properties.

        Args:
            spaces: Observation and action space.
            seed: Seed of the initial parameters.
            world: Properties of a multi-agent env (state space, team size), for policies that need them.

        Raises:
            UsageError: The policy family has a different constructor signature.
        """
        family = load_internal(self.policy_family, "policy family")
        arguments: dict[str, Any] = {"spaces": spaces, "config": self.config, "seed": seed}
        if world is not None:
            arguments["world"] = world
        signature = inspect.signature(family)
        try:
            signature.bind(**arguments)
        except TypeError as error:
            names = ", ".join(arguments)
            raise UsageError(
                f"the policy family {self.policy_family} must accept ({names}), but it takes {signature} ({error}): "
                f"write def __init__(self, {names})"
            ) from None
        policy: Policy = family(**arguments)
        return policy

    def policy_in_world(self, spaces: Spaces, world: WorldView, seed: int) -> Policy:
        """Creates the policy for agents of a multi-agent env; by default, the same as for a single-agent env.

        Args:
            spaces: Observation and action space of the policy's agents.
            world: Properties of the env, such as state space and number of agents in a team.
            seed: Seed of the initial parameters.

        Raises:
            UsageError: The algorithm supports single-agent envs only.
        """
        if not self.learns_in_worlds:
            raise UsageError(f"{self.name()} needs a single-agent env, not a multi-agent world")
        return self.policy(spaces, seed)

    def loss(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Any]) -> Loss:
        """Computes the loss of a batch of experience, which the learner minimizes.

        The loss is traced once and then run as machine code, so it must not read Python state that changes between
        updates.

        Args:
            outputs: Outputs of the policy for the batch, or functions that run the policy's networks.
            batch: Columns [sequences, steps, ...]; invalid steps (`valid` 0) hold zeros and must be masked.
            scheduled: Current values of scheduled settings by name, each a scalar.

        Raises:
            UsageError: A subclass defines neither a loss nor objectives.
        """
        raise UsageError(
            f"{type(self).__name__} does not define a loss: write loss(self, outputs, batch, scheduled), or "
            "objectives(self, policy)"
        )

    def objectives(self, policy: Policy) -> list[Objective]:
        """Returns the losses that the learner minimizes, in order, each with its parameters and optimizer.

        By default, the only one is `loss`.
        """
        return [
            Objective(
                "loss",
                self.loss,
                adaptive_lr=self.config.adaptive_lr,
                parameters=policy.descended,
                max_grad_norm=self.config.max_grad_norm,
                clipped_separately=self.config.clipped_separately,
                is_main=True,
            )
        ]

    def picture(self, trainee: Trainee) -> str | None:
        """Returns an SVG picture of the learned policy or model for reports; None if the algorithm draws none.

        The picture is drawn after each iteration with an evaluation; drawing must not change any state.

        Args:
            trainee: Policy in training, with learner and workers.
        """
        return None

    def worker_config(self, config: WorkerConfig) -> Any:
        """Returns the config for the rollout workers, by default `config` unchanged.

        An algorithm with custom workers may return another dataclass, which must be picklable.

        Args:
            config: Config of the default worker, which steps envs with policies.
        """
        return config

    @property
    def mode(self) -> RolloutMode:
        """How rollouts are collected: in synchronous rounds over all workers (`sync`), or as they arrive (`async`)."""
        return "sync"

    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """Returns operators (functions) that workers apply to each fragment (rollout) before sending it.

        By default, there are no such operators.
        """
        return ()

    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Returns the stream of experience that the rollout workers collect, from which the algorithm learns.

        By default, each item holds one fragment (a rollout) from every worker, collected with the latest weights.
        """
        return trainee.workers.rollouts(*self.on_worker(trainee), mode=self.mode)

    def learn(self, items: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that learns from the stream of experience; iterating over it runs the training.

        Args:
            items: Stream of experience from `collect`.
            trainee: Policy in training, with learner, workers, filters and clock.

        Raises:
            UsageError: A subclass does not define this method.
        """
        raise UsageError(f"{type(self).__name__} does not define how it learns: write learn(self, items, trainee)")


def settings_of(config: type[ConfigModel]) -> list[Parameter]:
    """Returns a keyword-only parameter for each setting of a config class, with default and type (no constraints).

    Examples:
        >>> class Ladder(ConfigModel):
        ...     rungs: Annotated[int, "positive"] = 3
        ...     slope: float | None = None
        >>> str(Signature(settings_of(Ladder)))
        '(*, rungs: int = 3, slope: float | None = None)'
    """
    return [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.is_required() else field.get_default(call_default_factory=True),
            annotation=_plain_type(field.annotation),
        )
        for name, field in config.model_fields.items()
    ]


def _plain_type(annotation: Any) -> Any:
    """Returns a type without pydantic's constraints."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _plain_type(arguments[0])
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, map(_plain_type, arguments))
    if origin in (tuple, list, dict):
        return origin[tuple(map(_plain_type, arguments))]
    return annotation
