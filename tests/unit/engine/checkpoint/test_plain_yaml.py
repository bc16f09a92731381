import math
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.checkpoint import plain_yaml
from rlrun.engine.checkpoint.plain_yaml import dump_plain_yaml, load_plain_yaml

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(plain)
def test_plain_data_are_read_back_exactly_as_written(data: Any) -> None:
    assert load_plain_yaml(dump_plain_yaml({"data": data})) == {"data": data}


@pytest.mark.parametrize(
    "text", ["1e-4", "on", "no", "1_000", "0o17", "0x1F", ".5", "1.", "+1e5", "~", "2024-01-01", "1:30"]
)
def test_a_string_that_a_yaml_reader_could_take_for_another_type_is_quoted(text: str) -> None:
    assert f"'{text}'" in dump_plain_yaml({"x": text})


def test_a_float_is_read_as_a_float_in_both_yaml_1_1_and_yaml_1_2(wording) -> None:
    assert dump_plain_yaml({"lr": 1e-5, "bound": math.inf}) == wording()


def test_a_list_that_occurs_twice_is_written_out_twice_without_an_alias() -> None:
    twice = [1, 2]
    assert "&" not in dump_plain_yaml({"a": twice, "b": twice})


def test_keys_are_written_in_their_original_order() -> None:
    assert list(load_plain_yaml(dump_plain_yaml({"b": 1, "a": 2}))) == ["b", "a"]


def test_writing_an_object_that_is_not_plain_data_is_refused() -> None:
    with pytest.raises(ValueError, match="only plain data"):
        dump_plain_yaml({"x": object()})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\nb: *x", r"aliases and tags are not allowed \(line"),
        ("!!python/object/apply:os.system ['true']", r"aliases and tags are not allowed \(line"),
        ("a: [", "expected"),
        ("[" * 1_000_000, "nested more than 60 levels deep"),
        ("x" * 4_000_001, "longer than"),
    ],
    ids=["alias", "python tag", "torn", "deep", "long"],
)
def test_reading_anything_but_plain_data_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_plain_yaml(text)


def test_reading_or_writing_too_many_keys_and_values_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    wording,
) -> None:
    monkeypatch.setattr(plain_yaml, "MAX_SCALARS", 8)
    data = {"a": [1, 2, None], "b": {"c": "", "d": []}}
    assert load_plain_yaml(dump_plain_yaml(data)) == data
    with wording.raised(ValueError, "300,000"):
        dump_plain_yaml({**data, "e": {}})
    with wording.raised(ValueError, "300,000"):
        load_plain_yaml(f"{dump_plain_yaml(data)}e: {{}}\n")


def test_a_common_yaml_reader_reads_the_same_data() -> None:
    data = {"lr": 1e-4, "name": "on", "hiddens": [64, 64], "none": None}
    assert yaml.safe_load(dump_plain_yaml(data)) == data
