"""What a run records about how it was started."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlrun.experiments.runs.provenance import commits, typed_command


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("loggers.wandb.api_key=abc", "loggers.wandb.api_key=***"),
        ("env.kwargs.TOKEN=a=b", "env.kwargs.TOKEN=***"),
        ("env.kwargs.db-password=x", "env.kwargs.db-password=***"),
        ("env.kwargs.the:secret=", "env.kwargs.the:secret=***"),
        ("config.max_tokens=5", "config.max_tokens=5"),
        ("keys.lr=1", "keys.lr=1"),
        ("token.size=1", "token.size=1"),
        ("config.monkey=1", "config.monkey=1"),
        ("env.kwargs.key", "env.kwargs.key"),
    ],
)
@pytest.mark.parametrize("joined", [True, False])
def test_values_of_settings_with_secret_names_are_masked_in_the_recorded_command(
    setting: str, shown: str, joined: bool
) -> None:
    words = [f"--set={setting}"] if joined else ["--set", setting]
    expected = [f"--set={shown}"] if joined else ["--set", shown]
    assert typed_command(["rlrun", *words, "-f", "a.yaml"]).replace("'", "").split() == [
        "rlrun",
        *expected,
        "-f",
        "a.yaml",
    ]


def test_options_without_secret_values_are_recorded_as_they_were_typed(wording) -> None:
    assert typed_command(["rlrun", "train", "--name", "key=5"]) == wording()


FIRST, SECOND = "1" * 40, "2" * 40


def repository(folder: Path) -> Path:
    (folder / ".git/refs/heads").mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git/refs/heads/main").write_text(f"{FIRST}\n")
    (folder / "specs").mkdir()
    return folder


def test_the_commit_of_a_repository_is_read_from_its_current_branch(tmp_path: Path) -> None:
    lab = repository(tmp_path / "lab")
    assert commits([lab / "specs", lab, tmp_path]) == {str(lab): FIRST}


def test_commits_are_also_read_from_detached_heads_and_packed_refs(tmp_path: Path) -> None:
    lab = repository(tmp_path / "lab")
    (lab / ".git/refs/heads/main").unlink()
    (lab / ".git/packed-refs").write_text(
        f"# pack-refs with: peeled\n{FIRST} refs/heads/other\n{SECOND} refs/heads/main\n"
    )
    assert commits([lab]) == {str(lab): SECOND}
    (lab / ".git/HEAD").write_text(f"{FIRST}\n")
    assert commits([lab]) == {str(lab): FIRST}


def test_the_commit_of_a_worktree_is_read_from_its_own_branch(tmp_path: Path) -> None:
    lab = repository(tmp_path / "lab")
    own = lab / ".git/worktrees/side"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/side\n")
    (own / "commondir").write_text("../..\n")
    (lab / ".git/refs/heads/side").write_text(f"{SECOND}\n")
    side = tmp_path / "side"
    side.mkdir()
    (side / ".git").write_text(f"gitdir: {own}\n")
    assert commits([side]) == {str(side): SECOND}


@pytest.mark.parametrize("head", ["", "ref: refs/heads/none", "nonsense", "ref: ../../../etc/passwd"])
def test_an_invalid_git_head_yields_no_commit(tmp_path: Path, head: str) -> None:
    lab = repository(tmp_path / "lab")
    (lab / ".git/HEAD").write_text(head)
    assert commits([lab]) == {}
