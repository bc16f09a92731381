import math
from pathlib import Path

import pytest
import yaml

from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.yaml_source import parse_document, parse_value, read_document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E+2", 100.0),
        ("1.0e-3", 1e-3),
        (".5", 0.5),
        ("1.", 1.0),
        ("150_000", 150_000),
        ("1_000.5", 1000.5),
        ("0x10", 16),
        ("0o17", 15),
        ("017", 17),
        ("+3", 3),
        ("-0", 0),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("true", True),
        ("False", False),
        ("~", None),
        ("Null", None),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("y", "y"),
        ("1_", "1_"),
        ("_1", "_1"),
        ("1__0", "1__0"),
        ("0b1", "0b1"),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("=", "="),
        ("'1e-4'", "1e-4"),
        ('"true"', "true"),
        ("!!str 3", "3"),
        ("!!int '3'", 3),
        ("!!float 1e3", 1000.0),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    found = parse_document(f"key: {text}").data["key"]
    assert found == value
    assert type(found) is type(value)


def test_nan_is_parsed_as_a_number() -> None:
    assert math.isnan(parse_document("key: .nan").data["key"])


def test_the_line_and_column_of_every_key_and_value_are_known() -> None:
    document = parse_document("one:\n  two: [10, {three: 4}]\nfive: six\n", "f.yaml")
    assert document.place(("one", "two", 1, "three")) == ("f.yaml", 2, 21)
    assert document.place(("one", "two", 1, "three"), at_key=True) == ("f.yaml", 2, 14)
    assert document.place(("five",)) == ("f.yaml", 3, 7)
    assert document.place(()) == ("f.yaml", 1, 1)


def test_a_missing_key_gets_the_location_of_its_nearest_parent() -> None:
    document = parse_document("one:\n  two: {}\n  env: bare\n", "f.yaml")
    assert document.place(("one", "two", "absent", 3)) == ("f.yaml", 2, 3)
    assert document.place(("one", "env", "id")) == ("f.yaml", 3, 8)
    assert document.place(("absent",)) == ("f.yaml", 1, 1)


def test_an_alias_is_a_copy_of_its_anchor_and_has_the_location_of_the_anchor() -> None:
    document = parse_document("a: &x {b: 1}\nc: *x\n", "f.yaml")
    assert document.data == {"a": {"b": 1}, "c": {"b": 1}}
    assert document.data["a"] is not document.data["c"]
    assert document.place(("c", "b")) == ("f.yaml", 1, 11)


def test_in_a_mapping_its_own_keys_override_merged_ones_and_earlier_merges_override_later_ones() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2, z: 2}\nc: {x: 3, <<: [*b, {w: 4, z: 4}]}\nd: {'<<': 5}\n"
    data = parse_document(text).data
    assert data["b"] == {"x": 1, "y": 2, "z": 2}
    assert data["c"] == {"x": 3, "y": 2, "z": 2, "w": 4}
    assert data["d"] == {"<<": 5}


def test_duplicate_keys_and_unknown_tags_are_collected_as_problems(wording) -> None:
    document = parse_document("a: 1\na: 2\nb: !x 3\n", "f.yaml")
    assert document.data == {"a": 1, "b": None}
    assert [str(problem) for problem in document.problems] == wording("f.yaml:2:1", "f.yaml:3:4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a: "\\U00110000"', "f.yaml:1:7: YAML syntax: an escape (\\U...) that is not a character"),
        ("a: &x 1\nb: &x 2", "f.yaml:2:4: YAML syntax: an anchor (&) with this name appears twice"),
        ("a: ]", "f.yaml:1:4: YAML syntax: a value is missing before this"),
        ("%YAML 9.9\n---\na: 1", "f.yaml:1:1: YAML syntax: found incompatible YAML document (version 1.* is required)"),
    ],
)
def test_yaml_syntax_errors_are_reported_in_one_line_with_their_position(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_document(text, "f.yaml")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a: "\\ud800"', "f.yaml:1:4: an escape (\\u...) with only half of a surrogate pair"),
        ('"\\0": 1', "f.yaml:1:1: the key '\\x00' contains non-printable characters"),
        ("a: " + "9" * 401, "f.yaml:1:4: a: a number with more than 400 digits"),
        ("a: &a {<<: *a}", "f.yaml:1:4: a: << must merge a mapping (*name) or a list of mappings"),
        ("a: !!seq {}", "f.yaml:1:4: a: the tag !!seq is not allowed; use only plain YAML values"),
        ("{? : 1}", "f.yaml:1:3: a key is missing"),
    ],
)
def test_unusable_keys_values_tags_and_merges_are_reported_as_problems(text: str, message: str) -> None:
    assert [str(problem) for problem in parse_document(text, "f.yaml").problems] == [message]


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_document(file).data == {"a": 1}


def test_a_single_value_is_parsed_like_a_value_in_a_file(wording) -> None:
    assert parse_value("[1e-3, on]", "x") == [1e-3, "on"]
    assert parse_value("", "x") is None
    with wording.raised(SpecError):
        parse_value("!x 1", "--set a=!x 1")


def test_pyyaml_itself_is_not_modified() -> None:
    parse_document("a: 1e-4")
    assert yaml.safe_load("[1e-4, on]") == ["1e-4", True]
