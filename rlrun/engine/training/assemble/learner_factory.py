"""Picklable functions that create learners, and the choice of the backend for parameter updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rlrun.engine.envs.make import spaces_of
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.messages.errors import CompilerMissing, UsageError
from rlrun.engine.settings.registry import load_internal
from rlrun.engine.training.assemble.plugin_results import objectives_of, require

if TYPE_CHECKING:
    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.learner.executors.update_executor import UpdateExecutor
    from rlrun.engine.learner.learner import AllReduceTensor, Learner
    from rlrun.engine.learner.local_learner import LocalLearner
    from rlrun.engine.learner.objective import Objective
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.worlds.world_view import WorldView

PARTS = {
    "compiler": "rlrun.engine.learner.executors.compilation:compiler",
    "curiosity": "rlrun.engine.training.assemble.reward_streams:with_curiosity",
    "kernels": "rlrun.engine.kernels.library:why_no_library_after",
    "limit of threads": "rlrun.engine.learner.device:limit_threads",
    "device": "rlrun.engine.learner.device:available_device",
    "learner": "rlrun.engine.learner.local_learner:LocalLearner",
    "learner group": "rlrun.engine.learner.data_parallel.learner_group:LearnerGroup",
    "objectives of curiosity": "rlrun.engine.training.assemble.reward_streams:objectives_of_curiosity",
    "policy": "rlrun.engine.policy.policy:Policy",
    "shared statistics": "rlrun.engine.nn.batch_norm:share_statistics",
    "users' losses": "rlrun.engine.learner.users_loss:checked",
}
"""Import paths of learners and their optional parts, which are imported if the settings need them."""

COMPILE_PAYS_FROM_SGD_STEPS = 20_000
"""Minimum number of SGD steps of a run for which `compile: auto` uses torch's compiler.

Compilation then pays off within the run, even with a cold cache.
"""

PLAIN: Mapping[UpdateExecutor, UpdateExecutor] = {"compiled": "eager", "c": "numpy", "cuda_graph": "eager"}
"""Executors without a compiler or a GPU, by the executor whose runs they can continue."""

COMPILED_ELSEWHERE = (
    "each learner process compiles the update, unless it was compiled for these settings before (about 20 s, "
    "or minutes for recurrent networks)"
)

CONTINUE_PLAINLY = "or continue without compilation (--eager; results will differ in the last digits)"


def silent(message: str) -> None:
    """Ignores a message; used as the callback of learners in other processes."""


def made_policy(algorithm: Algorithm[Any], spaces: Spaces, world: WorldView | None, seed: int) -> Policy:
    """Creates an algorithm's policy, with additional networks for intrinsic rewards if these are enabled.

    Args:
        algorithm: The algorithm.
        spaces: Observation and action space.
        world: Properties of the multi-agent env (state space, number of agents, ...); None for single-agent envs.
        seed: Seed of the initial parameters.

    Raises:
        UsageError: The algorithm does not return a policy, or the policy reads a setting that the config lacks.
    """
    kind = load_internal(PARTS["policy"])
    policy: Policy
    if world is None:
        policy = require(algorithm.policy(spaces, seed), kind, algorithm, "policy")
    else:
        policy = require(algorithm.policy_in_world(spaces, world, seed), kind, algorithm, "policy_in_world")
    if algorithm.config.value_heads:
        policy = load_internal(PARTS["curiosity"])(policy, algorithm, spaces, seed)
    config = type(algorithm.config)
    known = {*config.scheduled_fields(), *config.fixed_schedules()}
    if lacking := [name for name in policy.behavior().schedules if name not in known]:
        raise UsageError(
            f"{algorithm.name()}: its policy, a {type(policy).__name__}, uses the scheduled setting "
            f"{lacking[0]!r}, which {config.__qualname__} lacks: add a field `{lacking[0]}: Schedule` to it"
        )
    return policy


def all_objectives(algorithm: Algorithm[Any], policy: Policy) -> list[Objective]:
    """Returns the algorithm's losses with their optimizers, and the loss of networks for intrinsic rewards, if any."""
    own = [*objectives_of(algorithm, policy)]
    if algorithm.config.reward_streams.curiosity is not None:
        own += load_internal(PARTS["objectives of curiosity"])(algorithm.config)
    return own


