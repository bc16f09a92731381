import copy
import errno
import hashlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.checkpoint.durable import explained_full_disk
from rlrun.engine.checkpoint.format import (
    Content,
    _bytes_on_disk,
    _read_arrays,
    is_checkpoint,
    read_checkpoint,
    verify_checkpoint,
    write_checkpoint,
)
from rlrun.engine.checkpoint.manifest import read_manifest, rlrun_version
from rlrun.engine.messages.errors import CheckpointCorrupt, CheckpointError, OutOfResources

FILES = [
    "manifest.json",
    "optimizers/default.safetensors",
    "policies/default.safetensors",
    "spec.yaml",
    "state.json",
    "state.npz",
]


def content(scale: float = 1.0) -> Content:
    rng = np.random.default_rng(0)
    return Content(
        manifest={
            "algorithm": "ppo",
            "iteration": 10,
            "bounds": [float("-inf"), float("inf")],
            "update_executor": "eager",
        },
        spec={"env": {"id": "CartPole-v1"}, "config": {"lr": 1e-4, "name": "1e-4"}, "seed": 3},
        tensors={
            "policies/default": {"w": rng.normal(size=(4, 3)).astype(np.float32) * scale, "b": np.zeros(3, np.float32)},
            "optimizers/default": {"steps": np.array(7.0, np.float32)},
        },
        state={"rng": {"state": 2**127 + 5}, "return": float("nan"), "actions": np.arange(12), "obs": (np.zeros(2), 1)},
    )


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("pristine") / "iteration_000010", content())


@pytest.fixture
def checkpoint(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "copy"))


