"""Files that contain their own digest: changes are detected, and files of earlier versions are accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlrun.engine.checkpoint.own_digest import (
    MAX_BYTES,
    json_with_digest,
    read_verified,
    with_new_digest,
    without_digest,
    yaml_with_digest,
)

DATA = {"name": "a", "steps": 12, "zeros": "0" * 64}
FILES = {"JSON": json_with_digest(DATA), "YAML": yaml_with_digest("name: a\nsteps: 12\n")}


@pytest.mark.parametrize("raw", FILES.values(), ids=list(FILES))
def test_any_altered_byte_or_truncation_is_detected(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(raw)
    assert read_verified(file) == raw
    for place in range(len(b'{\n  "sha256": "'), len(raw)):
        altered = bytearray(raw)
        altered[place] ^= 1
        for data in (bytes(altered), raw[:place]):
            file.write_bytes(data)
            with pytest.raises(ValueError, match="it was altered"):
                read_verified(file)


def test_adding_a_digest_to_a_file_does_not_change_its_data() -> None:
    assert {**json.loads(FILES["JSON"]), "sha256": ""} == {"sha256": "", **DATA}
    assert without_digest(FILES["YAML"].decode()) == without_digest("name: a\nsteps: 12\n") == "name: a\nsteps: 12\n"


def test_files_without_a_digest_are_accepted_and_a_changed_file_can_be_given_a_new_digest(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text('{"name": "a"}')
    assert read_verified(file) == with_new_digest(file.read_bytes()) == b'{"name": "a"}'
    file.write_bytes(with_new_digest(FILES["JSON"].replace(b"12", b"13")))
    assert json.loads(read_verified(file))["steps"] == 13


def test_too_large_files_and_folders_are_refused(tmp_path: Path, wording) -> None:
    file = tmp_path / "file"
    with file.open("wb") as sparse:
        sparse.truncate(10**11)
    with pytest.raises(ValueError, match=f"larger than {MAX_BYTES:,} bytes"):
        read_verified(file)
    with wording.raised(ValueError):
        read_verified(tmp_path)
