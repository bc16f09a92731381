import math
import pickle
from typing import Any, Literal

import pytest
import yaml
from pydantic import Field, model_validator

from rlrun.engine.messages.errors import SpecError
from rlrun.engine.settings.commented_yaml import commented_yaml
from rlrun.engine.settings.config import (
    ConfigModel,
    Fraction,
    NonEmptyText,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Schedule,
    defaults,
    fixed,
)


class Net(ConfigModel):
    hiddens: tuple[PositiveInt, ...] = (64, 64)
    """Units of each hidden layer."""
    activation: Literal["relu", "tanh"] = "tanh"
    """Activation between the layers."""


class Settings(ConfigModel):
    """Settings of an imagined algorithm."""

    lr: Schedule = 3e-4
    """Step size of Adam, a constant or a schedule over env steps, and this docstring is so long that it needs two lines
    in a comment."""
    env_steps: PositiveInt = 1000
    """How long it runs."""
    gamma: Fraction = 0.99
    """Discount factor."""
    compile: Literal["auto"] | bool = "auto"
    """Whether updates are compiled."""
    clip: PositiveFloat | None = None
    """Largest norm of the gradient."""
    normalize: bool = False
    """Whether observations are normalized."""
    size: tuple[int, int] = (84, 84)
    """Height and width."""
    label: NonEmptyText = "on"
    """Free text."""
    net: Net = Net()
    """The network."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Anything."""
    weights: dict[str, PositiveFloat] = Field(default_factory=dict)
    """Weights by name."""


class Batches(ConfigModel):
    rows: PositiveInt = 64
    minibatch: PositiveInt = 32

    @model_validator(mode="after")
    def _minibatches_fill_the_batch(self) -> "Batches":
        if self.rows % self.minibatch:
            raise ValueError(f"minibatch ({self.minibatch}) must divide rows ({self.rows})")
        return self


class Named(ConfigModel):
    id: str
    kwargs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _bare_text_is_an_id(cls, data: Any) -> Any:
        return {"id": data} if isinstance(data, str) else data


class World(ConfigModel):
    env: Named = Named(id="CartPole-v1")


def problems(model: type[ConfigModel], data: Any, path: str = "") -> list[str]:
    with pytest.raises(SpecError) as caught:
        model.parse(data, path=path)
    return [str(problem) for problem in caught.value.problems]


MISTAKES = [
    ({"lrr": 1e-3}, "lrr: unknown key 'lrr'; did you mean 'lr'?"),
    (
        {"speed": 1},
        (
            "speed: unknown key 'speed'; must be one of: clip, compile, env_steps, gamma, kwargs, label, lr, "
            "net, normalize, size, weights"
        ),
    ),
    *(
        (
            {"lr": lr},
            "lr: must be a number >= 0, a list of pairs [a whole number >= 0, a number >= 0] or "
            f"a mapping (key: value), not {shown}",
        )
        for lr, shown in ((True, "true"), ("3", "'3'"))
    ),
    ({"lr": -1}, "lr: must be a number >= 0, not -1"),
    ({"lr": math.nan}, "lr: must be a finite number >= 0, not nan"),
    ({"lr": math.inf}, "lr: must be a finite number >= 0, not inf"),
    ({"lr": [[0, 1e-3], [10, "x"]]}, "lr.1.1: must be a number >= 0, not 'x'"),
    ({"lr": [[0, 1e-3], [10]]}, "lr.1: must be [a whole number >= 0, a number >= 0], not [10]"),
    ({"lr": [[0, 1e-3], [10, 1, 2]]}, "lr.1: must be [a whole number >= 0, a number >= 0], not [10, 1, 2]"),
    ({"lr": [[10, 1e-3], [0, 0]]}, "lr: the env_steps of a schedule's points must ascend, not [10, 0]"),
    ({"lr": []}, "lr: a schedule needs at least one point [env_steps, value]"),
    ({"env_steps": 1.5}, "env_steps: must be a whole number > 0, not 1.5"),
    ({"env_steps": True}, "env_steps: must be a whole number > 0, not true"),
    ({"env_steps": "3"}, "env_steps: must be a whole number > 0, not '3'"),
    ({"env_steps": 0}, "env_steps: must be a whole number > 0, not 0"),
    ({"env_steps": None}, "env_steps: must be a whole number > 0, not null"),
    ({"gamma": 1.01}, "gamma: must be a number >= 0 and <= 1, not 1.01"),
    ({"compile": "aut"}, "compile: must be 'auto', true or false, not 'aut'; did you mean 'auto'?"),
    ({"compile": 1}, "compile: must be 'auto', true or false, not 1"),
    ({"clip": 0}, "clip: must be a number > 0 or null, not 0"),
    ({"normalize": "yes"}, "normalize: must be true or false, not 'yes'; did you mean true?"),
    ({"normalize": "Off"}, "normalize: must be true or false, not 'Off'; did you mean false?"),
    ({"size": [84]}, "size: must be [a whole number, a whole number], not [84]"),
    ({"size": 84}, "size: must be [a whole number, a whole number], not 84"),
    ({"label": ""}, "label: must be non-empty text, not ''"),
    ({"net": 3}, "net: must be a mapping (key: value), not 3"),
    ({"net": {"hiddens": 64}}, "net.hiddens: must be a list of whole numbers > 0, not 64"),
    ({"net": {"hiddens": [64, -1]}}, "net.hiddens.1: must be a whole number > 0, not -1"),
    (
        {"net": {"activation": "Tanh"}},
        "net.activation: must be 'relu' or 'tanh', not 'Tanh'; did you mean 'tanh'?",
    ),
    ({"net": {"hidens": [1]}}, "net.hidens: unknown key 'hidens'; did you mean 'hiddens'?"),
    ({"kwargs": [1]}, "kwargs: must be a mapping (key: value), not [1]"),
    ({"weights": {"a": 1, "b": 0}}, "weights.b: must be a number > 0, not 0"),
    ([1], "must be a mapping (key: value), not [1]"),
    (None, "must be a mapping (key: value), not null"),
]