def resealed(directory: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Changes the manifest like an attacker, with the correct digest of the changed text."""
    path = directory / "manifest.json"
    data = json.loads(path.read_text())
    change(data)
    data["manifest_sha256"] = "0" * 64
    blank = json.dumps(data, indent=2) + "\n"
    path.write_text(blank.replace("0" * 64, hashlib.sha256(blank.encode()).hexdigest(), 1))


def replaced(directory: Path, name: str, data: Any) -> None:
    """Changes a file and its entry in the manifest."""
    (directory / name).write_bytes(data)
    entry = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    resealed(directory, lambda manifest: manifest["files"].update({name: entry}))


def test_a_checkpoint_is_restored_completely(checkpoint: Path) -> None:
    found, given_content = read_checkpoint(checkpoint), content()
    assert found.manifest == given_content.manifest
    assert found.spec == given_content.spec
    assert found.tensors.keys() == given_content.tensors.keys()
    for stem, named in given_content.tensors.items():
        for name, array in named.items():
            np.testing.assert_array_equal(found.tensors[stem][name], array, strict=True)
    assert found.state["rng"] == given_content.state["rng"]
    assert np.isnan(found.state["return"])
    np.testing.assert_array_equal(found.state["actions"], np.arange(12), strict=True)
    assert isinstance(found.state["obs"], tuple)


def test_a_checkpoint_consists_of_exactly_the_files_its_manifest_lists(checkpoint: Path) -> None:
    assert sorted(str(path.relative_to(checkpoint)) for path in checkpoint.rglob("*") if path.is_file()) == FILES
    manifest = verify_checkpoint(checkpoint)
    assert sorted(manifest.files) == FILES[1:]
    assert manifest.rlrun_version == rlrun_version()
    assert manifest.about["algorithm"] == "ppo"


def test_tensors_of_any_memory_layout_are_restored_writable_and_c_contiguous(tmp_path: Path) -> None:
    arrays = {
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "strided": np.arange(10)[::3],
        "big_endian": np.arange(3, dtype=">i4"),
        "scalar": np.array(3, np.int64),
        "empty": np.zeros((0, 2), np.float32),
        "bools": np.array([True, False]),
    }
    found = read_checkpoint(write_checkpoint(tmp_path / "c", Content({}, {}, {"policies/p": arrays}))).tensors[
        "policies/p"
    ]
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].shape == array.shape
        assert found[name].flags.writeable
        assert found[name].flags.c_contiguous


def test_an_array_unsupported_by_safetensors_is_refused_and_leaves_no_files(tmp_path: Path) -> None:
    # The reason comes from safetensors, whose wording differs between versions.
    with pytest.raises(CheckpointError, match=r"^policies/p: .*complex128"):
        write_checkpoint(tmp_path / "c", Content({}, {}, {"policies/p": {"x": np.zeros(2, complex)}}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FILES)
@settings(deadline=None, max_examples=40, derandomize=True)
@given(data=st.data())
def test_a_flipped_bit_is_detected_and_the_file_is_named(pristine: Path, name: str, data: Any) -> None:
    path = pristine / name
    whole = path.read_bytes()
    position = data.draw(st.integers(0, 8 * len(whole) - 1))
    altered = bytearray(whole)
    altered[position // 8] ^= 1 << position % 8
    path.write_bytes(altered)
    try:
        for reads in (verify_checkpoint, read_checkpoint):
            with pytest.raises(CheckpointCorrupt, match=f"{name} (is truncated or|was) altered"):
                reads(pristine)
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("name", FILES)
@settings(deadline=None, max_examples=25, derandomize=True)
@given(data=st.data())
def test_a_truncated_file_is_detected_and_named(pristine: Path, name: str, data: Any) -> None:
    path = pristine / name
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    try:
        with pytest.raises(CheckpointCorrupt, match=f"{name} is truncated"):
            read_checkpoint(pristine)
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("name", FILES)
@settings(deadline=None, max_examples=25, derandomize=True)
@given(data=st.data())
def test_a_tail_filled_with_zeros_is_detected_and_the_file_is_named(pristine: Path, name: str, data: Any) -> None:
    path = pristine / name
    whole = path.read_bytes()
    last_byte_that_counts = len(whole.rstrip(b"\0"))
    start = data.draw(st.integers(0, last_byte_that_counts - 1))
    path.write_bytes(whole[:start] + bytes(len(whole) - start))
    try:
        with pytest.raises(CheckpointCorrupt, match=f"{name} (is truncated or|was) altered"):
            read_checkpoint(pristine)
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("name", FILES)
def test_a_deleted_file_is_detected_and_named(checkpoint: Path, name: str) -> None:
    (checkpoint / name).unlink()
    with pytest.raises(CheckpointCorrupt, match=f"{name} is missing"):
        read_checkpoint(checkpoint)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_grew_is_detected_and_named(checkpoint: Path, name: str) -> None:
    with (checkpoint / name).open("ab") as file:
        file.write(b"\n")
    with pytest.raises(CheckpointCorrupt, match=f"{name} is (too long|truncated or altered)"):
        read_checkpoint(checkpoint)


@pytest.mark.parametrize("name", ["extra.py", "policies/extra.safetensors", "new/extra"])
def test_an_added_file_is_detected_and_named(checkpoint: Path, name: str, wording) -> None:
    (checkpoint / name).parent.mkdir(exist_ok=True)
    (checkpoint / name).write_bytes(b"x")
    with wording.raised(CheckpointCorrupt, name):
        read_checkpoint(checkpoint)


def test_a_ds_store_file_in_a_checkpoint_does_not_count_as_damage(checkpoint: Path) -> None:
    (checkpoint / ".DS_Store").write_bytes(b"x")
    verify_checkpoint(checkpoint)


def test_two_swapped_files_are_both_named(checkpoint: Path) -> None:
    first, second = checkpoint / FILES[1], checkpoint / FILES[2]
    first_bytes, second_bytes = first.read_bytes(), second.read_bytes()
    first.write_bytes(second_bytes)
    second.write_bytes(first_bytes)
    with pytest.raises(CheckpointCorrupt) as caught:
        read_checkpoint(checkpoint)
    assert FILES[1] in str(caught.value)
    assert FILES[2] in str(caught.value)


def test_all_damaged_files_are_named_in_one_error(checkpoint: Path, wording) -> None:
    (checkpoint / "state.npz").unlink()
    (checkpoint / "extra").touch()
    (checkpoint / "spec.yaml").write_bytes(b"")
    with pytest.raises(CheckpointCorrupt) as caught:
        read_checkpoint(checkpoint)
    assert str(caught.value).partition(": ")[2] == (wording(spec_size(content()), "state.npz", "spec.yaml"))


def spec_size(of: Content) -> int:
    from rlrun.engine.checkpoint.plain_yaml import dump_plain_yaml

    return len(dump_plain_yaml(of.spec).encode())


def test_a_file_copied_from_another_checkpoint_is_detected_and_named(checkpoint: Path, tmp_path: Path) -> None:
    other = write_checkpoint(tmp_path / "other", content(scale=2.0))
    shutil.copy(other / FILES[2], checkpoint / FILES[2])
    with pytest.raises(CheckpointCorrupt, match=f"{FILES[2]} was altered"):
        read_checkpoint(checkpoint)


def test_links_and_pipes_in_place_of_files_are_reported_as_damage_and_not_read(
    checkpoint: Path, tmp_path: Path, wording
) -> None:
    outside = tmp_path / "outside"
    shutil.move(checkpoint / "state.json", outside)
    (checkpoint / "state.json").symlink_to(outside)
    with wording.raised(CheckpointCorrupt, "state.json"):
        read_checkpoint(checkpoint)
    (checkpoint / "state.json").unlink()
    os.mkfifo(checkpoint / "state.json")
    with wording.raised(CheckpointCorrupt, "state.json"):
        read_checkpoint(checkpoint)
    (checkpoint / "state.json").unlink()
    shutil.move(outside, checkpoint / "state.json")
    shutil.move(checkpoint / "manifest.json", outside)
    (checkpoint / "manifest.json").symlink_to(outside)
    with wording.raised(CheckpointCorrupt, "manifest.json"):
        read_checkpoint(checkpoint)


def test_a_checkpoint_can_be_read_through_a_link_to_its_directory(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(checkpoint)
    assert read_checkpoint(tmp_path / "latest").manifest["iteration"] == 10


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/passwd", "policies/../../x", "a//b", ".hidden", "a/./b", "", "a\\b", "x\n"]
)
def test_a_manifest_cannot_name_files_outside_the_checkpoint(checkpoint: Path, name: str, wording) -> None:
    resealed(checkpoint, lambda data: data["files"].update({name: {"bytes": 1, "sha256": "0" * 64}}))
    with wording.raised(CheckpointCorrupt, "manifest.json"):
        read_checkpoint(checkpoint)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["files"]["state.json"].update(bytes=-1), r"manifest\.json:"),
        (lambda data: data["files"]["state.json"].update(bytes=True), r"manifest\.json:"),
        (lambda data: data["files"]["state.json"].update(sha256="x"), r"manifest\.json:"),
        (lambda data: data["files"]["state.json"].pop("sha256"), r"manifest\.json:"),
        (lambda data: data.update(files=[]), r"manifest\.json:"),
        (lambda data: data.pop("files"), r"manifest\.json:"),
        (lambda data: data["files"].pop("state.json"), "manifest.json does not list state.json"),
        (lambda data: data.update(bounds={"$array": 0}), r"manifest\.json:"),
    ],
    ids=[
        "negative size",
        "size no number",
        "digest",
        "no digest",
        "files a list",
        "no files",
        "a file left out",
        "array",
    ],
)
def test_a_crafted_manifest_is_refused(checkpoint: Path, change: Callable[[dict[str, Any]], Any], message: str) -> None:
    resealed(checkpoint, change)
    with pytest.raises(CheckpointCorrupt, match=message):
        read_checkpoint(checkpoint)


def zipped(compression: int, members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def pickled_array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([object()]), allow_pickle=True)
    return buffer.getvalue()


def overlapping_members() -> bytes:
    """Returns an archive with two members that share the same bytes of the file."""
    buffer = io.BytesIO()
    array = io.BytesIO()
    np.save(array, np.zeros(1000))
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("0.npy", array.getvalue())
        twin = copy.copy(archive.infolist()[0])
        twin.filename = "1.npy"
        archive.filelist.append(twin)
    return buffer.getvalue()


def huge_array() -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (2**45,)})
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("state.npz", zipped(zipfile.ZIP_DEFLATED, {"0.npy": b"\0" * 10_000_000})),
        ("state.npz", zipped(zipfile.ZIP_STORED, {"../0.npy": b""})),
        ("state.npz", zipped(zipfile.ZIP_STORED, {"0.npy": b""})),
        ("state.npz", zipped(zipfile.ZIP_STORED, {"0.npy": pickled_array()})),
        ("state.npz", zipped(zipfile.ZIP_STORED, {"0.npy": huge_array()})),
        ("state.npz", overlapping_members()),
        ("state.npz", b"no archive"),
        ("state.json", b"[" * 100_000),
        ("state.json", b'{"x": {"$array": 99}}'),
        ("state.json", b"\xff"),
        ("spec.yaml", b"!!python/object/apply:os.system ['true']"),
        ("spec.yaml", b"a: &a [1]\nb: *a"),
        ("spec.yaml", b"- a list"),
        ("policies/default.safetensors", b"\xff" * 100),
        ("policies/default.safetensors", b""),
    ],
    ids=[
        "zip bomb",
        "member outside",
        "empty member",
        "pickled array",
        "array of 256 TB",
        "overlapping members",
        "no archive",
        "deep JSON",
        "array that is not there",
        "no text",
        "python tag",
        "alias",
        "spec a list",
        "no safetensors",
        "empty safetensors",
    ],
)
def test_a_crafted_file_with_the_right_digest_is_refused_and_named(checkpoint: Path, name: str, data: Any) -> None:
    replaced(checkpoint, name, data)
    verify_checkpoint(checkpoint)
    with pytest.raises(CheckpointCorrupt, match=f"cannot parse {name}"):
        read_checkpoint(checkpoint)


def test_overlapping_archive_members_are_refused_before_any_of_them_is_read(wording) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(overlapping_members())
        with wording.raised(ValueError):
            _read_arrays(file)


def test_a_sparse_file_is_refused_before_it_is_read(checkpoint: Path) -> None:
    name = "policies/default.safetensors"
    for size in (10**12, 10**8):
        with (checkpoint / name).open("r+b") as file:
            file.truncate(size)
        resealed(checkpoint, lambda manifest, size=size: manifest["files"][name].update(bytes=size))
        told = f"{name} is a sparse file: most of its {size / 1e6:.1f} MB are not on disk"
        with pytest.raises(CheckpointCorrupt, match=told):
            verify_checkpoint(checkpoint)


def test_no_file_is_treated_as_sparse_if_the_file_system_cannot_report_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(descriptor: int, offset: int, how: int) -> int:
        if how in (os.SEEK_DATA, os.SEEK_HOLE):
            raise OSError(errno.EINVAL, "no such whence")
        return offset

    monkeypatch.setattr("rlrun.engine.checkpoint.format.os.lseek", refused)
    assert _bytes_on_disk(0, 10**9) == 10**9


def test_the_error_for_a_checkpoint_in_a_newer_format_names_the_version_that_wrote_it(checkpoint: Path) -> None:
    resealed(checkpoint, lambda data: data.update(format_version=3, rlrun_version="9.1.0"))
    with pytest.raises(
        CheckpointError, match=r"written by rlrun 9\.1\.0 in format version 3, but this rlrun"
    ) as caught:
        read_checkpoint(checkpoint)
    assert not isinstance(caught.value, CheckpointCorrupt)


def test_paths_that_are_not_checkpoints_are_refused_with_a_one_line_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "manifest.json").write_text('{"name": "a web page"}')
    expected = {
        "nowhere": "does not exist",
        "file": "not a directory",
        "empty": "not a checkpoint: it has no manifest.json",
        "web": "not a checkpoint: its manifest.json is not a checkpoint's manifest",
    }
    for name, message in expected.items():
        with pytest.raises(CheckpointError) as caught:
            read_checkpoint(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}: {message}"
        assert not isinstance(caught.value, CheckpointCorrupt)
        assert not is_checkpoint(tmp_path / name)


def test_a_checkpoint_replaces_an_older_one_and_an_empty_directory(tmp_path: Path) -> None:
    target = tmp_path / "c"
    target.mkdir()
    write_checkpoint(target, content())
    write_checkpoint(target, content(scale=3.0))
    np.testing.assert_array_equal(
        read_checkpoint(target).tensors["policies/default"]["w"], content(scale=3.0).tensors["policies/default"]["w"]
    )
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_damaged_checkpoint_is_replaced(checkpoint: Path) -> None:
    (checkpoint / "manifest.json").unlink()
    write_checkpoint(checkpoint, content())
    verify_checkpoint(checkpoint)


def test_files_and_folders_that_are_not_checkpoints_are_not_replaced(tmp_path: Path, wording) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    (tmp_path / "file").touch()
    for name in ("thesis", "file"):
        with wording.raised(CheckpointError):
            write_checkpoint(tmp_path / name, content())
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"


def test_a_failed_write_leaves_no_files_and_keeps_the_old_checkpoint(tmp_path: Path, wording) -> None:
    target = write_checkpoint(tmp_path / "c", content())
    before = read_manifest(target)
    with wording.raised(CheckpointError, "state.x", "builtins.object"):
        write_checkpoint(target, Content({}, {}, {}, {"x": object()}))
    with wording.raised(CheckpointError, "manifest.x", "numpy.ndarray"):
        write_checkpoint(target, Content({"x": np.zeros(1)}, {}))
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert verify_checkpoint(target) == before


@pytest.mark.parametrize("stem", ["../x", "/x", "", "a b", ".x"])
def test_a_file_stem_that_is_not_a_plain_name_raises_a_value_error(tmp_path: Path, stem: str, wording) -> None:
    with wording.raised(ValueError):
        write_checkpoint(tmp_path / "c", Content({}, {}, {stem: {}}))


def test_file_stems_that_differ_only_in_case_are_refused(tmp_path: Path, wording) -> None:
    with wording.raised(ValueError):
        write_checkpoint(tmp_path / "c", Content({}, {}, {"policies/a": {}, "policies/A": {}}))


def test_reserved_manifest_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\['files'\]"):
        write_checkpoint(tmp_path / "c", Content({"files": 1}, {}))


FILL_A_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from rlrun.engine.checkpoint.format import Content, write_checkpoint
from rlrun.engine.messages.errors import OutOfResources

target = Path(sys.argv[1])
small, large = np.zeros(10), np.zeros(1_000_000)
write_checkpoint(target, Content({}, {}, {}, {"x": small}))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
too_large = {
    "state.npz": Content({}, {}, {}, {"x": large}),
    "state.json": Content({}, {}, {}, {"x": "y" * 8_000_000}),
    "tensors": Content({}, {}, {"policies/p": {"x": large}}),
}
for name, content in too_large.items():
    for directory in (target, target.parent / "new"):
        try:
            write_checkpoint(directory, content)
        except OutOfResources as error:
            print(error)
"""


def test_a_full_disk_is_explained_and_leaves_earlier_checkpoints_alone(tmp_path: Path, wording) -> None:
    target = tmp_path / "c"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FILL_A_DISK, str(target)], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 6
    for line in lines:
        assert line == wording("ulimit -f", "8.0")
    assert done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    np.testing.assert_array_equal(read_checkpoint(target).state["x"], np.zeros(10))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT], ids=["disk", "quota"])
