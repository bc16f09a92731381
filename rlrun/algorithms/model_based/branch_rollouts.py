"""Branched model rollouts from replayed states, as in MBPO, and the replay buffer of their transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.model_based.fit_model import FitModel
from rlrun.algorithms.model_based.imagination import MODEL_STEPS, imagined_step
from rlrun.algorithms.model_based.transitions import transition_form
from rlrun.engine.data.restored_rows import RestoredRows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator, StatefulOperator
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.functional.saved_numbers import as_count, load_generator
from rlrun.engine.functional.seeding import generator
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.algorithms.model_based.policy import ModelBasedPolicy
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.learner.learner import EvaluatedFunction


class BranchRollouts(StatefulOperator):
    """Branched rollouts: rolls the policy out in the ensemble from replayed states after every fit.

    The operator passes its inputs on unchanged. Rollouts run in parallel until termination or the rollout length; a
    random elite member of the ensemble predicts each step.

    Args:
        trainee: The policy in training and its dynamics ensemble.
        fit: Operator that fits the ensemble to a replay buffer, from which initial states are sampled.
        imagined: Replay buffer of imagined transitions.
        act: Function that returns the actor's outputs [S, L, K] for a batch's `obs`; passed to `Learner.evaluate`.
        number: Number of rollouts after each fit.
        gamma: Discount factor.
        scale: Scale and clipping bound of rewards from a known reward function.

    Source:
        Janner et al., arXiv:1906.08253, algorithm 2.
    """

    def __init__(
        self,
        trainee: Trainee,
        fit: FitModel,
        imagined: ModelReplay,
        act: EvaluatedFunction,
        *,
        number: int,
        gamma: float,
        scale: RewardScale,
    ) -> None:
        self.trainee = trainee
        self.fit = fit
        self.imagined = imagined
        self.act = act
        self.number = number
        self.gamma = gamma
        self.scale = scale
        self._rounds = 0
        self._generator = generator(trainee.seed, "branched rollouts")
        self._model_steps = 0

    @override
    def settings(self) -> dict[str, Any]:
        return {"number": self.number}

    declared_metrics = (
        MODEL_STEPS,
        Metric("model_replay/steps", "steps", "Number of imagined transitions in the model's replay buffer"),
    )

    @override
    def metrics(self) -> dict[str, float]:
        return {MODEL_STEPS.name: float(self._model_steps), "model_replay/steps": float(len(self.imagined))}

    @property
    def length(self) -> int:
        """Current rollout length: the schedule's value, rounded down, and at least 1."""
        return max(int(self.trainee.clock.value("rollout_length")), 1)

    @override
    def __call__(self, item: Any) -> Any:
        if self._rounds < self.fit.num_fits:
            self._rounds = self.fit.num_fits
            starts = self.fit.replay.peek(self.number, self._generator)["obs"][:, 0]
            transitions = self.roll_out(starts, self.length)
            self._model_steps += len(transitions["valid"])
            self.imagined.add(transitions)
        return item

    def roll_out(self, obs: NDArray[Any], length: int) -> SampleBatch:
        """Rolls out the policy in the ensemble from n observations [n, D]; returns all N transitions, [N, 1]."""
        parts = []
        for _ in range(length):
            transitions, terminateds = self._step(obs)
            parts.append(transitions)
            obs = transitions["next_obs"][~terminateds]
            if not len(obs):
                break
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return SampleBatch({name: column[:, None] for name, column in joined.items()})

    def _step(self, obs: NDArray[Any]) -> tuple[SampleBatch, NDArray[np.bool_]]:
        """Predicts transitions [n] from observations [n, D], each by an elite, and termination flags [n]."""
        trainee, number = self.trainee, len(obs)
        space = cast("ModelBasedPolicy", trainee.policy).action_space
        elites = self._elites()
        # Deals the observations to the elites in random order. Repeats that fill up the last row are dropped below.
        order = np.resize(self._generator.permutation(number), (-(-number // len(elites)), len(elites)))
        seen = obs[order]
        valid = np.ones(order.shape, np.bool_)
        outputs = trainee.learner.evaluate(self.act, SampleBatch(obs=seen, valid=valid))
        actions = space.sample(outputs, space.noise(self._generator, order.shape))
        form = transition_form(trainee.spaces, self.fit.config)
        found = imagined_step(trainee, form, space, seen, actions, elites, self._generator, self.scale)
        columns = SampleBatch(
            obs=seen,
            actions=actions,
            rewards=found.rewards,
            discounts=np.where(found.terminateds, np.float32(0), np.float32(self.gamma)),
            next_obs=found.next_obs,
            valid=valid,
            weights=np.ones(order.shape, np.float32),
        )
        rows = columns.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:number])
        return rows, found.terminateds.reshape(-1)[:number]

    def _elites(self) -> NDArray[np.int64]:
        from rlrun.algorithms.model_based.policy import DYNAMICS

        trainee = self.trainee
        return trainee.policy.parameters.named(trainee.learner.flat())[f"{DYNAMICS}elites"].astype(np.int64)

    @override
    def state(self) -> dict[str, Any]:
        """State for a checkpoint: counters, random generator and, if the settings say so, imagined transitions."""
        return {
            "rounds": self._rounds,
            "generator": dict(self._generator.bit_generator.state),
            "imagined": self.imagined.state(whole=self.fit.replay.is_saved),
            "model_steps": self._model_steps,
        }

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._rounds = as_count(state["rounds"])
        load_generator(self._generator, state["generator"])
        self.imagined.load_state(state["imagined"])
        self._model_steps = as_count(state["model_steps"])


class AddImagined(Operator):
    """Appends imagined transitions to minibatches of collected transitions.

    Args:
        imagined: Replay buffer of imagined transitions.
        number: Number of imagined transitions per minibatch.
    """

    def __init__(self, imagined: ModelReplay, number: int) -> None:
        self.imagined = imagined
        self.number = number

    @override
    def settings(self) -> dict[str, Any]:
        return {"number": self.number}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Minibatch [S + number, 1], collected transitions first; `indices` refer to the collected ones."""
        if not self.number:
            return item
        self.imagined.compare(SampleBatch({name: column for name, column in item.items() if name != "indices"}))
        drawn = self.imagined.sample(self.number)
        rows = {name: np.concatenate([item[name], column]) for name, column in drawn.items()}
        return SampleBatch(item, **rows)


class ModelReplay:
    """Replay buffer of imagined transitions: samples uniformly from the latest rounds of model rollouts.

    Args:
        rounds: Number of rounds kept.
        seed: Root seed for sampling.
    """

    def __init__(self, rounds: int, *, seed: int) -> None:
        self.rounds = rounds
        self._sizes: list[int] = []
        self._kept = SampleBatch()
        self._restored = RestoredRows()
        self._generator = generator(seed, "model replay")

    def __len__(self) -> int:
        """Number of stored transitions."""
        return sum(self._sizes)

    def add(self, transitions: SampleBatch) -> None:
        """Adds a round of transitions [N, 1, ...], and evicts the oldest round if more than `rounds` are stored."""
        self._restored.compare(transitions)
        gone = self._sizes[0] if len(self._sizes) == self.rounds else 0
        self._sizes = [*self._sizes[bool(gone) :], len(transitions["valid"])]
        if not self._kept:
            self._kept = transitions
            return
        self._kept = SampleBatch(
            {name: np.concatenate([column[gone:], transitions[name]]) for name, column in self._kept.items()}
        )

    def sample(self, number: int) -> SampleBatch:
        """Samples transitions uniformly with replacement, [number, 1, ...].

        Raises:
            RuntimeError: If the buffer is empty.
        """
        if not len(self):
            raise RuntimeError("the model's replay buffer is empty until the first rollouts")
        chosen = self._generator.integers(len(self), size=number)
        return self._kept.map(lambda leaf: leaf[chosen])

    def state(self, *, whole: bool) -> dict[str, Any]:
        """State for a checkpoint: the random generator, and optionally the transitions.

        Args:
            whole: Whether to include the transitions.
        """
        return {
            "generator": dict(self._generator.bit_generator.state),
            "sizes": list(self._sizes) if whole else [],
            "kept": dict(self._kept) if whole else {},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the buffer from `state()`."""
        load_generator(self._generator, state["generator"])
        sizes, kept = [as_count(size) for size in state["sizes"]], SampleBatch(state["kept"])
        if any(len(column) != sum(sizes) for column in kept.values()):
            raise ValueError(
                f"the model's replay buffer has {sum(sizes)} transitions, but columns of a different length"
            )
        self._sizes, self._kept = sizes, kept
        self._restored.load([kept] if kept else [])

    def compare(self, transitions: SampleBatch) -> None:
        """Validates the columns of restored transitions against those first added after the restore, [N, 1, ...].

        Raises:
            CheckpointError: Names, dtypes or shapes differ.
        """
        self._restored.compare(transitions)
