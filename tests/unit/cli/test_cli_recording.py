"""Videos of multi-agent worlds, which need images."""

from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from rlrun import PPO, Training
from rlrun.cli.recording import _record_world
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.worlds.user_env import env_config
from rlrun.toys.cartpoles import CartPoles


class ToldPoles(CartPoles):
    @override
    def render(self) -> Any:
        return "two poles"


@pytest.mark.parametrize(("world", "returned"), [(ToldPoles, "str"), (CartPoles, "None")])
def test_recording_a_world_without_images_is_refused_and_the_missing_setting_is_named(
    world: type[CartPoles], returned: str, tmp_path: Path, wording: Any
) -> None:
    config = env_config({"world": world})
    advice = "env: {evaluation_kwargs: {render_mode: rgb_array}}"
    with (
        Training(config, PPO(model={"hiddens": [8]})) as training,
        wording.raised(UsageError, returned, advice),
    ):
        _record_world(training, config, tmp_path / "x.gif", 1, 0, None)
