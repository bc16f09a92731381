"""Verdicts of a regression run as JUnit XML, the format of test results in continuous integration.

The schema is the one for Apache Ant's reports: a testsuite for each experiment, with a testcase for each seed and one
for the verdict over all of them. A seed that missed the target is a failure if the experiment missed it, and *skipped*
if enough other seeds passed. The report thus fails if and only if the verdict does, but still shows each seed. A seed
that could not be evaluated is an error.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree

from rlrun.report.regression.verdicts import Case, Verdict

PACKAGE = "rlrun.regress"

# Characters that XML 1.0 does not allow, such as the color codes in a traceback.
_UNWRITABLE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(verdicts: Sequence[Verdict]) -> bytes:
    """Serializes verdicts to a JUnit XML document."""
    root = ElementTree.Element("testsuites")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    for number, verdict in enumerate(verdicts):
        root.append(_suite(verdict, number, now))
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _suite(verdict: Verdict, number: int, now: str) -> ElementTree.Element:
    cases = [*(_seed_case(verdict, case) for case in verdict.cases), _verdict_case(verdict)]
    suite = ElementTree.Element(
        "testsuite",
        {
            "name": verdict.experiment,
            "package": PACKAGE,
            "id": str(number),
            "timestamp": now,
            "hostname": platform.node() or "localhost",
            "tests": str(len(cases)),
            "failures": str(_count(cases, "failure")),
            "errors": str(_count(cases, "error")),
            "skipped": str(_count(cases, "skipped")),
            "time": _seconds(sum(case.seconds for case in verdict.cases)),
        },
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _properties(verdict).items():
        ElementTree.SubElement(properties, "property", name=name, value=_writable(value))
    suite.extend(cases)
    ElementTree.SubElement(suite, "system-out").text = _writable("\n".join(case.message for case in verdict.cases))
    ElementTree.SubElement(suite, "system-err")
    return suite


def _seed_case(verdict: Verdict, case: Case) -> ElementTree.Element:
    element = _testcase(verdict, case.trial, case.seconds)
    if case.error:
        _finding(element, "error", "failed", case.error)
    elif case.reached == verdict.control:
        _finding(element, "skipped" if verdict.passed else "failure", case.outcome, case.message)
    return element


def _verdict_case(verdict: Verdict) -> ElementTree.Element:
    element = _testcase(verdict, "verdict", 0.0)
    if verdict.message:
        _finding(element, "failure", "control" if verdict.control else "regression", verdict.message)
    return element


def _testcase(verdict: Verdict, name: str, seconds: float) -> ElementTree.Element:
    attributes = {"name": name, "classname": f"{PACKAGE}.{verdict.experiment}", "time": _seconds(seconds)}
    return ElementTree.Element("testcase", attributes)


def _finding(testcase: ElementTree.Element, tag: str, kind: str, message: str) -> None:
    """Adds an outcome to a testcase: the message's last line as attribute, the whole message as text."""
    text = _writable(message)
    last = text.strip().rpartition("\n")[2]
    attributes = {"message": last} if tag == "skipped" else {"message": last, "type": kind}
    ElementTree.SubElement(testcase, tag, attributes).text = text


def _properties(verdict: Verdict) -> dict[str, str]:
    properties = {f"expected {metric}": f"{least:g}" for metric, least in verdict.cases[0].expected.items()}
    properties["seeds that must reach it"] = str(verdict.needed)
    for name, comparison in (
        ("area against the baseline", verdict.area),
        ("speed against the baseline", verdict.speed),
    ):
        if comparison is not None:
            properties[name] = f"{comparison.judgement}: {comparison}"
    return properties


def _count(cases: Sequence[ElementTree.Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("", text)
