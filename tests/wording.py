"""Full texts of messages, which tests compare with `tests/wording.yaml`; change the wording of a message there.

A test asks the fixture `wording` for its next recorded text, and states what must stay even if the wording changes:
kind, location, names.

    with wording.raised(SpecError, "spec.yaml:5:12", "lr"):
        load(...)
    assert done.stderr.splitlines() == wording("runs/a")      # the lines, all of them
    assert wording("runs/a") in done.stdout.splitlines()      # one of them

`make wording` (`pytest --write-wording`) records the current messages, so that diffs show sentences. A test fails if a
text is missing or differs, or if it no longer asks for a recorded text.
"""

import fcntl
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".yaml")

Texts = dict[str, dict[str, list[str]]]
"""By file and test, the messages in the order in which the test asks for them."""

_PLAIN_KEY = r"test_[\w.\[\]/+-]*"
_BY_PROCESS = pytest.StashKey["Recordings"]()


class Recordings:
    """The contents of the file, what this process has recorded, and the tests that it has found.

    Attributes:
        texts: Contents of the file.
        written: What was recorded in this process.
        modules: The test files that were collected as a whole.
        tests: The collected tests that compare messages.
    """

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.written: Texts = {}
        self.modules: set[str] = set()
        self.tests: set[str] = set()

    def orphans(self) -> list[str]:
        """Returns tests in the file that no longer exist, or no longer compare messages."""
        return [
            f"{file}::{test}"
            for file, tests in self.texts.items()
            for test in tests
            if not (ROOT / file).exists() or (file in self.modules and f"{file}::{test}" not in self.tests)
        ]

    def save(self) -> None:
        """Writes the recorded texts into the file, without orphans. Other processes may be writing it, too."""
        with FILE.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.texts = read()
            for orphan in self.orphans():
                path, test = orphan.split("::", 1)
                del self.texts[path][test]
            for path, tests in self.written.items():
                self.texts.setdefault(path, {}).update(tests)
            FILE.write_text(_as_yaml(self.texts))


def read() -> Texts:
    """Reads the file."""
    return _parse(FILE.read_text())


def _parse(text: str) -> Texts:
    return yaml.load(text, yaml.CSafeLoader) or {}


class Recorded:
    """A recorded text: equal to a string, or to lines, that say the same and hold all names.

    Args:
        wording: The test's texts.
        index: Index of the text.
        names: What the text must contain, however it is worded.
        varying: Placeholders of the recorded text, and their values in this process.
    """

    def __init__(self, wording: "Wording", index: int, names: Sequence[object], varying: dict[str, object]) -> None:
        self._wording = wording
        self._index = index
        self._names = [str(name) for name in names]
        self._varying = {str(value): f"{{{name}}}" for name, value in varying.items()}

    def __eq__(self, said: object) -> bool:
        if not isinstance(said, str | list | tuple):
            return NotImplemented
        text = said if isinstance(said, str) else "\n".join(map(str, said))
        if not all(name in text for name in self._names):
            return False
        for value, placeholder in self._varying.items():
            text = text.replace(value, placeholder)
        return self._wording.holds(self._index, text)

    def __repr__(self) -> str:
        return f"{self._wording.text(self._index)!r}, with the names {self._names}"


class Wording:
    """The texts of one test.

    Args:
        texts: The recorded texts.
        writes: Whether texts are recorded instead of compared.
        varying: Values in any text that differ from process to process, by placeholder.
    """

    def __init__(self, texts: Sequence[str], writes: bool, varying: dict[str, object]) -> None:
        self._texts: list[str | None] = [] if writes else [*texts]
        self._writes = writes
        self._varying = varying
        self._asked = 0
        self._compared: set[int] = set()

    def __call__(self, *names: object, **varying: object) -> Any:
        """Returns the next recorded text, to be compared with `==`, or with `in` if it is one of several.

        Args:
            *names: What the text must contain, however it is worded: locations, settings, values.
            **varying: Values that differ from process to process, such as `pid=os.getpid()`; the file contains `{pid}`.
        """
        self._asked += 1
        if self._writes:
            self._texts.append(None)
        return Recorded(self, self._asked - 1, names, {**varying, **self._varying})

    @contextmanager
    def raised(self, kind: type[BaseException], *names: object, **varying: object) -> Iterator[Any]:
        """Expects an error of a kind, with the next recorded text as its message."""
        recorded = self(*names, **varying)
        with pytest.raises(kind) as raised:
            yield raised
        assert str(raised.value) == recorded, f"{str(raised.value)!r} is not {recorded!r}"

    @contextmanager
    def warned(self, kind: type[Warning], *names: object, **varying: object) -> Iterator[Any]:
        """Expects warnings of a kind, with the next recorded text as their messages."""
        recorded = self(*names, **varying)
        with pytest.warns(kind) as warned:
            yield warned
        said = "\n".join(dict.fromkeys(str(each.message) for each in warned if issubclass(each.category, kind)))
        assert said == recorded, f"{said!r} is not {recorded!r}"

    def text(self, index: int) -> str | None:
        """Returns a recorded text, None if there is none."""
        return self._texts[index] if index < len(self._texts) else None

    def holds(self, index: int, said: str) -> bool:
        """Returns whether a text is the recorded one; records it where texts are recorded."""
        self._compared.add(index)
        if self._writes and self._texts[index] is None:
            self._texts[index] = said
        return self.text(index) == said

    def finish(self) -> list[str]:
        """Checks that the test has compared all of its texts, and returns them."""
        assert self._compared == set(range(self._asked)), "a recorded text is compared with nothing"
        left = self._texts[self._asked :]
        assert not left, f"recorded, and no longer compared (`make wording` records anew): {left}"
        return [text for text in self._texts if text is not None]


