import threading

from rlrun.learner.compilation import alone_with


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
