"""``rlrun demonstrate``: records demonstrations by a saved policy or a user's function."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import OutputFile, actions_option, complete_trials, json_option, runs_dir_option, trust_option

if TYPE_CHECKING:
    from rlrun.engine.data.action_kind import ActionKind


@click.command()
@click.argument("target", metavar="[CHECKPOINT|RUN]", required=False, shell_complete=complete_trials)
@click.option(
    "--policy",
    metavar="MODULE:FUNCTION",
    help="Function that maps an observation to an action, or a class whose instances do.",
)
@click.option("--env", help="Env for --policy; a saved policy acts in its own env.")
@click.option(
    "-o",
    "--output",
    type=OutputFile(or_folder=True),
    default="demonstrations.npz",
    show_default=True,
    help="Folder for a new data set, or an .npz file.",
)
@click.option("--episodes", type=click.IntRange(min=1), default=20, show_default=True, help="Number of episodes.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed for the episodes.")
@click.option("--best", is_flag=True, help="Use the best checkpoint of the run instead of the newest.")
@actions_option
@runs_dir_option
@trust_option
@json_option("the file, steps and returns")
def demonstrate(
    target: str | None,
    policy: str | None,
    env: str | None,
    output: Path,
    episodes: int,
    seed: int,
    best: bool,
    actions: ActionKind | None,
    runs_dir: Path,
    trust: bool,
) -> None:
    """Record demonstrations for algorithms that learn from them.

    The demonstrator is a CHECKPOINT, a RUN (its newest complete checkpoint), or your own function:
    `rlrun demonstrate --policy my_lab.driver:steer --env MountainCar-v0`.
    """
    from rlrun.engine.messages.errors import UsageError
    from rlrun.engine.rollout.demonstrating import demonstrate as recorded
    from rlrun.engine.rollout.demonstrating import demonstrate_to_set

    if (target is None) == (policy is None):
        raise UsageError("name either a CHECKPOINT or RUN, or a function with --policy")
    if (policy is None) != (env is None):
        raise UsageError("--env needs --policy; a saved policy always acts in its own env")
    with ExitStack() as opened:
        if policy is not None and env is not None:
            acts, world = _function(policy, env, seed)
        else:
            acts, world = _saved(str(target), runs_dir, opened, best=best, actions=actions, trust=trust)
        if world.has_many_agents:
            raise UsageError(f"demonstrations need a single-agent env, but {world.id} is a multi-agent world")
        if output.suffix == ".npz":
            demonstrations, returns = recorded(acts, world, episodes, seed)
            demonstrations.save(output)
            steps = demonstrations.num_steps
        else:
            steps, returns = demonstrate_to_set(output, acts, world, episodes, seed)
    print_result(
        {"file": str(output), "episodes": episodes, "steps": steps, "returns": list(returns)},
        f"{output}: {episodes} episode{'s' * (episodes > 1)}, {steps:,} steps, returns {min(returns):.1f} to "
        f"{max(returns):.1f}, mean {sum(returns) / episodes:.1f}",
    )


def _function(policy: str, env: str, seed: int) -> tuple[Any, Any]:
    """Imports the user's function, or class of functions, as a demonstrator, with its env."""
    from rlrun.cli.targets import env_written
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.messages.errors import UsageError
    from rlrun.engine.settings.registry import load_object
    from rlrun.experiments.spec.load import make_importable

    make_importable(Path.cwd())
    function = load_object(policy, "policy")
    if not callable(function):
        raise UsageError(f"policy '{policy}' must be a function, got {type(function).__name__}")
    world = EnvConfig.parse(env_written(env), path="--env")
    seeds, script = count(seed), function

    def acts(observation: Any, starts: bool, prev_reward: float) -> tuple[Any, None]:
        nonlocal script
        if starts and isinstance(function, type):  # one instance per episode, since it may keep state
            script = function(next(seeds))
        return script(observation), None

    return acts, world


def _saved(
    target: str, runs_dir: Path, opened: ExitStack, *, best: bool, actions: ActionKind | None, trust: bool
) -> tuple[Any, Any]:
    """Restores a saved policy as a demonstrator, with its env."""
    from rlrun.cli.targets import checkpoint_named, evaluation_env, restored

    checkpoint = checkpoint_named(target, runs_dir, best=best)
    training = opened.enter_context(restored(checkpoint, runs_dir, trust=trust))
    policy, kind = training.acting.policy(), actions or training.description.actions

    def acts(observation: Any, starts: bool, prev_reward: float) -> tuple[Any, float | None]:
        if kind == "sampled":
            return policy.sampled(observation, episode_start=starts, prev_reward=prev_reward)
        return policy.act(observation, kind, episode_start=starts, prev_reward=prev_reward), None

    return acts, evaluation_env(checkpoint, training)
