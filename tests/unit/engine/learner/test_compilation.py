import threading

import torch

from rlrun.engine.learner.executors import compilation
from rlrun.engine.learner.executors.compilation import alone_with, traced


def test_a_second_compilation_of_the_same_program_waits_and_then_finds_the_finished_file(tmp_path):
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
    waiting.join(600)
    assert found == [True]


def test_compiled_programs_that_differ_only_in_a_constant_have_different_names(tmp_path, monkeypatch):
    monkeypatch.setattr(compilation, "write_package", lambda graph, arguments, package: package.touch())

    def name(last):
        held = torch.tensor([1.0, 2.0, last])
        return traced(lambda x: [x * held], [torch.ones(3)], tmp_path, print).name

    assert name(3.0) == name(3.0) != name(4.0)
