"""``rlrun envs``: the known env ids; ``rlrun env check ENV``: checks an env by stepping it as training does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rlrun.cli.json_document import print_result, wants_json
from rlrun.cli.options import complete_envs, json_option
from rlrun.cli.tables import echo, stdout_width, table
from rlrun.engine.messages.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.envs.env_findings import EnvFinding
    from rlrun.engine.envs.env_listing import EnvListing
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.worlds.mapping import PolicyMapping
    from rlrun.engine.worlds.world_view import WorldView


MOST_LISTED = 12
"""Maximum number of envs per family that `rlrun envs` lists without TEXT."""

SLOW_S = 2.0
"""Seconds after which `rlrun env check` reports its stages on stderr."""

TENSOR_CHECK = "rlrun.engine.envs.tensor_check:check_tensor_env"
"""Import path of the check of envs of tensors, which imports torch."""

LIMIT_THREADS = "rlrun.engine.learner.device:limit_threads"
"""Import path of the function that limits the threads of torch."""

MARKS = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}


@click.group()
def env() -> None:
    """Check an env before training in it."""


@env.command()
@click.argument("target", metavar="ENV|FILE", shell_complete=complete_envs)
@click.option(
    "--steps",
    type=click.IntRange(min=10, max=20_000),
    default=2_000,
    show_default=True,
    help="Number of env steps with random actions.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed for the episodes.")
@json_option("the findings")
def check(target: str, steps: int, seed: int) -> None:
    """Step an env with random actions and report problems.

    ENV is an id or package.module:factory; with a spec FILE, each env in it is
    checked. A multi-agent world is `{world: package.module:factory}` or
    `{pettingzoo: MODULE}`; for a class of a World or of PettingZoo, or a
    PettingZoo module, the name alone is enough.

    Checks spaces, observations, rewards, episode ends and seeds, and whether
    replaying the actions leads to the same state. Also shows the env's speed, how
    observations enter a network, and which algorithms can learn in the env. In a
    multi-agent world, also checks when agents appear and leave, and action masks.
    An env of tensors is `{tensors: package.module:factory}`; its check shows
    devices, flags, final observations, reused buffers, seeds, saved states, waits
    for the GPU and speed.
    If something is WRONG, the exit code is 6.
    """
    from rlrun.engine.envs.env_findings import error_finding
    from rlrun.engine.envs.vector_env import EnvError

    found = []
    for one in _targets(target):
        write = partial(_write_stage, one.config.id)
        with nullcontext(lambda stage: None) if wants_json() else SlowStages(write, SLOW_S) as begin:
            try:
                findings = _findings(one, steps, seed, begin)
            except EnvError as error:  # raised by the env's constructor, or after the random steps
                findings = [error_finding(error)]
            found.append((one.config, findings))
    data = [{"env": config.to_data(), "findings": list(map(asdict, findings))} for config, findings in found]
    print_result({"envs": data}, "\n\n".join("\n".join([config.id, *_lines(findings)]) for config, findings in found))
    if any(one.verdict == "wrong" for _, findings in found for one in findings):
        raise click.exceptions.Exit(ExitCode.ENVIRONMENT_UNUSABLE)


class SlowStages:
    """Context manager that reports the stages of an operation if it is slow.

    It yields the function to call at the start of each stage. Once the operation has become slow, the current stage is
    reported, and then each further stage at its start.

    Args:
        write: Function that receives the description of each reported stage.
        slow_s: Time in seconds after which the operation counts as slow.
    """

    def __init__(self, write: Callable[[str], object], slow_s: float) -> None:
        self._write = write
        self._is_slow = False
        self._stage = ""
        self._lock = Lock()
        self._timer = Timer(slow_s, self._become_slow)
        self._timer.daemon = True

    def __enter__(self) -> Callable[[str], object]:
        """Starts the clock; returns the function that begins a stage."""
        self._timer.start()
        return self._begin

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the clock, after which nothing is reported."""
        self._timer.cancel()
        with self._lock:
            self._stage = ""

    def _begin(self, stage: str) -> None:
        with self._lock:
            self._stage = stage
            if self._is_slow:
                self._write(stage)

    def _become_slow(self) -> None:
        with self._lock:
            self._is_slow = True
            if self._stage:
                self._write(self._stage)


def _write_stage(env_id: str, stage: str) -> None:
    echo(f"{env_id}: {stage}", err=True)


def _lines(findings: list[EnvFinding]) -> list[str]:
    width = max(len(one.topic) for one in findings)
    lines = []
    for one in findings:
        lines.append(f"  {MARKS[one.verdict]} {one.topic:<{width}}  {' '.join(one.found.split())}")
        explained = "; ".join(text for text in (one.reason, one.advice) if text)
        lines += [f"        {'':<{width}}{explained}"] if explained else []
        lines += [f"        {'':<{width}}{line}" for line in one.traceback.splitlines()]
    return lines


class _Target(NamedTuple):
    """An env or world to check.

    Attributes:
        config: The env or world.
        mapping: The policy of each agent of a world; None if no spec defines it.
        slots: Number of agent slots of each policy in a world; {} if no spec defines them.
    """

    config: EnvConfig
    mapping: PolicyMapping | None = None
    slots: Mapping[str, int] = {}