@pytest.mark.parametrize(("data", "message"), MISTAKES, ids=[message[:40] for _, message in MISTAKES])
def test_a_mistake_is_reported_in_one_line_in_rlruns_own_words(data: Any, message: str) -> None:
    assert problems(Settings, data) == [message]


def test_all_mistakes_are_reported_at_once_each_with_its_path() -> None:
    found = problems(Settings, {"lr": "x", "gamma": 2, "nett": {}, "net": {"hiddens": ["a"]}}, path="mine.config")
    assert [line.split(":")[0] for line in found] == [
        "mine.config.nett",
        "mine.config.lr",
        "mine.config.gamma",
        "mine.config.net.hiddens.0",
    ]


def test_a_missing_field_is_reported_at_its_own_path() -> None:
    assert problems(Named, {}) == ["id: is missing"]


def test_the_violation_of_a_rule_across_fields_is_reported_with_the_message_of_the_rule(wording) -> None:
    assert problems(Batches, {"minibatch": 60}, path="config") == wording("60", "64")


def test_a_constructor_explains_mistakes_as_parse_does(wording) -> None:
    with wording.raised(SpecError):
        Settings(gamma=7)


def test_lists_become_tuples_and_floats_with_whole_values_become_integers() -> None:
    settings = Settings.parse({"env_steps": 1e6, "lr": [[0, 1e-3], [1e6, 0]], "net": {"hiddens": [32.0]}, "gamma": 1})
    assert settings.env_steps == 1_000_000
    assert isinstance(settings.env_steps, int)
    assert settings.lr == ((0, 1e-3), (1_000_000, 0.0))
    assert settings.net.hiddens == (32,)
    assert isinstance(settings.gamma, float)


def test_free_form_values_are_not_converted() -> None:
    kwargs = {"size": [1, 2.0], "flag": True, "nested": {"a": None}}
    assert Settings.parse({"kwargs": kwargs}).kwargs == kwargs


def test_a_plain_string_can_replace_a_mapping() -> None:
    assert World.parse({"env": "Pendulum-v1"}).env == Named(id="Pendulum-v1")


def test_a_config_survives_a_round_trip_through_plain_data() -> None:
    settings = Settings.parse({"lr": [[0, 1e-3], [10, 0]], "clip": 0.5, "weights": {"a": 2}, "kwargs": {"x": [1]}})
    data = settings.to_data()
    assert data["lr"] == [[0, 1e-3], [10, 0.0]]
    assert Settings.parse(data) == settings


def test_replace_validates_the_changed_config() -> None:
    settings = Settings().replace(gamma=0.5, net=Net(hiddens=(8,)))
    assert (settings.gamma, settings.net.hiddens) == (0.5, (8,))
    with pytest.raises(SpecError, match="gamma: must be"):
        settings.replace(gamma=1.5)


