"""Builds the distributions of a release, and tries out the wheel in an empty environment and folder.

    python -m scripts.release_check --dist dist    with all dependencies, as a user installs it; minutes
    python -m scripts.release_check --extras       and with each extra on its own; half an hour

twine checks the metadata and the rendering of the README. The wheel is built from the sdist, so the check fails if the
sdist lacks a file. An environment with an extra takes all other packages from the environment of the plain wheel. The
test suite tests the wheel in the same way, with the dependencies of its own environment (`reuse`), in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "rlrun", "configs", "docs", "examples")
"""Sources of the distributions; `rlrun/configs`, `rlrun/docs` and `rlrun/examples` are links to folders in the root."""

COMMANDS = (
    "--version",
    "examples cartpole",
    "examples --copy lab",
    "docs running",
    "train cartpole/ppo --set stop.env_steps=500 --executor local",
    "report cartpole-ppo -o report.html",
    "train lab/room_awr.yaml --set stop.env_steps=500 --executor local",
)
"""Commands of rlrun to try in an empty folder, one after another."""

_BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, 'build_' + sys.argv[1])(sys.argv[2])"


def build(folder: Path, root: Path = ROOT) -> tuple[Path, Path]:
    """Builds sdist and wheel from a copy of the sources.

    Args:
        folder: Folder of the distributions; created if missing.
        root: The checkout.

    Returns:
        The sdist, and the wheel that was built from it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "source")
        source.mkdir()
        for part in SOURCES:
            if (root / part).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(root / part, source / part, symlinks=True, ignore=ignored)
            else:
                shutil.copy(root / part, source)
        sdist = _built("sdist", source, folder)
        with tarfile.open(sdist) as archive:
            archive.extractall(name, filter="data")
        return sdist, _built("wheel", Path(name, sdist.name.removesuffix(".tar.gz")), folder)


def _built(kind: str, source: Path, folder: Path) -> Path:
    suffix = {"sdist": ".tar.gz", "wheel": ".whl"}[kind]
    for former in folder.glob(f"rlrun-*{suffix}"):
        former.unlink()
    subprocess.run(
        [sys.executable, "-c", _BUILD, kind, str(folder.absolute())], cwd=source, check=True, stdout=subprocess.DEVNULL
    )
    (built,) = folder.glob(f"rlrun-*{suffix}")
    return built


def install(wheel: Path, place: Path, *, reuse: bool) -> Path:
    """Installs a wheel into a new virtual environment.

    Args:
        wheel: The wheel.
        place: Folder for the environment.
        reuse: Whether to use the dependencies of the current environment instead of installing them.

    Returns:
        The environment's Python.
    """
    python = new_environment(place, with_pip=not reuse)
    if not reuse:
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
        return python
    packages = packages_of(place)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def new_environment(place: Path, *, with_pip: bool = True) -> Path:
    """Makes a virtual environment in a folder, and returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", *([] if with_pip else ["--without-pip"]), str(place)], check=True)
    return place / "bin" / "python"


def packages_of(place: Path) -> Path:
    """Folder of the packages of a virtual environment."""
    return Path(sysconfig.get_path("purelib", vars={"base": str(place)}))


def run_commands(python: Path, folder: Path, commands: Iterable[str] = COMMANDS) -> dict[str, str]:
    """Runs commands of rlrun in a folder.

    Returns:
        The stdout of each command.

    Raises:
        SystemExit: A command failed; the message contains its output.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(("RLRUN_", "PYTHON"))}
    printed = {}
    for command in commands:
        words = [str(python), "-m", "rlrun", *command.split()]
        done = subprocess.run(words, cwd=folder, env=own, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"rlrun {command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        printed[command] = done.stdout
    return printed


def check_metadata(place: Path, distributions: Sequence[Path]) -> None:
    """Checks the metadata and the README of distributions as the package index would.

    Args:
        place: Folder of the environment in which twine is installed.
        distributions: The sdist and the wheel.

    Raises:
        SystemExit: twine found a mistake, which it prints.
    """
    python = new_environment(place)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "twine"], check=True)
    if subprocess.run([python, "-m", "twine", "check", "--strict", *map(str, distributions)]).returncode:
        raise SystemExit("twine refuses the distributions")


def extras(root: Path = ROOT) -> list[str]:
    """Names of the extras in pyproject.toml, without the developers' extra."""
    declared = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    return [name for name in declared if name != "dev"]


def check_extra(wheel: Path, extra: str, place: Path, plain: Path) -> None:
    """Installs the wheel with one extra and asks `rlrun doctor` whether it is complete.

    Args:
        wheel: The wheel.
        extra: Name of the extra.
        place: Folder for the new environment.
        plain: Folder of the environment with the plain wheel; the new environment can also import its packages.

    Raises:
        SystemExit: Modules of the extra are missing.
    """
    python = new_environment(place)
    (packages_of(place) / "plain.pth").write_text(f"{packages_of(plain)}\n")
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel.absolute()}[{extra}]"], check=True)
    printed = run_commands(python, place, ["doctor --json"])["doctor --json"]
    (found,) = (one for one in json.loads(printed)["findings"] if one["subject"] == f"extra {extra}")
    if found["verdict"] != "ok":
        raise SystemExit(f"the extra {extra}: {found['value']}")
    print(f"extra {extra}: installed alone, complete", flush=True)


def demand_tag(tag: str, root: Path = ROOT) -> None:
    """Checks that a tag matches the version in pyproject.toml, the only place where the version is written.

    Raises:
        SystemExit: The tag names another version.
    """
    version = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    if tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, and the version in pyproject.toml is {version}: it must be v{version}")


def main(words: Sequence[str] | None = None) -> None:
    """Builds, installs and tries out a release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder of the distributions (dist)")
    parser.add_argument("--tag", help="the release's tag, which must name the version in pyproject.toml")
    parser.add_argument("--extras", action="store_true", help="also install each extra alone; half an hour")
    given = parser.parse_args(words)
    folder: Path = given.dist
    if given.tag is not None:
        demand_tag(given.tag)
    sdist, wheel = build(folder)
    with tempfile.TemporaryDirectory() as name:
        empty, plain = Path(name, "empty"), Path(name, "venv")
        empty.mkdir()
        check_metadata(Path(name, "twine"), (sdist, wheel))
        printed = run_commands(install(wheel, plain, reuse=False), empty)
        for extra in extras() if given.extras else ():
            check_extra(wheel, extra, Path(name, "extra"), plain)
            shutil.rmtree(Path(name, "extra"))
    print(f"{sdist}\n{wheel}\n{printed['--version']}{len(printed)} commands work in an empty environment")


if __name__ == "__main__":
    main()
