"""Calls of users' hooks (callbacks) in the trial's process, and the metrics and stop requests that they return."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlrun.engine.hook import HOOK_SECONDS, TRIAL_EVENTS, declared_by
from rlrun.engine.rollout.hook_answers import HookAnswers, HookInstances
from rlrun.engine.settings.metric import HOOKS


class TrialHooks:
    """Users' hooks in the trial's own process, and the metrics and stop requests that all hooks return.

    Args:
        hooks: Settings of each hook by its import path.
        seed: Root seed of the trial.
        announce: Callback for a warning.

    Attributes:
        answers: Metrics and stop requests that all hooks returned, including hooks in workers.
        seconds: Seconds spent in hooks so far.
    """

    def __init__(
        self, hooks: Sequence[Mapping[str, Mapping[str, Any]]], seed: int, announce: Callable[[str], None]
    ) -> None:
        self.answers = HookAnswers()
        self.seconds = 0.0
        self._reported_s = 0.0
        self._hooks = HookInstances(hooks, TRIAL_EVENTS, seed)
        self._declared = declared_by(hooks)
        self._steady = [metric.name for metric in self._declared if not metric.is_pattern]
        self._announce = announce
        self._undeclared: set[str] = set()

    @property
    def stop(self) -> str:
        """Reason given by the first hook that asked to stop the run; "" if none did."""
        return self.answers.stop

    def on_result(self, iteration: int, result: Mapping[str, Any]) -> dict[str, Any]:
        """Calls the hooks with an iteration's result; returns all hooks' metrics, None for metrics without a value.

        Args:
            iteration: Number of the iteration.
            result: The result.
        """
        measured = {**dict.fromkeys(self._steady), **self._taken()}
        measured |= self._measured("on_result", iteration, {**result, **measured})
        spent, self._reported_s = self.seconds - self._reported_s, self.seconds
        return {**measured, HOOK_SECONDS.name: spent}

    def on_evaluation(self, iteration: int, evaluation: Mapping[str, Any]) -> dict[str, float]:
        """Calls the hooks with the result of an evaluation, and returns their metrics."""
        return self._measured("on_evaluation", iteration, evaluation)

    def on_checkpoint(self, iteration: int) -> None:
        """Calls the hooks before a checkpoint is written; metrics that they return become part of the next result."""
        self._deliver("on_checkpoint", iteration, iteration)

    def _measured(self, event: str, iteration: int, argument: Mapping[str, Any]) -> dict[str, float]:
        self._deliver(event, iteration, argument)
        return self._taken()

    def _taken(self) -> dict[str, float]:
        """Returns the metrics that hooks have returned since the last call; announces each undeclared metric once."""
        taken = self.answers.take_means()
        for reported in taken:
            if reported not in self._undeclared and not any(metric.matches(reported) for metric in self._declared):
                self._undeclared.add(reported)
                self._announce(
                    f"{reported} is logged but not declared: add Metric({reported.removeprefix(HOOKS)!r}, "
                    "unit, meaning) to the hook's declared_metrics, so that `stop`, schedulers and searchers "
                    "can use it"
                )
        return taken

    def _deliver(self, event: str, iteration: int, argument: Any) -> None:
        if event in self._hooks.events:
            began = time.perf_counter()
            self._hooks.deliver(self.answers, event, lambda: f"iteration {iteration}", argument)
            self.seconds += time.perf_counter() - began

    def state(self) -> dict[str, Any]:
        """Returns the hooks' state, and the metrics that no result has included yet, for checkpoints."""
        return {"hooks": self._hooks.state(), "answers": self.answers.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the hooks from the result of `state()`."""
        self._hooks.load_state(state["hooks"])
        self.answers.load_state(state["answers"])