def test_configs_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().gamma = 0.5  # type: ignore[misc]


class Plain(ConfigModel):
    steps: PositiveInt = 5
    """How many."""
    rate: NonNegativeFloat = 1e-5
    """How fast."""
    net: Net = Net()
    """The network."""
    word: str = "on"
    """A text that YAML 1.1 would misread."""


def test_commented_yaml_of_a_small_config_matches_the_expected_text(wording) -> None:
    assert commented_yaml(Plain) == wording("relu", "tanh", "64")


def test_commented_yaml_parses_back_to_the_defaults() -> None:
    assert Settings.parse(yaml.safe_load(commented_yaml(Settings))) == Settings()


def test_a_required_field_is_commented_out_in_commented_yaml() -> None:
    assert "# id:" in commented_yaml(Named).splitlines()


@defaults(lr=[[0, 1.0], [1e2, 0.0]], gamma=1, net={"activation": "relu"})
class Other(Settings):
    extra: PositiveInt = 1
    """One more."""


@defaults(net={"hiddens": [8]})
class Third(Other):
    pass


def test_new_defaults_change_values_but_not_types_or_descriptions_of_fields() -> None:
    assert (Other().lr, Other().gamma, Other().env_steps) == (((0, 1.0), (100, 0.0)), 1.0, 1000)
    assert (Settings().lr, Settings().net.activation) == (3e-4, "tanh")
    assert list(Other.model_fields) == [*Settings.model_fields, "extra"]
    assert Other.model_fields["lr"].description == Settings.model_fields["lr"].description
    assert Other.parse({"lr": 0.5}).lr == 0.5


def test_a_new_default_for_a_section_changes_only_the_keys_it_names() -> None:
    assert (Other().net, Third().net) == (Net(activation="relu"), Net(activation="relu", hiddens=(8,)))
    assert Third().gamma == 1.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lrr": 1.0}, r"Wrong\.lrr: unknown key 'lrr'; did you mean 'lr'\?"),
        ({"gamma": 2}, r"Wrong\.gamma: must be a number >= 0 and <= 1, not 2"),
        ({"net": {"hidens": [1]}}, r"Wrong\.net\.hidens: unknown key 'hidens'; did you mean 'hiddens'\?"),
    ],
)
def test_a_new_default_is_validated_when_the_class_is_created(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):

        @defaults(**values)
        class Wrong(Settings):
            pass


def test_rules_across_fields_also_apply_to_defaults(wording) -> None:
    with wording.raised(SpecError, "48", "64"):

        @defaults(minibatch=48)
        class Wrong(Batches):
            pass


def test_a_mapping_for_a_section_is_merged_over_the_sections_default() -> None:
    assert Other.parse({"net": {"hiddens": [7]}}).net == Net(hiddens=(7,), activation="relu")
    assert Other(net={"activation": "tanh"}).net == Net(activation="tanh")
    assert Other().replace(net={"hiddens": [7]}).net == Net(hiddens=(7,), activation="relu")


def test_replace_merges_a_mapping_for_a_section_over_its_current_value() -> None:
    changed = Other(net={"hiddens": [7], "activation": "tanh"}, gamma=0.5).replace(net={"hiddens": [9]}, clip=2.0)
    assert changed == Other(net=Net(hiddens=(9,), activation="tanh"), gamma=0.5, clip=2.0)


def test_a_config_object_for_a_section_replaces_the_whole_section() -> None:
    assert Other(net=Net(hiddens=(7,))).net == Net(hiddens=(7,), activation="tanh")


def test_mistakes_in_a_section_with_its_own_default_are_reported_at_their_paths() -> None:
    assert problems(Other, {"net": {"hiddens": 64, "width": 1}, "gamma": 3}) == [
        "gamma: must be a number >= 0 and <= 1, not 3",
        "net.width: unknown key 'width'; must be one of: activation, hiddens",
        "net.hiddens: must be a list of whole numbers > 0, not 64",
    ]


class Deep(ConfigModel):
    inner: Net = Net(activation="relu")
    """One section."""
    width: PositiveInt = 1
    """How wide."""


class Deeper(ConfigModel):
    outer: Deep = Deep(inner=Net(hiddens=(3,)), width=2)
    """A section with a section."""


