"""Runs a trial's loop in the test's own process."""

from rlrun.experiments.trial.trial_loop import TrialLoop


def run(loop: TrialLoop, until: int | None = None) -> None:
    """Runs a trial to its end, or for a number of iterations."""
    while not loop.done and (until is None or loop.training.iteration < until):
        loop.step()
