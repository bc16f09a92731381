"""The loop of a trial, run in the test's own process."""

from rlrun.experiments.trial.trial_loop import TrialLoop


def run(loop: TrialLoop, until: int | None = None) -> None:
    """Runs a trial to its end, or until it has done so many iterations."""
    while not loop.done and (until is None or loop.training.iteration < until):
        loop.step()
