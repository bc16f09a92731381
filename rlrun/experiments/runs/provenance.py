"""Provenance of a run: command line, commits of the user's code, and machine."""

from __future__ import annotations

import os
import platform
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

_SECRET_WORDS = frozenset({"key", "token", "secret", "password"})
LEFT_OUT = "***"
"""Text that replaces a secret."""
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_NVIDIA = Path("/proc/driver/nvidia/gpus")
_CPUS = Path("/proc/cpuinfo")


def typed_command(words: Sequence[str]) -> str:
    """Command line as typed, with secret values of `--set` masked.

    A value is secret if one of the words in its name is key, token, secret or password.

    Examples:
        >>> typed_command(["rlrun", "train", "--set", "loggers.wandb.api_key=abc", "--set=config.max_tokens=5"])
        "rlrun train --set 'loggers.wandb.api_key=***' --set=config.max_tokens=5"
    """
    shown = []
    for before, word in zip(["", *words], words, strict=False):
        prefix = "--set=" if word.startswith("--set=") else ""
        is_setting = prefix or before == "--set"
        shown.append(prefix + _without_secret(word.removeprefix(prefix)) if is_setting else word)
    return shlex.join(shown)


def _without_secret(setting: str) -> str:
    """Masks the value in `path=value` if the last part of the path has a word for a secret."""
    path, equals, _ = setting.partition("=")
    return f"{path}={LEFT_OUT}" if equals and is_secret_name(path.rpartition(".")[2]) else setting


def is_secret_name(name: str) -> bool:
    """Whether a setting's name marks its value as secret: one of its words is key, token, secret or password.

    Examples:
        >>> is_secret_name("HF_TOKEN"), is_secret_name("max_tokens")
        (True, False)
    """
    return not _SECRET_WORDS.isdisjoint(re.split(r"[_.:-]", name.strip().lower()))


def commits(folders: Iterable[Path]) -> dict[str, str]:
    """Commits checked out in the git repositories that contain the given folders, by repository.

    Git's files are read directly, since running git is slow in a large repository. Uncommitted changes are therefore
    not noticed.

    Args:
        folders: The folders.
    """
    found = {}
    for folder in folders:
        place = folder.absolute()
        repository = next((above for above in (place, *place.parents) if (above / ".git").exists()), None)
        if repository is not None and (commit := _checked_out(repository / ".git")):
            found[str(repository)] = commit
    return found


def own_commit() -> dict[str, str]:
    """Commit of the git checkout that rlrun runs from, as {folder: commit}; {} for an installed package."""
    checkout = Path(__file__).parents[2]
    commit = _checked_out(checkout / ".git") if (checkout / ".git").exists() else ""
    return {str(checkout): commit} if commit else {}


def _checked_out(git: Path) -> str:
    """Commit of a repository's HEAD; "" before the first commit, or if it is unreadable.

    In a worktree or submodule, `.git` is a file that holds the git folder's path, and branches are in the common
    folder.
    """
    try:
        if git.is_file():
            git = git.parent / git.read_text().partition("gitdir:")[2].strip()
        head = (git / "HEAD").read_text().strip()
        name = head.partition("ref:")[2].strip()
        if not name:
            return head if _COMMIT.fullmatch(head) else ""
        shared = git / (git / "commondir").read_text().strip() if (git / "commondir").is_file() else git
        for file in (git / name, shared / name):
            if file.is_file():
                return _commit_in(file.read_text())
        packed = (shared / "packed-refs").read_text()
    except (OSError, ValueError):
        return ""
    lines = (line.split() for line in packed.splitlines())
    return next((_commit_in(line[0]) for line in lines if line[1:] == [name]), "")


def _commit_in(text: str) -> str:
    return text.strip() if _COMMIT.fullmatch(text.strip()) else ""


def machine() -> dict[str, str]:
    """Description of this machine as reported by the system: CPU, number of cores, and GPUs."""
    gpus = [_field(file, "Model") for file in sorted(_NVIDIA.glob("*/information"))]
    cpu = _field(_CPUS, "model name") or platform.processor() or platform.machine()
    return {"cpu": f"{os.cpu_count()} x {cpu}", "gpu": ", ".join(gpus) or "none"}


def _field(file: Path, name: str) -> str:
    """First value of a field in a file with lines `name : value`; "" if there is none."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    pairs = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in pairs if key.strip() == name), "")
