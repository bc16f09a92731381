"""``rlrun doctor --tune SPEC``: benchmarks short training runs with different numbers of workers and envs."""

from __future__ import annotations

from pathlib import Path

from rlrun.cli.json_document import print_result
from rlrun.cli.tables import plain
from rlrun.cli.watch import copy_of_stderr
from rlrun.engine.messages.errors import UsageError


def tune(spec: Path) -> None:
    """Benchmarks the first trial of a spec with different numbers of workers and envs.

    Prints the settings with the highest speed as YAML.

    Args:
        spec: The spec file.

    Raises:
        UsageError: If the spec has several policies, or its algorithm has no `train_batch_size`, so that the number of
            workers or envs would affect learning.
    """
    from rlrun.experiments.cluster.resources import machine_cpus
    from rlrun.experiments.launch.timings import chosen, time_settings
    from rlrun.experiments.spec.auto_settings import AUTO_SETTINGS, candidates
    from rlrun.experiments.spec.load import load_experiments

    trial = load_experiments([spec], [])[0].first_trial()
    if trial.policies:
        raise UsageError(
            "doctor --tune supports only single-policy specs, but this spec has policies: use `rlrun profile`"
        )
    if "train_batch_size" not in type(trial.config).model_fields:
        raise UsageError(
            f"doctor --tune needs an algorithm with train_batch_size, which {trial.algorithm} does not have: "
            "use `rlrun profile`"
        )
    # None means the fragment length that fills a batch. If no candidate fits, the spec's own settings are timed.
    config = trial.config.replace(rollout_fragment_length=None)
    settings = candidates(config, AUTO_SETTINGS, machine_cpus()) or [(0, config.num_envs_per_worker)]
    timings = []
    stderr = copy_of_stderr()
    for timing in time_settings(trial.replace(config=config), settings):
        timings.append(timing)
        print(plain(f"{timing.settings}: {timing.env_steps_per_s:,.0f} env steps/s"), file=stderr, flush=True)
    best = chosen(timings)
    lines = [
        (
            f"# {best.env_steps_per_s:,.0f} env steps/s on this machine, including learning; train_batch_size as "
            f"in {spec}"
        ),
        f"config:\n  num_workers: {best.num_workers}\n  num_envs_per_worker: {best.num_envs_per_worker}",
    ]
    if trial.config.rollout_fragment_length is not None:
        lines.append("  rollout_fragment_length: null  # computed to fill a batch")
    timings.sort(key=lambda timing: timing.env_steps_per_s, reverse=True)
    described = [{**vars(timing), "env_steps_per_s": timing.env_steps_per_s} for timing in timings]
    print_result({"timings": described}, "\n".join(lines))