def test_a_full_disk_and_an_exhausted_quota_are_reported_the_same_way(tmp_path: Path, number: int) -> None:
    message = r"x: .*: it needs about 0\.0005 MB, but only .* MB is free"
    where = tmp_path / "not" / "there" / "x"
    with pytest.raises(OutOfResources, match=message), explained_full_disk(where, lambda: 500):
        raise OSError(number, os.strerror(number))


def test_disk_errors_other_than_lack_of_space_are_raised_unchanged(tmp_path: Path) -> None:
    with pytest.raises(InterruptedError), explained_full_disk(tmp_path, lambda: 0):
        raise InterruptedError(errno.EINTR, "no")


def test_a_missing_write_permission_is_reported(tmp_path: Path, wording) -> None:
    with wording.raised(OutOfResources), explained_full_disk(tmp_path, lambda: 0):
        raise PermissionError(errno.EACCES, "no")


def test_reading_a_checkpoint_imports_neither_torch_nor_ray(checkpoint: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from rlrun.engine.checkpoint.store import CheckpointStore; "
        "from rlrun.engine.checkpoint.format import read_checkpoint; read_checkpoint(Path(sys.argv[1])); "
        "assert not {'torch', 'ray', 'gymnasium', 'pickle5'} & set(sys.modules)"
    )
    assert importlib.util.find_spec("torch") is not None
    subprocess.run([sys.executable, "-c", code, str(checkpoint)], check=True)