def _targets(target: str) -> list[_Target]:
    """Resolves a target to its envs: the distinct envs of a spec file, or the env of an id or mapping."""
    from rlrun.cli.targets import env_named, env_written
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.experiments.spec.load import load_experiments, make_importable

    if Path(target).suffix in (".yaml", ".yml"):
        trials = [trial for one in load_experiments([Path(target)]) for trial in one.trials() or [one.first_trial()]]
        found: dict[str, _Target] = {}
        for trial in trials:
            policies = trial.learns
            target_of_trial = _Target(trial.env, policies.agent_mapping(), policies.slots)
            found.setdefault(repr((trial.env, policies.acting, policies.mapping, policies.slots)), target_of_trial)
        return [*found.values()]
    make_importable(Path.cwd())
    return [_Target(EnvConfig.parse(env_written(env_named(target)), path="ENV"))]


def _findings(target: _Target, steps: int, seed: int, begin: Callable[[str], object]) -> list[EnvFinding]:
    """Checks an env or multi-agent world by stepping; returns all findings."""
    from rlrun.engine.envs.probes.probe import probe_of
    from rlrun.engine.settings.registry import load_internal
    from rlrun.engine.training.assemble.policies_in_world import policies_in_world
    from rlrun.engine.worlds.env_check import check_by_stepping
    from rlrun.engine.worlds.make import kinds_of_agents

    config, mapping, slots = target
    if config.tensors is not None:
        begin("stepping the env of tensors")
        return load_internal(TENSOR_CHECK)(config, steps=steps, seed=seed)  # type: ignore[no-any-return]
    mapping = mapping or kinds_of_agents(config)
    found = check_by_stepping(config, mapping, slots, steps=steps, seed=seed, begin=begin)
    begin("comparing the effects of actions")
    if (probed := probe_of(config, found, steps=steps, seed=seed)) is not None:
        found += probed.findings
    begin("finding the algorithms that can learn in it")
    world = policies_in_world(config, mapping, slots)
    for policy, spaces in world.spaces.items():
        learning = _for_learning(spaces, world.views.get(policy))
        prefix = f"{policy}: " if len(world.spaces) > 1 else ""
        found += [replace(one, topic=f"{prefix}{one.topic}") for one in learning]
    return found


def _for_learning(spaces: Spaces, world: WorldView | None) -> list[EnvFinding]:
    """Findings on the preprocessing of observations, and on the algorithms that support the env."""
    from rlrun.engine.envs.env_findings import EnvFinding
    from rlrun.engine.nn.model_config import ModelConfig
    from rlrun.engine.nn.observation_leaves import described_leaves
    from rlrun.engine.policy.action_masks import policy_leaves
    from rlrun.engine.settings.registry import algorithm_class, algorithm_names, load_internal

    try:
        leaves = policy_leaves(*spaces, ModelConfig(), normalize_observations=False)
    except UsageError as error:
        reason = "no network of rlrun supports these observations"
        return [EnvFinding("network", "wrong", str(error), reason, "use a custom network (model.module), or a wrapper")]
    seen = ", ".join(f"{path}: {how}" if path else how for path, how in described_leaves(leaves))
    load_internal(LIMIT_THREADS)(1)  # with more threads, torch needs several times the CPU time to initialize weights
    fitting: list[str] = []
    refused: dict[str, Any] = {}
    for name in algorithm_names():
        algorithm = algorithm_class(name)
        made = algorithm(algorithm.Config())
        try:
            if world is None:
                made.policy(spaces, 0)
            else:
                made.policy_in_world(spaces, world, 0)
            fitting.append(name)
        except UsageError as error:
            refused[name] = error
    algorithms = EnvFinding("algorithms", "ok", ", ".join(fitting))
    if not fitting:
        algorithms = EnvFinding(
            "algorithms", "wrong", "no algorithm can learn in this env", str(next(iter(refused.values())))
        )
    return [EnvFinding("network", "ok", seen), algorithms]


@click.command()
@click.argument("text", required=False)
@json_option("the envs")
def envs(text: str | None) -> None:
    """List the envs, and whether each can be used on this machine.

    With TEXT, only ids that contain it are listed. A spec can also name your
    own factory as package.module:factory.
    """
    from rlrun.engine.envs.env_listing import env_names

    known = env_names()
    found = [env for env in known if text is None or text.lower() in env.id.lower()]
    if not found:
        from rlrun.engine.envs.unknown_ids import nearest_id

        raise UsageError(f"no env id contains '{text}'{nearest_id(str(text), [env.id for env in known])}")
    families = {family: list(envs) for family, envs in groupby(found, lambda env: env.family)}
    rows = [
        [env.id, family, env.backend, "usable" if env.usable else f"needs {env.install}"]
        for family, envs in families.items()
        for env in (envs if text else newest(envs)[:MOST_LISTED])
    ]
    lines = [table(["env", "family", "backend", "here"], rows, stdout_width())]
    if len(rows) < len(found):
        more = len(found) - len(rows)
        lines.append(
            f"{more} more (older versions and Atari games): `rlrun envs TEXT` lists all ids that contain TEXT."
        )
    print_result({"envs": [asdict(env) for env in found]}, "\n\n".join(lines))


def newest(envs: Sequence[EnvListing]) -> list[EnvListing]:
    """Drops older versions of envs from a list (keeps Hopper-v5, not Hopper-v4), and Atari ids without `ALE/`."""
    from gymnasium.envs.registration import parse_env_id

    latest: dict[tuple[str | None, str], tuple[int, EnvListing]] = {}
    for env in envs:
        namespace, name, version = parse_env_id(env.id)
        if env.family == "atari" and namespace is None:
            continue
        known = latest.get((namespace, name))
        if known is None or (version or 0) > known[0]:
            latest[namespace, name] = (version or 0, env)
    return [env for _, env in latest.values()]
