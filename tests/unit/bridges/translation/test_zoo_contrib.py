"""Settings of sb3-contrib's algorithms and of hindsight replay are translated, registered or not."""

from __future__ import annotations

from rlrun.bridges.translation.foreign_settings import ForeignSettings, translate_settings
from rlrun.bridges.translation.meanings import Impact, SettingOrigin, meaning_of
from rlrun.bridges.translation.sb3_settings import CONVERSIONS


def test_n_sampled_goal_is_converted_to_the_share_of_hindsight_goals(wording) -> None:
    written = {"replay_buffer_class": "HerReplayBuffer", "replay_buffer_kwargs": "dict(n_sampled_goal=3)"}
    foreign = ForeignSettings(SettingOrigin("sb3", (2, 8), "sac"), lambda _: True, written, {})
    translate_settings(foreign, CONVERSIONS)
    assert foreign.ours["config.replay.hindsight"].value == {"strategy": "future", "share": 0.75}
    assert not foreign.remarks, "all settings of hindsight are used"
    old = ForeignSettings(foreign.source, lambda _: True, {"n_sampled_goal": 1, "goal_selection_strategy": "final"}, {})
    translate_settings(old, CONVERSIONS)
    assert old.ours["config.replay.hindsight"].value == {"strategy": "final", "share": 0.5}
    without = ForeignSettings(foreign.source, lambda _: False, written, {})
    translate_settings(without, CONVERSIONS)
    assert without.remarks[0] == (
        "replay_buffer_class",
        wording("replay.hindsight"),
        Impact.LEARNING,
    )


def test_target_kl_is_translated_to_early_stop_kl_in_ppo_and_to_max_kl_in_trpo() -> None:
    names = [meaning_of("target_kl", SettingOrigin("sb3", (2, 8), run), lambda _: True) for run in ("ppo", "trpo")]
    assert [found and found.path for found in names] == ["config.early_stop_kl", "config.max_kl"]
