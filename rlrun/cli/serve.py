"""``rlrun serve CHECKPOINT|RUN``: a saved policy over HTTP."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.options import actions_option, complete_trials, runs_dir_option, trust_option
from rlrun.cli.tables import counted, echo
from rlrun.engine.messages.errors import RlrunError, SpecError, UsageError

if TYPE_CHECKING:
    from rlrun.deploy.serving.policy_app import PolicyApp
    from rlrun.deploy.serving.served_policy import ServedPolicy
    from rlrun.engine.data.action_kind import ActionKind
    from rlrun.engine.web.listening import Listening


_SECONDS = click.FloatRange(min=0, min_open=True)


@click.command()
@click.argument("target", metavar="CHECKPOINT|RUN", shell_complete=complete_trials)
@click.option("--best", is_flag=True, help="Use the best checkpoint of the run instead of the newest.")
@click.option(
    "--policy", "name", default="", help="Name of the policy to serve from a multi-agent world; default: the first."
)
@actions_option
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed for sampled actions."
)
@click.option(
    "--simulations", type=click.IntRange(min=0), help="Number of search simulations per action; 0 for no search."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Network interface to listen on; any but the default requires a token.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 chooses a free one."
)
@click.option(
    "--token-file", type=click.Path(), help="File with the token required in requests; default: $RLRUN_TOKEN."
)
@click.option("--cert", type=click.Path(), help="File with a TLS certificate (PEM).")
@click.option("--key", type=click.Path(), help="File with the certificate's private key (PEM).")
@click.option(
    "--reload-s",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Seconds between checks for a newer checkpoint.",
)
@click.option(
    "--sessions", type=click.IntRange(min=1), default=1_000, show_default=True, help="Maximum number of open sessions."
)
@click.option(
    "--session-s",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds of inactivity after which a session ends.",
)
@runs_dir_option
@trust_option
def serve(
    target: str,
    best: bool,
    name: str,
    actions: ActionKind | None,
    seed: int,
    simulations: int | None,
    host: str,
    port: int,
    token_file: str | None,
    cert: str | None,
    key: str | None,
    reload_s: float,
    sessions: int,
    session_s: float,
    runs_dir: Path,
    trust: bool,
) -> None:
    """Serve the actions of a saved policy over HTTP.

    Give the directory of a CHECKPOINT, a RUN or a trial. For a run or a trial, its
    newest complete checkpoint is used, and the server switches to newer ones as they
    are written. Observations and actions are JSON, in the env's units: POST /act, or POST /session for
    policies with memory. Other paths: /schema, /health, /metrics, and / with a page
    for trying out observations.

    Only this machine can reach the server, unless --host names another interface.
    Each request must then carry a token: `Authorization: Bearer TOKEN`.
    """
    from rlrun.cli.targets import checkpoint_named, existing
    from rlrun.engine.web.listening import Listening, read_token, require_web_packages

    require_web_packages()
    listening = Listening(port, host, read_token(token_file), cert, key)
    find = partial(checkpoint_named, target, runs_dir, best=best)
    load = partial(
        load_in_subprocess,
        find=find,
        runs_dir=runs_dir,
        trust=trust,
        name=name,
        simulations=simulations,
        actions=actions,
    )
    checkpoint = find()

    from rlrun.deploy.serving.decisions import Decisions, Sessions
    from rlrun.deploy.serving.policy_app import PolicyApp
    from rlrun.deploy.serving.reloading import Reloader
    from rlrun.engine.functional.seeding import generator

    served = load(checkpoint)
    decisions = Decisions(served, generator(seed, "serve") if served.actions == "sampled" else None)
    app = PolicyApp(decisions, Sessions(sessions, session_s))
    reloader = Reloader(checkpoint.parent, find, load, decisions, app.metrics, partial(echo, err=True))
    is_fixed = existing(target, runs_dir) == checkpoint
    _serve(
        app, listening, checkpoint.parent / served.checkpoint, None if is_fixed else partial(reloader.running, reload_s)
    )


def _serve(
    app: PolicyApp,
    listening: Listening,
    checkpoint: Path,
    reloading: Callable[[], AbstractContextManager[None]] | None,
) -> None:
    """Serves until the process is interrupted."""
    from rlrun.engine.web.web_server import WebServer

    server, served = WebServer(app.asgi(listening), listening), app.decisions.served
    if listening.warning:
        echo(f"Warning: {listening.warning}", err=True)
    policy = f"policy {served.name} of " if len(served.policies) > 1 else ""
    echo(f"{server.url} serves {policy}{checkpoint} at {served.env_steps:,} env steps; press Ctrl-C to stop")
    try:
        with closing(app), server, nullcontext() if reloading is None else reloading():
            server.wait()
    except KeyboardInterrupt:  # the usual end of a server
        echo(f"\nserved {counted(app.metrics.decisions, 'decision')}", err=True)


def load_in_subprocess(
    checkpoint: Path,
    *,
    find: Callable[[], Path],
    runs_dir: Path,
    trust: bool,
    name: str,
    simulations: int | None,
    actions: ActionKind | None,
) -> ServedPolicy:
    """Loads a policy in a separate, short-lived process, so that the server needs neither torch nor a `Training`.

    A reload thus slows down the current policy's answers only by the CPU time that it takes. If the run removes the
    checkpoint before the process has read it, the next checkpoint is loaded.

    Raises:
        RlrunError: The checkpoint cannot be used, or there is no such policy.
    """
    with ProcessPoolExecutor(1, get_context("spawn"), _ignore_interrupts) as process:
        try:
            return process.submit(load_next, checkpoint, find, runs_dir, trust, name, simulations, actions).result()
        except BrokenProcessPool:
            raise RlrunError(f"{checkpoint}: the process that was loading it ended without a message") from None


def load_next(checkpoint: Path, find: Callable[[], Path], *policy: Any) -> ServedPolicy:
    """Loads a policy from a checkpoint, or from a newer checkpoint if the run has removed it in the meantime.

    Raises:
        RlrunError: The checkpoint cannot be used, or there is no such policy.
    """
    from rlrun.cli.targets import read_next

    return read_next(checkpoint, find, lambda found: load_policy(found, *policy))


def load_policy(
    checkpoint: Path,
    runs_dir: Path,
    trust: bool,
    name: str,
    simulations: int | None,
    actions: ActionKind | None = None,
) -> ServedPolicy:
    """Restores a checkpoint, and extracts a policy from it.

    Raises:
        RlrunError: The checkpoint cannot be used, or there is no such policy.
    """
    from rlrun.cli.targets import restored
    from rlrun.deploy.serving.served_policy import ServedPolicy

    try:
        with restored(checkpoint, runs_dir, trust=trust) as training:
            return ServedPolicy.of(training, checkpoint, name, simulations, actions)
    except SpecError as error:  # a SpecError cannot be pickled
        raise UsageError(str(error)) from None


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server handles Ctrl-C
