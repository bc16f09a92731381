"""``rlrun export CHECKPOINT|RUN``: a saved policy as an ONNX file or a C file."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import OutputFile, actions_option, complete_trials, json_option, runs_dir_option, trust_option
from rlrun.cli.tables import counted

if TYPE_CHECKING:
    from rlrun.deploy.export.saved_policy import Export, Format
    from rlrun.engine.data.action_kind import ActionKind
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.training.training import Training


@click.command()
@click.argument("target", metavar="CHECKPOINT|RUN", shell_complete=complete_trials)
@click.option("-o", "--output", type=OutputFile(), required=True, help="File to write, such as policy.onnx.")
@click.option("--best", is_flag=True, help="Use the best checkpoint of the run instead of the newest.")
@click.option("--policy", default="", metavar="NAME", help="Policy to export if there are several; default: the first.")
@click.option("--to", type=click.Choice(["onnx", "c"]), default="onnx", show_default=True, help="File format.")
@actions_option
@click.option(
    "--data", metavar="SET", type=click.Path(), help="Compare on observations from this data set instead of the env."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed for the comparison."
)
@runs_dir_option
@trust_option
@json_option("the export")
def export(
    target: str,
    output: Path,
    best: bool,
    policy: str,
    to: Format,
    actions: ActionKind | None,
    data: str | None,
    seed: int,
    runs_dir: Path,
    trust: bool,
) -> None:
    """Write a saved policy as a file for other programs.

    The file maps an env's observations to its actions, including normalization,
    stacked observations, action masks, memory and scaling. Before it is written,
    its actions are compared with the policy's on 1,000 observations. A file for
    sampled actions takes noise as an additional input.
    Give the directory of a CHECKPOINT, a RUN or a trial. For a run or a trial, its
    newest complete checkpoint is used.
    """
    from rlrun.cli.targets import checkpoint_named, evaluation_env, read_next, restored
    from rlrun.deploy.export.saved_policy import export as exported
    from rlrun.deploy.export.saved_policy import metadata_of
    from rlrun.engine.checkpoint.durable import write_file

    _check_suffix(output, to)
    find = partial(checkpoint_named, target, runs_dir, best=best)
    with ExitStack() as stack:

        def read(checkpoint: Path) -> tuple[Training, ActionKind, dict[str, str], EnvConfig]:
            training = stack.enter_context(restored(checkpoint, runs_dir, trust=trust))
            kind = actions or training.description.actions
            metadata = metadata_of(training, policy, checkpoint, kind)
            return training, kind, metadata, evaluation_env(checkpoint, training)

        training, kind, metadata, env = read_next(find(), find, read)
        found = exported(
            training,
            policy,
            lambda: _stream(training, policy, env, data, seed),
            metadata,
            to=to,
            actions=kind,
            seed=seed,
        )
    write_file(output, found.content)
    print_result(_document(output, found, metadata), _text(output, found))


def _check_suffix(output: Path, to: Format) -> None:
    """Raises an error if the output file has the suffix of another file type, before any work is done."""
    if output.suffix == f".{to}":
        return
    other = next((kind for kind in ("onnx", "c") if output.suffix == f".{kind}"), None)
    advice = f"use --to {other}" if other else f"did you mean {output.with_suffix(f'.{to}')}?"
    raise click.BadParameter(f"{output} must end in .{to} with --to {to}: {advice}", param_hint="-o")


def _stream(training: Training, policy: str, env: EnvConfig, data: str | None, seed: int) -> Any:
    """Observations for the comparison, of the policy's env or of a data set."""
    from rlrun.deploy.export.observations import of_data, of_env
    from rlrun.engine.envs.env_config import WITHOUT_ENV
    from rlrun.engine.messages.errors import UsageError

    trainee = training.acting.policy(policy).trainee
    if data is not None:
        from rlrun.bridges.datasets.conversion import opened

        return of_data(opened(data), trainee.spaces)
    if env.id == WITHOUT_ENV:
        raise UsageError(
            "this policy was trained on data, without an env: pass --data with a data set for the comparison"
        )
    return of_env(training, trainee.name, env, seed)


def _document(output: Path, found: Export, metadata: dict[str, str]) -> dict[str, Any]:
    compared = found.comparison
    return {
        "file": str(output),
        "bytes": len(found.content),
        "inputs": _described(found.inputs),
        "outputs": _described(found.outputs),
        "metadata": metadata,
        "compared": {
            "observations": compared.observations,
            "episodes": compared.episodes,
            "difference": compared.difference,
            "ties": compared.ties,
        },
    }


def _described(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: {"dtype": array.dtype.name, "shape": list(array.shape[1:])} for name, array in arrays.items()}


def _text(output: Path, found: Export) -> str:
    compared = found.comparison
    lines = [f"{output}  ({len(found.content):,} bytes)"]
    for what, arrays in (("input", found.inputs), ("output", found.outputs)):
        lines += [
            f"  {what:<7} {name:<20} {array.dtype.name} [{', '.join(['batch', *map(str, array.shape[1:])])}]"
            for name, array in arrays.items()
        ]
    ties = f", {counted(compared.ties, 'tie')}" if compared.ties else ""
    lines.append(
        f"  matches the policy on {counted(compared.observations, 'observation')} of "
        f"{counted(compared.episodes, 'episode')}: largest difference {compared.difference:.1g}{ties}"
    )
    return "\n".join(lines)
