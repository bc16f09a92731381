"""Board games are over exactly at a win or a full board, by an oracle that knows nothing of how they look for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlrun.worlds.board_games import ConnectFour, LineGame, TicTacToe

GAMES = [(TicTacToe, 3), (ConnectFour, 4)]


def has_line(pieces: Any, length: int) -> bool:
    """Looks for lines by shifting bits: a row of the board is a byte, whose last bits are empty."""
    bits = int.from_bytes(np.packbits(pieces.astype(np.bool_), axis=1).tobytes(), "big")
    for shift in (1, 8, 7, 9):
        line = bits
        for i in range(1, length):
            line &= bits >> i * shift
        if line:
            return True
    return False


@pytest.mark.parametrize(("make", "length"), GAMES)
def test_a_thousand_random_games_end_exactly_at_a_win_or_a_full_board_and_their_returns_sum_to_0(
    make: type[LineGame], length: int
) -> None:
    world, generator = make(), np.random.default_rng(0)
    first, second = world.possible_agents
    results = {-1.0: 0, 0.0: 0, 1.0: 0}
    for _ in range(1000):
        shown, returns, mover, other = world.reset(0), dict.fromkeys((first, second), 0.0), first, second
        while True:
            assert list(shown) == [mover]
            mask = shown[mover]["action_mask"]
            before = shown[mover]["observation"]
            assert mask.any()
            empty = before[..., 0] + before[..., 1] == 0
            assert mask.tolist() == (empty.ravel() if length == 3 else empty[0]).tolist()
            legal = np.flatnonzero(mask)
            step = world.step({mover: int(legal[generator.integers(len(legal))])})
            for agent, reward in step.rewards.items():
                returns[agent] += reward
            seen = step.observations[other]["observation"]
            assert (seen[..., 0] == before[..., 1]).all()  # what is mine is the other's to the other
            assert seen[..., 1].sum() == before[..., 0].sum() + 1
            wins, is_full = has_line(seen[..., 1], length), bool(seen.sum(-1).all())
            assert step.ended == (wins or is_full)
            if step.ended:
                assert returns == {mover: float(wins), other: -float(wins)}
                assert step.terminateds == {first: True, second: True}
                assert not any(step.observations[agent]["action_mask"].any() for agent in (first, second))
                results[returns[first]] += 1
                break
            shown, mover, other = step.observations, other, mover
    assert results[1.0] > results[-1.0] > 100  # who begins has the better chances
    assert results[0.0] > 0


@pytest.mark.parametrize(("make", "length"), GAMES)
def test_observations_belong_to_their_space(make: type[LineGame], length: int) -> None:
    world = make()
    shown = world.reset(0)
    for agent, seen in shown.items():
        assert world.spaces(agent).observation.contains(seen)
    step = world.step({world.possible_agents[0]: 2})
    for agent, seen in step.observations.items():
        assert world.spaces(agent).observation.contains(seen)


def test_a_piece_falls_to_the_lowest_empty_cell_and_a_full_column_is_illegal() -> None:
    world = ConnectFour()
    world.reset(0)
    for turn in range(6):
        step = world.step({world.possible_agents[turn % 2]: 3})
        mover_plane = 1  # of what was just put, to the other player
        assert step.observations[world.possible_agents[1 - turn % 2]]["observation"][5 - turn, 3, mover_plane] == 1
    assert step.observations["red"]["action_mask"].tolist() == [1, 1, 1, 0, 1, 1, 1]
    with pytest.raises(ValueError, match="action 3 of red is illegal"):
        world.step({"red": 3})


def test_the_picture_has_the_colors_of_the_pieces_in_their_cells() -> None:
    world = TicTacToe()
    world.reset(0)
    world.step({"x": 4})
    world.step({"o": 2})
    picture = world.render()
    assert picture.shape == (72, 72, 3)
    assert picture.dtype == np.uint8
    assert picture[36, 36].tolist() == [40, 90, 200]
    assert picture[12, 60].tolist() == [220, 120, 30]
    assert picture[60, 12].tolist() == [235, 235, 235]
