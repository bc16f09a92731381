import threading
from collections.abc import Iterator

import pytest
import torch
from torch._inductor import config, cpu_vec_isa

from rlrun.learner import compilation
from rlrun.learner.compilation import alone_with, compiler, expected_time, instruction_sets_work, loaded, traced


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
    waiting.join(600)
    assert found == [True]


@pytest.mark.parametrize(
    ("num_operations", "words"),
    [(250, "about 20 s"), (900, "about 30 s"), (1900, "about 50 s"), (2100, "about 1 min"), (6700, "about 3 min")],
)
def test_how_long_a_compilation_takes_is_told_by_the_size_of_the_update(num_operations, words):
    assert expected_time(num_operations) == words


def forget_instruction_sets() -> None:
    """Has the next compilation find out anew which instructions may be used."""
    cpu_vec_isa.valid_vec_isa_list.cache_clear()
    for kind in (cpu_vec_isa.VecAVX512, cpu_vec_isa.VecAVX512VNNI, cpu_vec_isa.VecAMX):
        kind.__bool__.cache_clear()


@pytest.fixture
def _fresh_instruction_sets() -> Iterator[None]:
    forget_instruction_sets()
    yield
    forget_instruction_sets()


@pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler here")
@pytest.mark.usefixtures("_fresh_instruction_sets")
def test_instructions_taken_for_granted_are_those_that_torch_finds_by_trying():
    found = []
    for known in (instruction_sets_work(), None):
        forget_instruction_sets()
        with config.patch({"cpp.vec_isa_ok": known}):
            chosen = cpu_vec_isa.pick_vec_isa()
            found.append((str(chosen), chosen.build_arch_flags(), chosen.build_macro(), chosen.bit_width()))
    assert found[0] == found[1]


@pytest.mark.regress  # two compilations
@pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler here")
@pytest.mark.usefixtures("_fresh_instruction_sets")
def test_instructions_taken_for_granted_give_the_bits_of_those_that_torch_finds_by_trying(tmp_path, monkeypatch):
    def function(x):
        return [(x @ x.t()).exp().sum(1).log1p(), x.tanh().pow(3)]

    x, found = torch.linspace(-3, 3, 37 * 16).reshape(37, 16), []
    for known in (instruction_sets_work(), None):
        monkeypatch.setattr(compilation, "instruction_sets_work", lambda known=known: known)
        forget_instruction_sets()
        package = traced(function, [x], tmp_path / str(known), lambda message: None)
        found.append(loaded(package)([x.clone()]))
    assert all(torch.equal(granted, tried) for granted, tried in zip(*found, strict=True))


@pytest.mark.parametrize(
    ("capability", "has_avx512", "expected"),
    [("AVX512", True, True), ("AVX2", False, True), ("AVX2", True, None), ("DEFAULT", False, None)],
)
def test_instructions_are_taken_for_granted_where_torch_itself_uses_the_best_of_them(
    monkeypatch, capability, has_avx512, expected
):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.cpu, "_is_avx512_supported", lambda: has_avx512)
    assert instruction_sets_work() is expected
