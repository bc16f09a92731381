"""Counts the lines of code of each algorithm, in rlrun and in other libraries, for scripts/lines_of_code.md.

    python -m scripts.lines_of_code write                      # counts rlrun's lines again and writes the page's table
    python -m scripts.lines_of_code others sb3 FOLDER          # counts another library's lines, in its source folder

An algorithm's own lines are the code lines of the files that only this algorithm imports, directly or indirectly: files
that it reaches and that no other algorithm reaches, except for algorithms that build on it. "All lines" are those of
all files that it reaches among the library's algorithms, including files that it shares with other algorithms. Neither
number includes the code that trains all algorithms. Code lines exclude blank lines, comments and docstrings. Imports
inside functions count; imports only for type checkers do not. The script imports and downloads nothing. The counts of
other libraries are kept in scripts/lines_of_code.yaml, with the versions of the libraries.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from rlrun.engine.settings.registry import BUILT_IN
from scripts.house import ROOT, Module, imports_of

COUNTS = ROOT / "scripts" / "lines_of_code.yaml"
PAGE = ROOT / "scripts" / "lines_of_code.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"

_OBJECT = re.compile(r"(\w+(?:\.\w+)+):\w+")
"""An import path in a string, such as the path of a worker class; it counts as an import."""

_OF_TENSORFLOW = ("_tf", "_tf_policy", "_tf_model")
"""Suffixes of RLlib's TensorFlow modules, which duplicate its torch modules."""


@dataclass(frozen=True)
class Library:
    """A library and its algorithms.

    Attributes:
        title: The library's name in the table.
        package: The package that contains its algorithms.
        algorithms: The entry module of each algorithm, by rlrun's name; names with a `-` exist in no other library.
        holding: Pattern of the modules that belong to algorithms, rather than to the code that trains all of them.
        alone: Whether each algorithm is a single self-contained file.
    """

    title: str
    package: str
    algorithms: Mapping[str, str]
    holding: str
    alone: bool = False


def _below(package: str, modules: Mapping[str, str]) -> dict[str, str]:
    return {name: f"{package}.{module}" for name, module in modules.items()}


RLRUN = Library(
    "rlrun", "rlrun", {name: path.partition(":")[0] for name, path in BUILT_IN.items()}, r"rlrun\.algorithms\."
)