def test_nested_sections_are_also_merged_over_their_defaults() -> None:
    assert Deeper.parse({"outer": {"inner": {"activation": "relu"}}}).outer == Deep(
        inner=Net(hiddens=(3,), activation="relu"), width=2
    )
    assert Deep.parse({"inner": {"hiddens": [5]}}).inner == Net(hiddens=(5,), activation="relu")


@fixed("its length is fixed", env_steps=7, normalize=True)
class Endless(Settings):
    pass


@defaults(gamma=0.5)
class EndlessToo(Endless):
    extra: PositiveInt = 1
    """One more."""


@pytest.mark.parametrize("model", [Endless, EndlessToo])
def test_a_fixed_setting_can_be_read_but_is_neither_settable_nor_shown(model: type[Endless], wording) -> None:
    settings = model()
    assert (settings.env_steps, settings.normalize) == (7, True)
    assert not {"env_steps", "normalize"} & {*model.model_fields, *settings.to_data()}
    assert model.parse(settings.to_data()) == settings.replace(gamma=settings.gamma) == settings
    assert not {"env_steps", "normalize"} & yaml.safe_load(commented_yaml(model)).keys()
    assert problems(model, {"env_steps": 7, "lr": "x"}) == wording("env_steps")
    assert Settings().env_steps == 1000


def test_a_subclass_inherits_the_fixed_settings_of_both_base_classes() -> None:
    @fixed("(1 for each entity that exists, else 0), not", clip=None)
    class Unclipped(Settings):
        pass

    class Both(Endless, Unclipped):
        pass

    assert (Both().env_steps, Both().clip) == (7, None)
    assert set(Both.refused) == {"env_steps", "normalize", "clip"}
    assert set(Settings.model_fields) - set(Both.model_fields) == set(Both.refused)


def test_fixing_an_unknown_setting_is_refused(wording) -> None:
    with wording.raised(SpecError, "Wrong.steps"):

        @fixed("why", steps=1)
        class Wrong(Settings):
            pass


class Agent(ConfigModel):
    lr: float = 0.5
    """Learning rate."""
    net: Net = Net(hiddens=(8,))
    """The network."""


@fixed("deep nets diverge", net={"hiddens": (3,)})
class Shallow(Agent):
    pass


@defaults(net={"activation": "relu"})
class ShallowToo(Shallow):
    extra: PositiveInt = 1
    """One more."""


@fixed("only relu has been tested", net={"activation": "relu"})
class Bounded(Shallow):
    pass


@pytest.mark.parametrize("model", [Shallow, ShallowToo])
def test_fixing_one_key_of_a_section_leaves_its_other_keys_configurable(model: type[Shallow], wording) -> None:
    settings = model.parse({"net": {"activation": "relu"}})
    assert (settings.net.hiddens, settings.net.activation) == ((3,), "relu")
    assert settings.to_data()["net"] == {"activation": "relu"}
    assert problems(model, {"net": {"hiddens": [4], "activation": "none"}}) == wording(
        "net.hiddens", "net.activation", "relu"
    )
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert (Agent().net.hiddens, Net().hiddens) == ((8,), (64, 64))


def test_a_derived_class_can_fix_further_keys_of_a_section(wording) -> None:
    assert (Bounded().net.hiddens, Bounded().net.activation) == ((3,), "relu")
    assert Bounded().to_data()["net"] == {}
    assert problems(Bounded, {"net": {"activation": "tanh"}}) == wording("net.activation")
    assert Shallow.parse({"net": {"activation": "tanh"}}).net.activation == "tanh"


def test_commented_yaml_shows_fixed_settings_with_their_reasons(wording) -> None:
    assert commented_yaml(Shallow).splitlines()[-2:-1] == ["  activation: tanh"]
    assert commented_yaml(Shallow).splitlines()[-1:] == wording("hiddens", "[3]")
    assert commented_yaml(Endless).splitlines()[-1:] == wording("env_steps", 7, "normalize", "true")


def test_commented_yaml_shows_each_value_of_a_section_separately() -> None:
    assert commented_yaml(Deeper).endswith(
        """\
outer:
  # One section.
  inner:
    # Units of each hidden layer.
    # (a list of whole numbers > 0)
    hiddens: [3]
    # Activation between the layers.
    # ('relu' or 'tanh')
    activation: tanh
  # How wide.
  # (a whole number > 0)
  width: 2
"""
    )
    assert Deeper.parse(yaml.safe_load(commented_yaml(Deeper))) == Deeper()