@dataclass(frozen=True)
class AlgorithmLearnerFactory:
    """Creates learners for an algorithm; can be pickled, so that other processes create identical learners.

    Attributes:
        algorithm: The algorithm, which defines policy, objectives and settings.
        env: The environment whose spaces the policy is built for, or the spaces themselves.
        seed: Root seed of the trial.
        update_executor: Backend of parameter updates.
        world: Properties of the multi-agent env (state space, number of agents, ...); None for single-agent envs.
    """

    algorithm: Algorithm[Any]
    env: EnvConfig | Spaces
    seed: int
    update_executor: UpdateExecutor
    world: WorldView | None = None

    @cached_property
    def spaces(self) -> Spaces:
        """Observation and action space of the policy; read from a temporary env if only the env's config is known."""
        return self.env if isinstance(self.env, Spaces) else spaces_of(self.env)

    def policy(self) -> Policy:
        """Creates the policy, whose initial parameters are determined by the seed."""
        return made_policy(self.algorithm, self.spaces, self.world, child_seed(self.seed, "parameters"))

    def __call__(
        self,
        *,
        all_reduce: AllReduceTensor | None = None,
        share: tuple[int, int] = (0, 1),
        announce: Callable[[str], None] = silent,
    ) -> LocalLearner:
        """Creates a learner in its initial state.

        Args:
            all_reduce: Sums gradients over data-parallel learners; None for a single learner.
            share: (i, n) for data parallelism: the learner trains on part i (from 0) of n equal parts of a minibatch.
            announce: Callback with a message before a slow operation.
        """
        algorithm, config = self.algorithm, self.algorithm.config
        load_internal(PARTS["limit of threads"])(config.torch_threads)
        policy, update_executor = self.policy(), self.update_executor
        if all_reduce is not None and load_internal(PARTS["shared statistics"])(policy.module, all_reduce):
            update_executor = "eager"  # traced updates cannot wait for other processes
        objectives = all_objectives(algorithm, policy)
        if not algorithm.is_built_in():
            # Even a `SilentMessage` is shown, since users can change their own algorithms.
            announce, tell = lambda message: tell(str(message)), announce
            objectives = load_internal(PARTS["users' losses"])(
                objectives, type(algorithm), algorithm.learner_metrics, announce
            )
        learner: LocalLearner = load_internal(PARTS["learner"])(
            policy,
            objectives,
            device=load_internal(PARTS["device"])(config.num_gpus),
            update_executor=update_executor,
            runs_users_code=runs_users_code(algorithm),
            seed=child_seed(self.seed, "minibatches"),
            microbatch_size=config.microbatch_size,
            all_reduce=all_reduce,
            share=share,
            precision=config.precision,
            has_target=algorithm.has_target_network,
            announce=announce,
        )
        return learner


def started_learner(
    factory: AlgorithmLearnerFactory, announce: Callable[[str], None], cpus_of_others: float
) -> Learner:
    """Starts a run's learner in this process, or a data-parallel group of learner processes.

    Args:
        factory: Function that creates a learner.
        announce: Callback for a message before a slow operation.
        cpus_of_others: Number of CPUs needed for learner processes of other policies.
    """
    algorithm, config = factory.algorithm, factory.algorithm.config
    if config.learns_on_workers and config.num_workers and config.num_gpus:
        # The workers' learners have the GPUs; this learner only mirrors them.
        factory = replace(factory, algorithm=type(algorithm)(config.replace(num_gpus=0.0)))
    if not config.num_learners:
        return factory(announce=announce)
    load_internal(PARTS["limit of threads"])(config.torch_threads)
    policy = factory.policy()
    group: Learner = load_internal(PARTS["learner group"])(
        factory,
        config.num_learners,
        policy=policy,
        num_cpus_per_learner=config.cpus_per_learner,
        num_gpus_per_learner=config.gpus_per_learner,
        timeout_s=config.worker_timeout_s,
        cpus_of_others=cpus_of_others + config.num_workers * config.num_cpus_per_worker,
    )
    return group


