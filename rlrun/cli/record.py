"""``rlrun record CHECKPOINT|RUN``: a video of a saved policy, rendered headlessly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import OutputFile, actions_option, complete_trials, json_option, runs_dir_option, trust_option

if TYPE_CHECKING:
    from rlrun.engine.data.action_kind import ActionKind

# Maps each suffix to the modules needed to write such videos; the `video` extra installs them all.
WRITERS = {".mp4": ("imageio", "imageio_ffmpeg"), ".gif": ("imageio",)}


@click.command()
@click.argument("target", metavar="CHECKPOINT|RUN", shell_complete=complete_trials)
@click.option(
    "-o", "--output", type=OutputFile(), help="Video file to write (.mp4 or .gif).  [default: the run's name with .mp4]"
)
@click.option("--episodes", type=click.IntRange(min=1), default=1, show_default=True, help="Number of episodes.")
@click.option("--best", is_flag=True, help="Use the best checkpoint of the run instead of the newest.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed for the episodes.")
@actions_option
@runs_dir_option
@trust_option
@json_option("the file, frames and returns")
def record(
    target: str,
    output: Path | None,
    episodes: int,
    best: bool,
    seed: int,
    actions: ActionKind | None,
    runs_dir: Path,
    trust: bool,
) -> None:
    """Record a saved policy as a video.

    Give the directory of a CHECKPOINT, a RUN or a trial. For a run or a trial, its
    newest complete checkpoint is used.
    """
    from rlrun.cli.targets import checkpoint_named
    from rlrun.engine.checkpoint.format import verify_checkpoint

    output = output or Path(f"{Path(target).resolve().name}.mp4")
    _check_output(output)
    checkpoint = checkpoint_named(target, runs_dir, best=best)
    verify_checkpoint(checkpoint)
    request = {
        "checkpoint": str(checkpoint),
        "runs_dir": str(runs_dir),
        "episodes": episodes,
        "seed": seed,
        "actions": actions,
        "trust": trust,
    }
    partial = output.with_name(f".{output.stem}.partial-{os.getpid()}{output.suffix}")
    try:
        recorded = _recorded(request | {"output": str(partial)})
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)
    returns = ", ".join(f"{value:.1f}" for value in recorded["returns"])
    text = f"{output}: {recorded['frames']} frames, returns {returns}"
    print_result({"file": str(output), "frames": recorded["frames"], "returns": recorded["returns"]}, text)


def _recorded(request: dict[str, Any]) -> dict[str, Any]:
    """Records a video in a child process; returns the number of frames and the returns.

    A child process is used, since EGL rendering and an optimizer in one process can crash.
    """
    command = [sys.executable, "-m", "rlrun.cli.recording", json.dumps(request)]
    done = subprocess.run(command, env=os.environ | _without_display(), stdout=subprocess.PIPE, text=True)
    if done.returncode < 0:
        raise _crashed(-done.returncode)
    if done.returncode != 0:
        raise click.exceptions.Exit(done.returncode)  # the child has printed the error
    recorded: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return recorded


def _check_output(output: Path) -> None:
    """Raises an error for an unwritable output file, before anything is loaded."""
    from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError

    if output.suffix not in WRITERS:
        raise UsageError(f"{output}: the name of a video must end with .mp4 or .gif")
    absent = [module for module in WRITERS[output.suffix] if find_spec(module) is None]
    if absent:
        raise EnvironmentUnusable(
            f"writing {output.suffix} files needs {' and '.join(absent)}, which is not installed: pip install "
            "'rlrun[video]'"
        )


def _without_display() -> dict[str, str]:
    """Environment variables for headless rendering in MuJoCo and pygame, without those set by the user."""
    wanted = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    if sys.platform == "linux":
        wanted["MUJOCO_GL"] = "egl"
    return {name: value for name, value in wanted.items() if name not in os.environ}


def _crashed(signal_number: int) -> Exception:
    import signal

    from rlrun.engine.messages.errors import EnvironmentUnusable

    name = signal.Signals(signal_number).name
    return EnvironmentUnusable(f"rendering the env crashed ({name}); for MuJoCo envs, try MUJOCO_GL=osmesa")