@pytest.fixture
def wording(request: pytest.FixtureRequest, tmp_path: Path) -> Wording:
    """The messages that are recorded for this test in tests/wording.yaml."""
    recordings = request.config.stash[_BY_PROCESS]
    file, test = request.node.nodeid.split("::", 1)
    texts = recordings.texts.get(file, {}).get(test, [])
    return Wording(texts, request.config.getoption("write_wording"), {"tmp_path": tmp_path, "checkout": ROOT})


@pytest.fixture(scope="session")
def recordings(pytestconfig: pytest.Config) -> Recordings:
    """All recorded messages."""
    return pytestconfig.stash[_BY_PROCESS]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--write-wording`."""
    parser.addoption("--write-wording", action="store_true", help="record the messages of tests in tests/wording.yaml")


def pytest_configure(config: pytest.Config) -> None:
    """Reads the file, once in each process."""
    config.stash[_BY_PROCESS] = Recordings(read())


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Notes a file of which all tests are collected."""
    if isinstance(collector, pytest.Module) and not any("::" in argument for argument in collector.config.args):
        collector.config.stash[_BY_PROCESS].modules.add(collector.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Notes the tests that compare messages; where messages are recorded, only these run."""
    comparing = [item for item in items if "wording" in getattr(item, "fixturenames", ())]
    config.stash[_BY_PROCESS].tests.update(item.nodeid for item in comparing)
    if config.getoption("write_wording"):
        items[:] = comparing


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Checks after a test has passed that it compared all of its messages."""
    yield
    wording = getattr(item, "funcargs", {}).get("wording")
    if wording is not None:
        file, test = item.nodeid.split("::", 1)
        item.config.stash[_BY_PROCESS].written.setdefault(file, {})[test] = wording.finish()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the file, where messages are recorded."""
    if session.config.getoption("write_wording"):
        session.config.stash[_BY_PROCESS].save()


def _as_yaml(texts: Texts) -> str:
    """Returns the file's text: sorted, and every message as lines without quotes."""
    kept = {file: {test: said for test, said in tests.items() if said} for file, tests in texts.items()}
    kept = {file: tests for file, tests in kept.items() if tests}
    lines = ["# What rlrun says in its tests, by file and test: see tests/wording.py. `make wording` writes this file."]
    for file, tests in sorted(kept.items()):
        lines += ["", f"{file}:"]
        for test, messages in sorted(tests.items()):
            lines.append(f"  {test if re.fullmatch(_PLAIN_KEY, test) else json.dumps(test, ensure_ascii=False)}:")
            for message in messages:
                lines += _as_item(message)
    text = "\n".join(lines) + "\n"
    assert _parse(text) == kept
    return text


def _as_item(message: str) -> list[str]:
    """Returns a message as lines of a YAML list, quoted if it is blank or contains unprintable characters."""
    if not message.strip() or not message.replace("\n", "").isprintable():
        return [f"  - {json.dumps(message)}"]
    indent = "2" if message[0].isspace() else ""  # YAML cannot infer the indentation from an indented first line
    body = message.rstrip("\n")
    end = {0: "-", 1: ""}.get(len(message) - len(body), "+")
    return [f"  - |{indent}{end}", *(f"    {line}" if line else "" for line in message.removesuffix("\n").split("\n"))]
