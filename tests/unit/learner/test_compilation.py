import threading

import pytest

from rlrun.learner.compilation import alone_with, expected_time


def test_who_wants_to_make_the_same_file_waits_and_finds_it(tmp_path):
    package, found, is_in = tmp_path / "compiled" / "update.pt2", [], threading.Event()

    def second():
        is_in.wait()
        with alone_with(package):
            found.append(package.exists())

    waiting = threading.Thread(target=second)
    waiting.start()
    with alone_with(package):
        is_in.set()
        waiting.join(0.2)
        assert waiting.is_alive()
        package.touch()
    waiting.join(10)
    assert found == [True]


@pytest.mark.parametrize(
    ("num_operations", "words"),
    [(250, "about 20 s"), (900, "about 30 s"), (1900, "about 50 s"), (2100, "about 1 min"), (6700, "about 3 min")],
)
def test_how_long_a_compilation_takes_is_told_by_the_size_of_the_update(num_operations, words):
    assert expected_time(num_operations) == words
