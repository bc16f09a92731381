"""Operators of self-play: data augmentation by symmetries, ranked rewards, and the gate for new weights."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from typing_extensions import override

from rlrun.algorithms.alphazero.ranked_rewards import BAR
from rlrun.algorithms.alphazero.self_play_worker import RETURNS, VISITS
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.saved_numbers import as_count, load_generator
from rlrun.engine.functional.seeding import generator
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.policy.weights import Weights

T = TypeVar("T")

Match = Callable[["Weights", "Weights", int], float]
"""Match function: from new weights, accepted weights and the match's index to the new weights' score."""


class MoveBySymmetries(StatefulOperator):
    """Data augmentation: transforms observation, mask and visits of each row by a random symmetry of the board.

    Args:
        trainee: The policy in training, with the rules of the game and the root seed for the random symmetries.
    """

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee
        self._generator = generator(trainee.seed, "symmetries")

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Transforms rows [S, 1] by random symmetries."""
        world = self.trainee.world
        if world is None or world.game is None:
            raise RuntimeError("this policy acts on positions of a game, so it needs the game to search")
        symmetries = world.game.symmetries
        if len(symmetries) == 1:
            return item
        which = self._generator.integers(len(symmetries), size=len(item[VISITS]))
        seen = symmetries.move(map_tree(lambda leaf: leaf[:, 0], item["obs"]), which)
        visits = symmetries.move_actions(item[VISITS][:, 0], which)
        return SampleBatch(item, obs=map_tree(lambda leaf: leaf[:, None], seen), visits=visits[:, None])

    @override
    def state(self) -> dict[str, Any]:
        return {"generator": dict(self._generator.bit_generator.state)}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        load_generator(self._generator, state["generator"])


class RaiseBar(StatefulOperator):
    """Ranked rewards: sets the win threshold for the next games to a percentile of the newest returns.

    The threshold is kept with the trainee's `Filters` (running statistics), which workers receive along with the
    weights.

    Args:
        trainee: The policy in training whose threshold is set.
        percentile: Percentile of the returns, 0 to 100.
        newest: Number of recent returns from which the percentile is computed.

    Source:
        Ranked rewards: Laterre et al., arXiv:1807.01672, section 3.
    """

    declared_metrics = (Metric("ranked/bar", "return", "Return above which a game counts as a win"),)

    def __init__(self, trainee: Trainee, *, percentile: float, newest: int) -> None:
        self.trainee = trainee
        self.percentile = percentile
        self.newest = newest
        self._returns: deque[float] = deque(maxlen=newest)

    @override
    def settings(self) -> dict[str, Any]:
        return {"percentile": self.percentile, "newest": self.newest}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        returns = item[RETURNS][:, 0]
        self._returns.extend(returns[np.isfinite(returns)].tolist())
        if self._returns:
            bar = np.asarray(np.percentile(self._returns, self.percentile))
            self.trainee.filters.moments[BAR] = Moments(float(len(self._returns)), bar, np.zeros(()))
        return SampleBatch({name: column for name, column in item.items() if name != RETURNS})

    @override
    def metrics(self) -> dict[str, float]:
        return {"ranked/bar": float(self.trainee.filters.moments[BAR].mean)} if self._returns else {}

    @override
    def state(self) -> dict[str, Any]:
        return {"returns": list(self._returns)}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._returns = deque(map(float, state["returns"]), maxlen=self.newest)


class BroadcastAccepted(StatefulOperator):
    """Gated broadcast: sends new weights to all workers once they win a match against the last accepted weights.

    The first weights are sent without a match.

    Args:
        trainee: The policy in training whose weights are evaluated and broadcast.
        play: Function that plays a match between new and accepted weights, and returns the score of the new ones.
        every: Env steps between matches.
        share: Minimum score for new weights to be accepted: fraction of games won, with draws as half a win.

    Source:
        The evaluator of AlphaGo Zero: Silver et al., Nature 550 (2017), Methods, "Evaluator".
    """

    declared_metrics = (
        Metric("gate/points", "", "Share of points that new weights scored in their latest match"),
        Metric("gate/accepted", "", "Number of matches after which new weights were accepted"),
    )

    def __init__(self, trainee: Trainee, play: Match, *, every: int, share: float) -> None:
        self.trainee = trainee
        self.every = every
        self.share = share
        self._play = play
        self._accepted: Weights | None = None
        self._matches = self._passed = self._judged_at = 0
        self._points = 0.0

    @override
    def settings(self) -> dict[str, Any]:
        return {"every": self.every, "share": self.share}

    @override
    def __call__(self, item: T) -> T:
        env_steps = self.trainee.clock.env_steps
        if self._accepted is None:
            self._accept(self.trainee.weights(), env_steps)
        elif env_steps - self._judged_at >= self.every:
            new = self.trainee.weights()
            self._points = self._play(new, self._accepted, self._matches)
            self._matches += 1
            self._judged_at = env_steps
            if self._points >= self.share:
                self._passed += 1
                self._accept(new, env_steps)
        return item

    def _accept(self, weights: Weights, env_steps: int) -> None:
        self._accepted, self._judged_at = weights, env_steps
        self.trainee.workers.send(weights)

    @override
    def metrics(self) -> dict[str, float]:
        return {"gate/points": self._points, "gate/accepted": self._passed}

    @override
    def state(self) -> dict[str, Any]:
        accepted = self._accepted
        return {
            "accepted": None if accepted is None else {"acting": accepted.acting, "version": accepted.version},
            "matches": self._matches,
            "passed": self._passed,
            "judged_at": self._judged_at,
            "points": self._points,
        }

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the gate from `state()`, and sends the accepted weights to the workers."""
        self._matches, self._passed = as_count(state["matches"]), as_count(state["passed"])
        self._judged_at, self._points = as_count(state["judged_at"]), float(state["points"])
        self._accepted = None
        if state["accepted"] is not None:
            acting = np.asarray(state["accepted"]["acting"], np.float32)
            present = self.trainee.weights()
            if acting.shape != present.acting.shape:
                raise ValueError("the accepted weights belong to a different network")
            version = as_count(state["accepted"]["version"])
            self._accepted = dataclasses.replace(present, acting=acting, version=version)
            self.trainee.workers.send(self._accepted)
