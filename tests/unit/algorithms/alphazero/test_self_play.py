"""Symmetric rows stay valid, bars rise with returns, and new weights play once they have won enough."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.alphazero.ranked_rewards import BAR
from rlrun.algorithms.alphazero.self_play import BroadcastAccepted, MoveBySymmetries, RaiseBar
from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.policy.weights import Weights
from rlrun.engine.worlds.games.array_game import OBSERVATION
from rlrun.toys.game_arrays import TicTacToeArrays

GAME = TicTacToeArrays()


def trainee(**parts: Any) -> Any:
    return SimpleNamespace(seed=3, world=SimpleNamespace(game=GAME), **parts)


def minibatch() -> SampleBatch:
    """Rows of one position with a piece of each player, and all visits on one cell."""
    state = GAME.play(GAME.play(GAME.first(1), np.array([1])), np.array([6]))
    seen = GAME.observe(np.repeat(state, 200, axis=0))
    visits = np.zeros((200, 1, 9), np.float32)
    visits[..., 2] = 1  # next to the first piece, far from the second
    return SampleBatch(
        obs={OBSERVATION: seen[OBSERVATION][:, None], ACTION_MASK: seen[ACTION_MASK][:, None] != 0}, visits=visits
    )


def test_symmetries_transform_board_mask_and_visits_together() -> None:
    before = minibatch()
    after = MoveBySymmetries(trainee())(before)
    boards = after["obs"][OBSERVATION][:, 0].reshape(200, 9, 2)
    assert ((boards.sum(-1) == 0) == after["obs"][ACTION_MASK][:, 0]).all()
    own, other, target = boards[..., 0].argmax(1), boards[..., 1].argmax(1), after["visits"][:, 0].argmax(1)
    assert len(set(zip(own.tolist(), other.tolist(), target.tolist(), strict=True))) == 8
    far = lambda a, b: (a // 3 - b // 3) ** 2 + (a % 3 - b % 3) ** 2  # noqa: E731
    assert (far(own, other) == 5).all()
    assert (far(own, target) == 1).all()
    assert (far(other, target) == 8).all()
    assert (before["visits"] == minibatch()["visits"]).all()


def test_drawn_symmetries_continue_from_a_saved_state() -> None:
    first, second = MoveBySymmetries(trainee()), MoveBySymmetries(trainee())
    first(minibatch())
    second.load_state(first.state())
    assert (first(minibatch())["visits"] == second(minibatch())["visits"]).all()


class Sent:
    """Workers that record what they are sent, and a learner whose version grows with each query."""

    def __init__(self) -> None:
        self.versions: list[int] = []
        self.clock = SimpleNamespace(env_steps=0)
        self.workers = SimpleNamespace(send=lambda weights: self.versions.append(weights.version))
        self.latest = 0

    def weights(self) -> Weights:
        return Weights(self.latest, np.full(4, self.latest, np.float32))


def stepped(gate: BroadcastAccepted, own: Sent, times: int) -> None:
    for _ in range(times):
        own.latest += 1
        own.clock.env_steps += 10
        gate("item")


def test_weights_are_sent_to_workers_only_once_they_have_won_their_match() -> None:
    own, seen, points = Sent(), [], iter([0.5, 0.55, 0.1, 0.9])

    def play(new: Weights, accepted: Weights, number: int) -> float:
        seen.append((new.version, accepted.version, number))
        return next(points)

    gate = BroadcastAccepted(own, play, every=20, share=0.55)  # type: ignore[arg-type]
    stepped(gate, own, 9)
    assert seen == [(3, 1, 0), (5, 1, 1), (7, 5, 2), (9, 5, 3)]
    assert own.versions == [1, 5, 9]
    assert gate.metrics() == {"gate/points": 0.9, "gate/accepted": 2}


def test_a_restored_gate_sends_the_accepted_weights_and_plays_against_them() -> None:
    own = Sent()
    gate = BroadcastAccepted(own, lambda new, accepted, number: 0.0, every=20, share=0.5)  # type: ignore[arg-type]
    stepped(gate, own, 4)
    again, met = Sent(), []
    again.latest, again.clock.env_steps = own.latest, own.clock.env_steps

    def play(new: Weights, accepted: Weights, number: int) -> float:
        met.append((new.version, accepted.version, accepted.acting.tolist(), number))
        return 1.0

    other = BroadcastAccepted(again, play, every=20, share=0.5)  # type: ignore[arg-type]
    other.load_state(gate.state())
    assert again.versions == [1]
    stepped(other, again, 1)
    assert met == [(5, 1, [1.0] * 4, 1)]
    assert again.versions == [1, 5]


def test_restoring_accepted_weights_of_a_different_network_is_refused() -> None:
    own = Sent()
    gate = BroadcastAccepted(own, lambda new, accepted, number: 0.0, every=20, share=0.5)  # type: ignore[arg-type]
    stepped(gate, own, 1)
    state = gate.state()
    state["accepted"]["acting"] = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="a different network"):
        gate.load_state(state)


def test_the_bar_for_a_win_is_a_percentile_of_the_newest_returns() -> None:
    trainee = SimpleNamespace(filters=SimpleNamespace(moments={}))
    raised = RaiseBar(trainee, percentile=75, newest=4)
    nothing = np.full((3, 1), np.nan, np.float32)
    assert set(raised(SampleBatch(returns=nothing, valid=np.ones((3, 1))))) == {"valid"}
    assert trainee.filters.moments == {}
    for returned in (9.0, 1.0, 2.0, 3.0, 4.0):  # the first return is not among the newest four
        raised(SampleBatch(returns=np.array([[np.nan], [returned]], np.float32)))
    assert trainee.filters.moments[BAR].mean == raised.metrics()["ranked/bar"] == 3.25
    again = RaiseBar(trainee, percentile=75, newest=4)
    again.load_state(raised.state())
    for each in (raised, again):
        each(SampleBatch(returns=np.array([[8.0]], np.float32)))
        assert trainee.filters.moments[BAR].mean == 5.0
