import re
import sys
from pathlib import Path

import numpy  # noqa: F401 (imported here because tests that forget modules cannot import it twice)
import pytest
import yaml

import rlrun
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.messages.foreign_names import table
from rlrun.engine.settings.registry import (
    BUILT_IN,
    UserCodeError,
    algorithm_class,
    algorithm_names,
    is_installed_algorithm,
    load_object,
)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def test_an_import_path_can_refer_to_a_nested_object(lab: Path) -> None:
    (lab / "lab_good.py").write_text("class Outer:\n    class Inner:\n        x = 3\n")
    assert load_object("lab_good:Outer.Inner").x == 3


@pytest.mark.parametrize("path", ["json", "json:", ":dumps", "json:1x", "a b:c", "json:dumps()", "../x:y"])
def test_a_malformed_path_is_refused(path: str, wording) -> None:
    with wording.raised(UsageError, "package.module:Name"):
        load_object(path, "wrapper")


def test_an_unknown_name_in_a_module_suggests_the_closest_one(lab: Path, wording) -> None:
    (lab / "lab_names.py").write_text("class Walker: pass\n")
    with pytest.raises(UsageError) as caught:
        load_object("lab_names:Wolker", "env factory")
    assert str(caught.value) == wording("lab_names:Wolker", "Walker")


def test_an_unknown_module_suggests_the_closest_one(lab: Path, wording) -> None:
    (lab / "lab_module_of_mine.py").write_text("")
    with pytest.raises(UsageError) as caught:
        load_object("lab_modul_of_mine:X", "algorithm")
    assert str(caught.value) == wording("lab_modul_of_mine", "lab_module_of_mine")


def test_an_unknown_module_never_suggests_a_standard_library_module(lab: Path, wording) -> None:
    with pytest.raises(UsageError) as caught:
        load_object("quokka:X", "algorithm")
    assert str(caught.value) == wording("quokka.py")


def test_an_unknown_module_in_a_package_suggests_the_closest_one(lab: Path, wording) -> None:
    (lab / "lab_package").mkdir()
    (lab / "lab_package" / "__init__.py").write_text("")
    (lab / "lab_package" / "walking.py").write_text("")
    with wording.raised(UsageError, "lab_package.wolking", "walking"):
        load_object("lab_package.wolking:X")
    with wording.raised(UsageError, "lab_package.walking.far"):
        load_object("lab_package.walking.far:X")


def test_an_exception_while_importing_a_module_shows_only_the_users_part_of_the_traceback(lab: Path, wording) -> None:
    (lab / "lab_licence.py").write_text("raise RuntimeError('no licence')\n")
    (lab / "lab_raises.py").write_text("import lab_licence\n")  # Python draws no carets below an import
    with pytest.raises(UserCodeError) as caught:
        load_object("lab_raises:X", "env factory")
    assert str(caught.value) == wording(lab / "lab_raises.py", lab / "lab_licence.py", "RuntimeError")
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_library_xyz\n", "No module named 'no_such_library_xyz'"),
        ("def f(:\n", "SyntaxError"),
        ("import sys; sys.exit(3)\n", "SystemExit: 3"),
    ],
)
def test_a_module_that_fails_to_import_is_reported_with_its_error_and_not_as_missing(
    lab: Path, source: str, message: str
) -> None:
    (lab / "lab_broken.py").write_text(source)
    with pytest.raises(UserCodeError, match=message):
        load_object("lab_broken:X")


def test_an_algorithm_can_be_named_by_an_import_path(lab: Path, wording) -> None:
    (lab / "lab_algorithm.py").write_text("class AWR: pass\ninstance = AWR()\n")
    assert algorithm_class("lab_algorithm:AWR").__name__ == "AWR"
    with wording.raised(UsageError, "lab_algorithm:instance"):
        algorithm_class("lab_algorithm:instance")


def test_an_unknown_algorithm_suggests_the_closest_name(wording) -> None:
    with wording.raised(UsageError, "poo", "ppo"):
        algorithm_class("poo")
    assert algorithm_names()[: len(BUILT_IN)] == list(BUILT_IN)


def test_naming_a_method_that_is_a_variant_of_an_algorithm_shows_the_spec_that_configures_it() -> None:
    message = "unknown algorithm 'QR-DQN': use 'dqn' with the settings of configs/cartpole/dqn_quantile.yaml"
    with pytest.raises(UsageError, match=re.escape(message)):
        algorithm_class("QR-DQN")


