"""Only kernels whose instructions the processor supports are used; others are named and left out."""

from __future__ import annotations

import pytest

from scripts import test_under_kernels as script

BEFORE_AVX_512 = "processor\t: 0\nflags\t\t: fpu pni avx fma avx2\nbugs\t\t: none\n"


def test_kernels_whose_instructions_the_processor_lacks_are_left_out_and_named(
    capsys: pytest.CaptureFixture[str], wording
) -> None:
    found = script.usable(script.ALL, script.flags_of(BEFORE_AVX_512))
    assert [kernels.openblas for kernels in found] == ["Prescott", "Sandybridge", "Haswell"]
    (told,) = capsys.readouterr().out.splitlines()
    assert told == wording("OPENBLAS_CORETYPE", "SkylakeX", "ATEN_CPU_CAPABILITY")


def test_the_test_files_named_for_runs_under_kernels_exist() -> None:
    assert all((script.ROOT / name).exists() for name in (*script.QUICK, *script.FOLDERS, *script.OWN))