def chosen_update_executor(
    algorithm: Algorithm[Any], total_env_steps: int | None, why_no_kernels: str | None = None
) -> UpdateExecutor:
    """Chooses the backend of parameter updates from the settings, the run's length and the available compilers.

    Args:
        algorithm: The algorithm with its settings.
        total_env_steps: Planned env steps of the run; None if unknown.
        why_no_kernels: Reason why the machines of the run cannot use C kernels; "" if they can, None to check this
            machine.

    Raises:
        CompilerMissing: The settings require compiled updates, but there is no compiler.
    """
    config = algorithm.config
    # If an algorithm fixes `compile` to false, compilers cannot translate its update, but a CUDA graph can capture it.
    is_refused = config.compile is False and "compile" in type(config).model_fields
    if config.num_gpus and not is_refused:
        return "cuda_graph"
    if config.compile is False:
        return "eager"
    is_demanded = config.compile != "auto"
    if may_have_kernels(algorithm):
        why_not = why_no_kernels_here() if why_no_kernels is None else why_no_kernels
        if why_not and is_demanded:
            raise CompilerMissing(f"config.compile is true, but {why_not}; fix this, or set config.compile: auto")
        return "numpy" if why_not else "c"
    compiler = load_internal(PARTS["compiler"])
    if is_demanded and compiler() is None:
        raise CompilerMissing(
            "config.compile is true, but this machine has no C++ compiler: install g++ or clang++, or set "
            "config.compile: auto"
        )
    sgd_steps = 0 if total_env_steps is None else total_env_steps * config.sgd_steps_per_env_step
    is_long = sgd_steps >= COMPILE_PAYS_FROM_SGD_STEPS and compiler() is not None
    return "compiled" if is_demanded or is_long else "eager"


def common_update_executor(
    algorithms: Iterable[Algorithm[Any]], total_env_steps: int | None, why_no_kernels: str | None = None
) -> UpdateExecutor:
    """Chooses one backend of parameter updates (C kernels, compiled code, ...) for all policies of a run.

    Args:
        algorithms: Algorithms of the policies.
        total_env_steps: Planned env steps of the run; None if unknown.
        why_no_kernels: Reason why the machines of the run cannot use C kernels; "" if they can, None to check this
            machine.

    Raises:
        CompilerMissing: The settings require compiled updates, but there is no compiler.
    """
    chosen = {chosen_update_executor(algorithm, total_env_steps, why_no_kernels) for algorithm in algorithms}
    if "compiled" in chosen and chosen <= {"c", "numpy", "compiled"}:
        return "compiled"
    return chosen.pop() if len(chosen) == 1 else "eager"


def why_no_kernels_here() -> str:
    """Returns the reason why this process cannot use the C kernels for its learner; "" if it can.

    On a machine's first run, the learner and torch are imported while the kernels are compiled.
    """
    why_not: str = load_internal(PARTS["kernels"])(meanwhile=lambda: load_internal(PARTS["learner"]))
    return why_not


def may_have_kernels(algorithm: Algorithm[Any]) -> bool:
    """Whether settings allow parameter updates by NumPy or C kernels, which need float32 on the CPU.

    Only tracing an update shows whether each of its operations has a kernel.
    """
    return algorithm.config.precision == "float32" and not algorithm.config.num_gpus


def runs_users_code(algorithm: Algorithm[Any]) -> bool:
    """Whether parameter updates run users' code: a custom algorithm, network or encoder."""
    model = algorithm.config.model
    named = [algorithm.name(), algorithm.policy_family, model.module or "", *model.encoders.values()]
    return any(":" in name and not name.startswith("rlrun.") for name in named)


def continued_executor(
    update_executor: UpdateExecutor, *, eager: bool = False, for_training: bool = True
) -> UpdateExecutor:
    """Returns the backend of parameter updates for a resumed run: the original one, if this machine supports it.

    Args:
        update_executor: The run's original backend.
        eager: Whether a run that started with compiled updates may continue with eager torch.
        for_training: Whether there will be updates. If not, evaluations use C kernels where available, as the run's own
            evaluations do.

    Raises:
        CompilerMissing: The backend needs a compiler, and there is none.
    """
    if update_executor == "c" and not for_training:
        eager = why_no_kernels_here() != ""
    if eager:
        update_executor = PLAIN.get(update_executor, update_executor)
    if update_executor == "compiled" and load_internal(PARTS["compiler"])() is None:
        why = "the updates of this run are compiled, but this machine has no C++ compiler"
        raise CompilerMissing(f"{why}: install g++ or clang++, {CONTINUE_PLAINLY}")
    if update_executor == "c" and (why_not := why_no_kernels_here()):
        why = f"the updates of this run are computed by C kernels, but {why_not}"
        raise CompilerMissing(f"{why}: fix this, {CONTINUE_PLAINLY}")
    return update_executor
