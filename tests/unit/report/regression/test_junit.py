"""JUnit XML for continuous integration, checked against the schema of Ant's reports."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rlrun.report.regression.junit import junit_xml
from rlrun.report.regression.verdicts import Case, Verdict

WHOLE = r"[0-9]+"
DECIMAL = r"[0-9]+\.[0-9]+"
TOKEN = r"\S+( \S+)*"
ANY = r"(?s).*"

# Maps each element to its attributes (required unless they are in OPTIONAL) and to the order of its children. This is
# the schema windyroad/JUnit-Schema; the schema of Jenkins and Maven allows more.
ATTRIBUTES = {
    "testsuites": {},
    "testsuite": {
        "name": TOKEN, "package": TOKEN, "id": WHOLE, "hostname": TOKEN, "time": DECIMAL, "tests": WHOLE,
        "failures": WHOLE, "errors": WHOLE, "skipped": WHOLE,
        "timestamp": r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}",
    },
    "properties": {},
    "property": {"name": TOKEN, "value": ANY},
    "testcase": {"name": TOKEN, "classname": TOKEN, "time": DECIMAL},
    "failure": {"type": ANY, "message": ANY},
    "error": {"type": ANY, "message": ANY},
    "skipped": {"message": ANY},
    "system-out": {},
    "system-err": {},
}  # fmt: skip
CHILDREN = {
    "testsuites": r"(testsuite )*",
    "testsuite": r"properties (testcase )*system-out system-err ",
    "properties": r"(property )*",
    "testcase": r"(skipped |error |failure )?",
}


def assert_valid(element: ElementTree.Element) -> None:
    assert element.keys() == list(ATTRIBUTES[element.tag]) or set(element.keys()) == set(ATTRIBUTES[element.tag])
    for name, pattern in ATTRIBUTES[element.tag].items():
        assert re.fullmatch(pattern, element.attrib[name]), (element.tag, name, element.attrib[name])
    assert re.fullmatch(CHILDREN.get(element.tag, ""), "".join(f"{child.tag} " for child in element))
    for child in element:
        assert_valid(child)


def case(seed: int, value: float | None, error: str = "") -> Case:
    return Case(f"{seed:03d}-seed={seed}", seed, "", Path("runs"), 2048, 1.5, {"m": value}, {"m": 10.0}, error)


def suite(*cases: Case, needed: int = 2, control: bool = False) -> ElementTree.Element:
    root = ElementTree.fromstring(junit_xml([Verdict("pole", cases, needed, control)]))
    assert_valid(root)
    return root[0]


def findings(suite: ElementTree.Element) -> dict[str, str]:
    """Returns the tag of each testcase's finding, or "" if it passed."""
    return {testcase.attrib["name"]: "".join(child.tag for child in testcase) for testcase in suite.findall("testcase")}


def counts(suite: ElementTree.Element) -> tuple[int, ...]:
    return tuple(int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped"))


def test_a_seed_that_misses_within_the_tolerance_of_a_gate_is_shown_as_skipped() -> None:
    found = suite(case(0, 11.0), case(1, 3.0), case(2, 12.0))
    assert findings(found) == {"000-seed=0": "", "001-seed=1": "skipped", "002-seed=2": "", "verdict": ""}
    assert counts(found) == (4, 0, 0, 1)
    assert found.attrib["time"] == "4.500"


def test_a_missed_gate_is_shown_as_a_failure_of_the_seeds_and_of_the_verdict_with_a_message(wording) -> None:
    found = suite(case(0, 11.0), case(1, 3.0), case(2, 4.0))
    assert findings(found) == {
        "000-seed=0": "", "001-seed=1": "failure", "002-seed=2": "failure", "verdict": "failure",
    }  # fmt: skip
    assert counts(found) == (4, 3, 0, 0)
    seed, *_, verdict = [testcase.find("failure") for testcase in found.findall("testcase") if len(testcase)]
    assert seed is not None
    assert seed.attrib["message"] == wording("10", "2,048", "1.5")
    assert verdict is not None
    assert verdict.text == wording()


def test_a_failed_trial_is_shown_as_an_error_with_its_traceback() -> None:
    found = suite(case(0, 11.0), case(1, 11.0), case(2, None, "Traceback:\n  line 3\nValueError: the pole broke"))
    assert findings(found) == {"000-seed=0": "", "001-seed=1": "", "002-seed=2": "error", "verdict": "failure"}
    assert counts(found) == (4, 1, 1, 0)
    error = found.find("testcase/error")
    assert error is not None
    assert error.attrib["message"] == "ValueError: the pole broke"
    assert error.text == "Traceback:\n  line 3\nValueError: the pole broke"


def test_a_control_of_a_gate_that_is_too_weak_is_shown_as_a_failure() -> None:
    weak = suite(case(0, 11.0), case(1, 3.0), needed=1, control=True)
    assert findings(weak) == {"000-seed=0": "failure", "001-seed=1": "", "verdict": "failure"}
    strong = suite(case(0, 11.0), case(1, 3.0), needed=2, control=True)
    assert findings(strong) == {"000-seed=0": "skipped", "001-seed=1": "", "verdict": ""}


@pytest.mark.parametrize(
    "text", ["\x1b[31mred\x1b[0m", "nul \x00", "bell \x07", "half \ud800 a pair", "<&\"'>", "ok ü 😀"]
)
def test_the_junit_document_is_valid_xml_whatever_an_error_message_contains(text: str) -> None:
    found = suite(case(0, None, text))
    error = found.find("testcase/error")
    assert error is not None
    assert error.text == re.sub(r"\x1b\[\d+m|[\x00\x07\ud800]", "", text)


def test_each_experiment_has_its_own_test_suite() -> None:
    verdicts = [Verdict(name, (case(0, 11.0),), 1) for name in ("pole", "cart")]
    root = ElementTree.fromstring(junit_xml(verdicts))
    assert_valid(root)
    assert [(found.attrib["name"], found.attrib["id"]) for found in root] == [("pole", "0"), ("cart", "1")]
    assert root[1].find("testcase").attrib["classname"] == "rlrun.regress.cart"  # type: ignore[union-attr]
