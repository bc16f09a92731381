"""Board games are over exactly at a win or a full board, according to an independent oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlrun.toys.board_games import BoardGame, ConnectFour, Hex, TicTacToe

GAMES = [(TicTacToe, 3), (ConnectFour, 4)]


def has_line(pieces: Any, length: int) -> bool:
    """Finds lines by shifting bits: a row of the board is a byte whose last bits are empty."""
    bits = int.from_bytes(np.packbits(pieces.astype(np.bool_), axis=1).tobytes(), "big")
    for shift in (1, 8, 7, 9):
        line = bits
        for i in range(1, length):
            line &= bits >> i * shift
        if line:
            return True
    return False


@pytest.mark.parametrize(("make", "length"), GAMES)
def test_random_games_end_exactly_at_a_win_or_a_full_board_and_their_returns_sum_to_0(
    make: type[BoardGame], length: int
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
            assert (seen[..., 0] == before[..., 1]).all()  # one player's pieces are the opponent's in the other's view
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
    assert results[1.0] > results[-1.0] > 100  # the first player has better chances
    assert results[0.0] > 0


def is_connected(board: Any, player: int) -> bool:
    """Finds connections by joining sets of neighboring cells: from row 0 to the last for 1, from column 0 for 2."""
    size = len(board)
    leader = {(row, column): (row, column) for row, column in np.argwhere(board == player).tolist()}

    def find(cell: tuple[int, int]) -> tuple[int, int]:
        while leader[cell] != cell:
            cell = leader[cell]
        return cell

    for row, column in leader:
        for neighbour in ((row, column + 1), (row + 1, column), (row + 1, column - 1)):
            if neighbour in leader:
                leader[find(neighbour)] = find((row, column))
    along = 0 if player == 1 else 1
    first = {find(cell) for cell in leader if cell[along] == 0}
    return any(find(cell) in first for cell in leader if cell[along] == size - 1)


@pytest.mark.parametrize("size", [4, 5, 7])
def test_random_games_of_hex_end_exactly_at_a_connection(size: int) -> None:
    world, generator, wins = Hex(size), np.random.default_rng(0), [0, 0]
    for _ in range(100):
        shown, board = world.reset(0), np.zeros((size, size), np.int8)
        for turn in range(size * size):
            mover, player = world.possible_agents[turn % 2], turn % 2 + 1
            ((agent, seen),) = shown.items()
            assert agent == mover
            mine = board if player == 1 else board.T  # each player sees its own sides at the top and bottom
            assert (seen["observation"] == np.stack([mine == player, mine == 3 - player], -1)).all()
            assert (seen["action_mask"] == (mine == 0).ravel()).all()
            action = int(generator.choice(np.flatnonzero(seen["action_mask"])))
            mine[divmod(action, size)] = player
            step = world.step({mover: action})
            assert (world.board() == board).all()
            assert step.ended == is_connected(board, player)
            if step.ended:
                assert step.rewards == {mover: 1.0, world.possible_agents[1 - turn % 2]: -1.0}
                wins[turn % 2] += 1
                break
            shown = step.observations
    assert sum(wins) == 100  # no draws
    assert min(wins) > 20


def test_a_hex_board_that_has_the_size_of_a_tic_tac_toe_board_is_rejected(wording) -> None:
    with wording.raised(ValueError, "26"):
        Hex(3)


def test_the_picture_of_hex_shifts_its_rows_and_shows_the_sides_of_the_players() -> None:
    world = Hex(4)
    world.reset(0)
    world.step({"x": 4})
    picture = world.render()
    assert picture.shape == (6 * 24, 6 * 24 + 5 * 12, 3)
    blue, orange, empty = [40, 90, 200], [220, 120, 30], [235, 235, 235]
    assert picture[12, 36].tolist() == picture[5 * 24 + 12, 5 * 12 + 36].tolist() == blue  # the top and bottom edges
    assert picture[36, 24].tolist() == orange  # the left edge
    assert picture[2 * 24 + 12, 2 * 12 + 36].tolist() == blue  # the piece: second row, first cell
    assert picture[36, 12 + 36].tolist() == picture[-1, 0].tolist() == empty


@pytest.mark.parametrize("make", [TicTacToe, ConnectFour, Hex])
def test_observations_of_board_games_belong_to_their_space(make: type[BoardGame]) -> None:
    world = make()
    shown = world.reset(0)
    for agent, seen in shown.items():
        assert world.spaces(agent).observation.contains(seen)
    step = world.step({world.possible_agents[0]: 2})
    for agent, seen in step.observations.items():
        assert world.spaces(agent).observation.contains(seen)


def test_a_piece_falls_to_the_lowest_empty_cell_and_a_full_column_is_illegal(wording) -> None:
    world = ConnectFour()
    world.reset(0)
    for turn in range(6):
        step = world.step({world.possible_agents[turn % 2]: 3})
        mover_plane = 1  # the opponent's pieces, as the next player sees them
        assert step.observations[world.possible_agents[1 - turn % 2]]["observation"][5 - turn, 3, mover_plane] == 1
    assert step.observations["red"]["action_mask"].tolist() == [1, 1, 1, 0, 1, 1, 1]
    with wording.raised(ValueError):
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
