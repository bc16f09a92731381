"""Training of a dynamics ensemble on replayed transitions, with early stopping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.model_based.settings import OBJECTIVE, DynamicsConfig
from rlrun.algorithms.model_based.transitions import Floats, transition_form
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.functional.saved_numbers import as_count, load_generator
from rlrun.engine.functional.seeding import child_seed, generator
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.algorithms.model_based.policy import ModelBasedPolicy
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.replay.replay_config import ReplayConfig

PROGRESS = 0.01
"""Minimum relative improvement of a member's holdout error that resets early stopping."""

SMALLEST_STD = 1e-6
"""Standard deviation below which an input or target is treated as constant, and not scaled."""

GOLDEN_RATIO = (np.sqrt(5) - 1) / 2


def are_held_out(indices: NDArray[np.int64], ratio: float) -> NDArray[np.bool_]:
    """Mask [N] of held-out transitions; whether one is held out depends only on its index in the replay buffer.

    Transition i is held out if the fractional part of i times the golden ratio is below `ratio`. These fractional parts
    are equidistributed, so held-out transitions are spread evenly over the buffer.
    """
    held_out: NDArray[np.bool_] = indices * GOLDEN_RATIO % 1 < ratio
    return held_out


@dataclass(frozen=True)
class Fit:
    """Result of fitting an ensemble of N dynamics models.

    Attributes:
        errors: Smallest holdout error of each member, [N].
        elites: Indices of the members with the smallest holdout errors, best first.
        epochs: Number of epochs over the training transitions.
    """

    errors: NDArray[np.float32]
    elites: NDArray[np.int64]
    epochs: int