OTHERS = {
    "rllib": Library(
        "RLlib",
        "ray.rllib",
        _below(
            "ray.rllib.agents",
            {
                "a2c": "a3c.a2c", "a3c": "a3c.a3c", "apex": "dqn.apex", "apex_ddpg": "ddpg.apex", "appo": "ppo.appo",
                "ars": "ars.ars", "bc": "marwil.bc", "cql": "cql.cql", "ddpg": "ddpg.ddpg", "ddppo": "ppo.ddppo",
                "dqn": "dqn.dqn", "dreamer": "dreamer.dreamer", "es": "es.es", "impala": "impala.impala",
                "maml": "maml.maml", "marwil": "marwil.marwil", "mbmpo": "mbmpo.mbmpo", "pg": "pg.pg", "ppo": "ppo.ppo",
                "qmix": "qmix.qmix", "r2d2": "dqn.r2d2", "sac": "sac.sac", "slateq": "slateq.slateq",
                "td3": "ddpg.td3", "-simple_q": "dqn.simple_q", "-rnnsac": "sac.rnnsac",
            },
        )
        | _below(
            "ray.rllib.contrib",
            {
                "alphazero": "alpha_zero.core.alpha_zero_trainer", "lints": "bandits.agents.lin_ts",
                "linucb": "bandits.agents.lin_ucb", "maddpg": "maddpg.maddpg",
            },
        ),
        holding=r"ray\.rllib\.(agents\.\w+|contrib)\.",
    ),
    "sb3": Library(
        "SB3",
        "stable_baselines3",
        _below(
            "stable_baselines3",
            {
                "a2c": "a2c.a2c", "ddpg": "ddpg.ddpg", "dqn": "dqn.dqn", "her": "her.her_replay_buffer",
                "ppo": "ppo.ppo", "sac": "sac.sac", "td3": "td3.td3",
            },
        ),
        holding=r"stable_baselines3\.(?!common)\w+\.",
    ),
    "tianshou": Library(
        "Tianshou",
        "tianshou",
        _below(
            "tianshou.algorithm",
            {
                "a2c": "modelfree.a2c", "bc": "imitation.imitation_base", "bcq": "imitation.bcq",
                "cql": "imitation.cql", "crr": "imitation.discrete_crr", "ddpg": "modelfree.ddpg",
                "dqn": "modelfree.dqn", "gail": "imitation.gail", "iqn": "modelfree.iqn", "npg": "modelfree.npg",
                "pg": "modelfree.reinforce", "ppo": "modelfree.ppo", "redq": "modelfree.redq", "sac": "modelfree.sac",
                "td3": "modelfree.td3", "td3_bc": "imitation.td3_bc", "trpo": "modelfree.trpo",
                "-bdqn": "modelfree.bdqn", "-c51": "modelfree.c51", "-discrete_bcq": "imitation.discrete_bcq",
                "-discrete_cql": "imitation.discrete_cql", "-discrete_sac": "modelfree.discrete_sac",
                "-fqf": "modelfree.fqf", "-icm": "modelbased.icm", "-psrl": "modelbased.psrl",
                "-qrdqn": "modelfree.qrdqn", "-rainbow": "modelfree.rainbow", "-random": "random",
            },
        ),
        holding=r"tianshou\.algorithm\.\w+\.",
    ),
    "cleanrl": Library(
        "CleanRL",
        "cleanrl",
        _below(
            "cleanrl",
            {
                "ddpg": "ddpg_continuous_action", "dqn": "dqn", "ppg": "ppg_procgen", "ppo": "ppo", "pqn": "pqn",
                "sac": "sac_continuous_action", "td3": "td3_continuous_action",
            },
        ),
        holding=r"cleanrl\.",
        alone=True,
    ),
}  # fmt: skip
"""Other libraries, by the name that the command takes."""