def test_advice_for_algorithms_of_other_libraries_names_existing_algorithms_and_settings() -> None:
    configs = Path(rlrun.__file__).parent.parent
    for name, other in table()["algorithms"].items():
        assert name not in {known.replace("_", "") for known in algorithm_names()}
        assert other.get("is", "ppo") in algorithm_names()
        if spec := re.search(r"configs/\S+yaml", other["advice"]):
            (algorithm,) = re.findall("^  algorithm: (.*)$", (configs / spec[0]).read_text(), re.MULTILINE)
            assert f"'{algorithm}'" in other["advice"]
        if settings := re.search(r"'(\w+)'[^']* config: ({.*})", other["advice"]):
            assert yaml.safe_load(settings[2]).keys() <= algorithm_class(settings[1]).Config.model_fields.keys()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ACKTR", "rlrun does not have it; 'a2c' and 'ppo' are the closest"),
        ("HER", "use an algorithm with a replay buffer, such as 'dqn', 'td3' or 'sac', with config:"),
        ("Cal-QL", "use 'cql' with config: {calibrated: true}"),
        ("ppo_lstm", "use 'ppo' with config: {model: {core: lstm}}"),
        ("RecurrentPPO", "use 'ppo' with config: {model: {core: lstm}}"),
        ("MaskablePPO", "use 'ppo', which masks actions if observations contain an action_mask"),
        ("rnd", "use 'ppo' with config: {curiosity: {kind: rnd}}"),
    ],
)
def test_for_a_known_algorithm_that_rlrun_lacks_an_alternative_is_suggested(name: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"unknown algorithm '{name}'") + "[:;] " + re.escape(told)):
        algorithm_class(name)


ANSWERS = {
    "policy gradients": "REINFORCE vpg PPO2 mpo V-MPO dapo gspo dr_grpo cpo sac_lagrangian reppo",
    "values": "sarsa d3qn per_dqn DRQN fqf mdqn NGU agent57 bbf",
    "continuous actions": "d4pg TD7 bro SimBaV2 fast_td3 sacd",
    "models": "MuZero efficient_zero TD-MPC2 pets DreamerV2 mcts",
    "data": "awr edac mopo x-ql airl iq_learn decision_transformer KTO",
    "many agents": "happo hatrpo MAT coma qplex matd3 nfsp psro",
    "others": "pearl neat pbt",
}
"""Names of algorithms that users of other libraries type, by kind."""


@pytest.mark.parametrize("name", " ".join(ANSWERS.values()).split())
def test_for_a_known_method_that_rlrun_lacks_specific_advice_replaces_a_similar_name(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        algorithm_class(name)
    answer = str(raised.value).partition(f"'{name}': ")[2]
    named = set(re.findall("'([a-z0-9_]+)'", answer))
    assert named <= set(algorithm_names())
    assert named or re.search("configs/|rlrun examples|scheduler", answer)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ppoo", "ppo"),
        ("sca", "sac"),
        ("dreemer", "dreamer"),
        ("alphazeros", "alphazero"),
        ("qmx", "qmix"),
        ("appo_lstm", "appo"),
        ("double-sac", "sac"),
    ],
)
def test_the_suggestion_corrects_one_typo_or_an_extra_word(typed: str, meant: str) -> None:
    with pytest.raises(UsageError) as raised:
        algorithm_class(typed)
    assert re.findall("'(.*?)'", str(raised.value)) == [typed, meant]


@pytest.mark.parametrize("typed", ["qwertz", "zpo2", "trddpo", "dreams", "sacred"])
def test_for_a_name_with_several_typos_the_command_that_lists_all_algorithms_is_shown(typed: str) -> None:
    with pytest.raises(UsageError) as raised:
        algorithm_class(typed)
    assert re.findall("['`](.*?)['`]", str(raised.value)) == [typed, "rlrun algorithms"]


def test_import_paths_do_not_count_as_installed_algorithms() -> None:
    assert is_installed_algorithm("ppo")
    for path in (
        "os:system",
        "rlrun.algorithms.ppo:PPOConfig",
        "rlrun.engine.settings.registry:load_object",
        "my_lab.awr:AWR",
    ):
        assert not is_installed_algorithm(path)


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("rlrun.engine.envs.partial_view:PartialView", "use rlrun.plugin:PartialView"),
        ("rlrun.toys.tabular_mdps:DeepSea", "use rlrun.toys:DeepSea"),
        ("rlrun.envs.deep_sea:DeepSea", "use rlrun.toys:DeepSea"),
        ("rlrun.engine.learner.learner:Learner", "use a public name from rlrun.plugin or rlrun.toys"),
    ],
)
def test_the_refusal_of_a_private_path_gives_the_public_name(path: str, advice: str, wording) -> None:
    with pytest.raises(UsageError) as refused:
        load_object(path, "env factory")
    assert str(refused.value) == wording(path, advice)


def test_the_refusal_of_a_built_in_algorithm_class_gives_the_algorithms_name() -> None:
    with pytest.raises(UsageError, match=r": use ppo$"):
        algorithm_class("rlrun.algorithms.ppo:PPO")
