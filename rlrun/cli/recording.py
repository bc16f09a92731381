"""Child process of ``rlrun record``: runs episodes and encodes the rendered frames as a video."""

from __future__ import annotations

import json
import math
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.exits import explained_errors
from rlrun.cli.tables import echo
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import gymnasium
    import numpy as np

    from rlrun.engine.data.action_kind import ActionKind
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.training.training import Training

GIF_MAX_FPS = 50  # frame durations are hundredths of a second; viewers slow down frames shorter than two
DEFAULT_FPS = 30


def record(
    checkpoint: Path,
    output: Path,
    runs_dir: Path,
    *,
    episodes: int,
    seed: int,
    actions: ActionKind | None,
    trust: bool,
) -> tuple[list[float], int]:
    """Runs episodes of a saved policy and records a video.

    Args:
        checkpoint: The checkpoint's directory.
        output: Path of the video, which ends in .mp4 or .gif.
        runs_dir: The folder that holds the user's own runs.
        episodes: Number of episodes.
        seed: Seed of the episodes; an evaluation with the same seed runs the same episodes.
        actions: Whether actions are greedy or sampled; None for the checkpoint's default.
        trust: Whether to import the code that the checkpoint names.

    Returns:
        The return of each episode, and the number of frames.
    """
    from rlrun.cli.targets import evaluation_env, restored
    from rlrun.engine.envs.make import make_env
    from rlrun.engine.envs.vector_env import close_or_warn

    with restored(checkpoint, runs_dir, trust=trust) as training:
        judged_in = evaluation_env(checkpoint, training)
        if judged_in.has_many_agents:
            return _record_world(training, judged_in, output, episodes, seed, actions)
        env = make_env(judged_in, render_mode="rgb_array", seed=seed)
        try:
            returns: list[float] = []
            with closing(_frames(training, judged_in, env, episodes, seed, actions, returns)) as frames:
                count = _write(output, frames, float(env.metadata.get("render_fps") or DEFAULT_FPS))
        finally:
            close_or_warn(env.close, judged_in.id, "after all episodes")
    return returns, count


def _record_world(
    training: Training, world: EnvConfig, output: Path, episodes: int, seed: int, actions: ActionKind | None
) -> tuple[list[float], int]:
    """Records episodes of a multi-agent world's policies; the return of an episode is the sum over all agents.

    Raises:
        UsageError: The world renders no images.
    """
    import numpy as np

    if world.pettingzoo is not None:
        world = world.replace(kwargs={**world.kwargs, "render_mode": "rgb_array"})
    drawn: list[np.ndarray[Any, Any]] = []

    def draw(picture: np.ndarray[Any, Any] | None) -> None:
        if not isinstance(picture, np.ndarray) or picture.ndim != 3:
            returned = "None" if picture is None else type(picture).__name__
            raise UsageError(
                f"world {world.id} cannot be recorded: its render() must return an image, an array [height, width, 3], "
                f"but it returned {returned}; if the world has a render_mode, train it with env: "
                "{evaluation_kwargs: {render_mode: rgb_array}}"
            )
        drawn.append(picture)

    result = training.acting.evaluate(episodes, seed=seed, actions=actions, env=world, draw=draw)
    return result.returns, _write(output, iter(drawn), DEFAULT_FPS)


def _frames(
    training: Training,
    config: EnvConfig,
    env: gymnasium.Env[Any, Any],
    episodes: int,
    seed: int,
    actions: ActionKind | None,
    returns: list[float],
) -> Generator[np.ndarray[Any, Any]]:
    """Yields the rendered frames of all episodes, initial states included, and appends each episode's return."""
    from rlrun.engine.training.act.played_episodes import played

    for step in played(training.acting.policy(), config, env, episodes, seed, actions=actions):
        yield _frame(env)
        if step.is_over:
            returns.append(step.total)


def _frame(env: gymnasium.Env[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    frame = env.render()
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        modes = ", ".join(env.metadata.get("render_modes", [])) or "none"
        raise EnvironmentUnusable(
            f"the env cannot be recorded: it needs the render mode rgb_array, but has only {modes}"
        )
    return frame


def _write(output: Path, frames: Iterator[np.ndarray[Any, Any]], fps: float) -> int:
    """Encodes frames as a video; returns the number of frames before subsampling for a GIF."""
    import imageio.v2 as imageio

    every = math.ceil(fps / GIF_MAX_FPS) if output.suffix == ".gif" else 1
    if output.suffix == ".gif":
        writer = imageio.get_writer(output, mode="I", duration=1000 * every / fps, loop=0)
    else:
        # Encoders need an even width and height; by default, imageio resizes every frame to multiples of 16.
        writer = imageio.get_writer(output, fps=fps, macro_block_size=2)
    count = 0
    with writer:
        for count, frame in enumerate(frames, start=1):
            if (count - 1) % every == 0:
                writer.append_data(frame)
    return count


@click.command()
@click.argument("request")
def main(request: str) -> None:
    """Reads a request in JSON from the parent process, records the video, and prints the episodes' returns as JSON."""
    with explained_errors():
        wanted = json.loads(request)
        checkpoint, output, runs_dir = (Path(wanted.pop(name)) for name in ("checkpoint", "output", "runs_dir"))
        returns, frames = record(checkpoint, output, runs_dir, **wanted)
        echo(json.dumps({"frames": frames, "returns": returns}))


if __name__ == "__main__":
    main(sys.argv[1:])