class Sources:
    """All files of a library.

    Args:
        root: The folder that contains the package.
        library: The library.
    """

    def __init__(self, root: Path, library: Library) -> None:
        self._library = library
        self._imports: dict[str, set[str]] = {}
        folder = root.joinpath(*library.package.split("."))
        found = {
            ".".join(path.relative_to(root).with_suffix("").parts): path.read_text()
            for path in sorted(folder.rglob("*.py"))
        }
        self._packages = {name.removesuffix(".__init__") for name in found if name.endswith(".__init__")}
        self._modules = {
            name.removesuffix(".__init__"): Module(name.removesuffix(".__init__"), text) for name, text in found.items()
        }

    def _has_later_step(self, module: str) -> bool:
        """Whether to follow a module's imports; the package itself and a registry would lead to every algorithm."""
        of_all = module == self._library.package or module.endswith(".registry")
        return not of_all and not module.endswith(_OF_TENSORFLOW)

    @cached_property
    def _exports(self) -> dict[str, dict[str, str]]:
        """For each package, the modules that its imported names come from."""
        return {
            package: {
                alias.asname or alias.name: self._source(package, node)
                for node, _ in imports_of(self._modules[package].tree, "module")
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            for package in self._packages
        }

    def counts(self) -> dict[str, list[int]]:
        """Own lines and all lines of each algorithm that exists in this version."""
        entries = {name: entry for name, entry in self._library.algorithms.items() if entry in self._modules}
        reached = {name: {entry} if self._library.alone else self._closure(entry) for name, entry in entries.items()}
        found = {}
        for name, entry in entries.items():
            others = [closure for closure in reached.values() if entry not in closure]
            own = self._lines(reached[name].difference(*others))
            found[name] = [own, self._lines({module for module in reached[name] if self._holds(module)})]
        return found

    def _holds(self, module: str) -> bool:
        return re.match(self._library.holding, module) is not None

    def _lines(self, modules: set[str]) -> int:
        return sum(self._modules[module].num_code_lines for module in modules)

    def _closure(self, entry: str) -> set[str]:
        found, waiting = {entry}, [entry]
        while waiting:
            module = waiting.pop()
            if module not in self._imports:
                imported = self._imported(self._modules[module])
                self._imports[module] = {name for name in imported if self._has_later_step(name)}
            new = self._imports[module] - found
            found |= new
            waiting += new
        return found

    def _imported(self, module: Module) -> Iterator[str]:
        """Yields the modules that a module imports; a name from a package counts for the module that defines it."""
        for node, level in imports_of(module.tree, "module"):
            if level == "types":
                continue
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self._modules)
                continue
            source = self._source(module.name, node)
            yield from filter(None, (self._origin(source, alias.name) for alias in node.names))
        for text in ast.walk(module.tree):
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                path = _OBJECT.fullmatch(text.value)
                if path and path[1] in self._modules:
                    yield path[1]

    def _source(self, importer: str, node: ast.ImportFrom) -> str:
        """Name of the module in a `from` import, with relative imports resolved."""
        if not node.level:
            return node.module or ""
        parts = importer.split(".")
        kept = parts[: len(parts) - node.level + (importer in self._packages)]
        return ".".join([*kept, *filter(None, [node.module])])

    def _origin(self, source: str, name: str) -> str | None:
        """Module that defines a name; None if it is not in the library."""
        if f"{source}.{name}" in self._modules:
            return f"{source}.{name}"
        while source in self._packages and name in self._exports[source] and self._exports[source][name] != source:
            source = self._exports[source][name]
            if f"{source}.{name}" in self._modules:
                return f"{source}.{name}"
        return source if source in self._modules else None


def table(ours: Mapping[str, Sequence[int]], others: Mapping[str, Any]) -> str:
    """The table of the algorithms that both rlrun and another library have, as Markdown.

    Args:
        ours: Own lines and all lines of rlrun's algorithms.
        others: For each library, its version and the own lines and all lines of its algorithms.
    """
    libraries = [name for name in OTHERS if name in others]
    titles = [f"{OTHERS[name].title} {others[name]['version']}" for name in libraries]
    lines = [f"| algorithm | rlrun | {' | '.join(titles)} |", f"|---|{'---:|' * (len(titles) + 1)}"]
    for algorithm in sorted(ours):
        counts = [others[name]["lines"].get(algorithm) for name in libraries]
        if any(counts):
            cells = ["-" if count is None else _cell(count) for count in counts]
            lines.append(f"| `{algorithm}` | {_cell(ours[algorithm])} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(lines: Sequence[int]) -> str:
    own, all_lines = lines
    return str(own) if own >= all_lines else f"{own} ({all_lines})"


def main() -> int:
    """Counts, and writes the page's table or another library's counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write")
    counting = commands.add_parser("others")
    counting.add_argument("library", choices=OTHERS)
    counting.add_argument("folder", type=Path, help="folder that holds the library's package")
    counting.add_argument("--version", required=True)
    asked = parser.parse_args()
    counted: dict[str, Any] = yaml.safe_load(COUNTS.read_text()) if COUNTS.exists() else {}
    if asked.command == "others":
        lines = Sources(asked.folder, OTHERS[asked.library]).counts()
        counted[asked.library] = {"version": asked.version, "lines": lines}
        head = "# Own lines and all lines of other libraries' algorithms; written by scripts/lines_of_code.py.\n"
        COUNTS.write_text(f"{head}{yaml.safe_dump(counted, default_flow_style=None, width=120)}")
    page = PAGE.read_text()
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    ours = Sources(ROOT, RLRUN).counts()
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(ours, counted)}\n\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