class FitModel(StatefulOperator):
    """Fits the ensemble to the transitions in a replay buffer, at intervals of env steps.

    The operator passes its inputs on unchanged. Inputs and targets of the ensemble are normalized by the moments of the
    training transitions. Each member learns from a separate bootstrap sample. Early stopping: the fit ends after
    `patience` epochs in which no member improves by 1% on held-out transitions. Each member is then restored to its
    best parameters, and the best members become elites.

    Args:
        trainee: The policy in training whose learner updates the ensemble.
        replay: Replay buffer of collected transitions.
        config: Settings of the ensemble.
        learning_starts: Number of steps that the buffer must have stored before the first fit.

    Attributes:
        num_fits: Number of completed fits.

    Source:
        Janner et al., arXiv:1906.08253, section 5 and appendix C; Chua et al., arXiv:1805.12114.
    """

    learns = True

    def __init__(self, trainee: Trainee, replay: ReplayBuffer, config: DynamicsConfig, *, learning_starts: int) -> None:
        self.trainee = trainee
        self.replay = replay
        self.config = config
        self.learning_starts = learning_starts
        self._fitted_at: int | None = None
        self._generator = generator(trainee.seed, "fits of dynamics")
        self._fits: list[Fit] = []
        self.num_fits = 0

    @override
    def settings(self) -> dict[str, Any]:
        return {"every": self.config.fit_interval, "patience": self.config.patience}

    declared_metrics = (
        Metric(
            "dynamics/holdout_error",
            "",
            "Mean squared error of the elites on standardized targets",
            mode="min",
        ),
        Metric("dynamics/epochs", "epochs", "Epochs over the collected transitions in this iteration's fits"),
    )

    @override
    def metrics(self) -> dict[str, float]:
        fits, self._fits = self._fits, []
        if not fits:
            return {}
        errors = fits[-1].errors[fits[-1].elites]
        return {
            "dynamics/holdout_error": float(errors.mean()),
            "dynamics/epochs": float(sum(fit.epochs for fit in fits)),
        }

    @override
    def __call__(self, item: Any) -> Any:
        if self.is_due(self.replay.stored_steps):
            self.num_fits += 1
            self._fits.append(self.fit(self.replay.transitions()))
        return item

    def is_due(self, stored_steps: int) -> bool:
        """Returns whether a fit is due; if so, restarts the interval until the next one."""
        if self._fitted_at is not None and stored_steps < self._fitted_at:
            self._fitted_at = None  # the replay buffer was not saved, so it starts empty, and fits start over
        due_at = self.learning_starts if self._fitted_at is None else self._fitted_at + self.config.fit_interval
        if stored_steps >= due_at:
            self._fitted_at = stored_steps
        return stored_steps >= due_at

    def fit(self, transitions: SampleBatch) -> Fit:
        """Fits the ensemble to transitions [N, 1], some of which are held out for validation.

        The column `indices` [N] holds the transitions' indices in the replay buffer, which determine those held out.
        """
        form = transition_form(self.trainee.spaces, self.config)
        rows = {name: transitions[name][:, 0] for name in ("obs", "actions", "next_obs", "rewards", "terminateds")}
        space = cast("ModelBasedPolicy", self.trainee.policy).action_space
        inputs = form.inputs(rows["obs"], space.to_env(rows["actions"]))
        targets = form.targets(rows["obs"], rows["next_obs"], rows["rewards"])
        held_out = are_held_out(transitions["indices"], self.config.holdout_ratio)
        learned = ~held_out
        self._write(
            input_mean=inputs[learned].mean(0, np.float64),
            input_std=_spread(inputs[learned]),
            target_mean=targets[learned].mean(0, np.float64),
            target_std=_spread(targets[learned]),
        )
        table = {"inputs": inputs, "targets": targets, "terminateds": rows["terminateds"]}
        return self._fit(
            {name: column[learned] for name, column in table.items()},
            _rows({name: column[held_out] for name, column in table.items()}, np.arange(held_out.sum())[:, None]),
        )

    def _fit(self, learned: dict[str, NDArray[Any]], held_out: SampleBatch) -> Fit:
        """Trains on a table [n, ...] with early stopping by the error on held-out rows [S, 1]."""
        from rlrun.algorithms.model_based.policy import holdout_errors

        config, learner = self.config, self.trainee.learner
        number, members = len(learned["inputs"]), config.num_members
        steps = -(-number // config.minibatch_size)
        drawn = self._generator.integers(number, size=(number, members))
        best, least = learner.flat(), learner.evaluate(holdout_errors, held_out)
        epochs = waited = 0
        while epochs < config.max_epochs and waited < config.patience:
            # All minibatches have the same shape: the first rows are repeated to fill the last minibatch.
            order = np.resize(self._generator.permuted(drawn, axis=0), (steps, config.minibatch_size, members))
            for chosen in order:
                learner.step(_rows(learned, chosen), scheduled=self.trainee.clock.scheduled(), objectives=(OBJECTIVE,))
            errors = learner.evaluate(holdout_errors, held_out)
            better = errors < least * (1 - PROGRESS)
            self._keep(best, better)
            least = np.where(better, errors, least)
            epochs, waited = epochs + 1, 0 if better.any() else waited + 1
        elites = np.argsort(least, kind="stable")[: config.num_elites]
        learner.load_flat(best)
        self._write(elites=elites)
        return Fit(least, elites, epochs)

    def _keep(self, best: Floats, better: NDArray[np.bool_]) -> None:
        """Stores the parameters of members [N] whose holdout error improved."""
        from rlrun.algorithms.model_based.policy import LEARNED_DYNAMICS

        if not better.any():
            return
        parameters = self.trainee.policy.parameters
        present = parameters.named(self.trainee.learner.flat())
        for name, kept in parameters.named(best).items():
            if name.startswith(LEARNED_DYNAMICS):
                kept[better] = present[name][better]

    def _write(self, **values: NDArray[Any]) -> None:
        """Writes the ensemble's normalization moments and elites, which have no gradient."""
        from rlrun.algorithms.model_based.policy import DYNAMICS

        learner = self.trainee.learner
        flat = learner.flat()
        named = self.trainee.policy.parameters.named(flat)
        for name, value in values.items():
            named[f"{DYNAMICS}{name}"][:] = value
        learner.load_flat(flat)

    @override
    def state(self) -> dict[str, Any]:
        return {
            "fitted_at": self._fitted_at,
            "generator": dict(self._generator.bit_generator.state),
            "num_fits": self.num_fits,
        }

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._fitted_at = None if state["fitted_at"] is None else as_count(state["fitted_at"])
        load_generator(self._generator, state["generator"])
        self.num_fits = as_count(state["num_fits"])


def _spread(numbers: Floats) -> NDArray[np.float64]:
    """Standard deviations [K] of rows [n, K], replaced by 1 for constant columns."""
    stds: NDArray[np.float64] = numbers.std(0, dtype=np.float64)
    return np.where(stds < SMALLEST_STD, 1.0, stds)


def _rows(table: dict[str, NDArray[Any]], chosen: NDArray[np.int64]) -> SampleBatch:
    """Gathers rows of a table by indices [S, L]."""
    columns = {name: column[chosen] for name, column in table.items()}
    return SampleBatch(columns, valid=np.ones(chosen.shape, np.bool_))


def transition_buffer(config: ReplayConfig, trainee: Trainee, *, gamma: float) -> ReplayBuffer:
    """Creates the empty replay buffer of collected transitions, to which a dynamics model is fitted.

    Args:
        config: Settings of the buffer.
        trainee: The policy in training whose rollout fragments are stored.
        gamma: Discount factor.
    """
    number, seed = len(trainee.workers.indices), child_seed(trainee.seed, "replay")
    return ReplayBuffer(config, num_workers=number, n_step=1, gamma=gamma, seed=seed)
