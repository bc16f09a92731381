"""Custom encoders: made from the space of a part, and refused if they do not fit it."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from torch import nn

from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.nn.custom_encoders import CustomEncoderModule
from rlrun.engine.nn.encoders import HIDDEN_GAIN, ObservationEncoder, initialize_orthogonally
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.observation_leaves import described_leaves, observation_leaves

OWN_ENCODERS = """
import numpy as np
import torch
from torch import nn

class Camera(nn.Module):
    def __init__(self, space):
        super().__init__()
        self.layer = nn.Linear(int(np.prod(space.shape)), 5)

    def forward(self, images):
        assert images.dtype == torch.uint8
        return self.layer(images.flatten(1) / 255)

class Lazy(nn.Module):
    def __init__(self, space):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.LazyLinear(7))

    def forward(self, images):
        return self.layers(images.float())

class Choice(nn.Embedding):
    def __init__(self, space):
        super().__init__(int(space.n), 3)

class Returning(Camera):
    def __init__(self, space, change):
        super().__init__(space)
        self.change = change

    def forward(self, images):
        return self.change(super().forward(images))

def flat(space):
    return Returning(space, lambda features: features[:, 0])

def single(space):
    return Returning(space, lambda features: features[:1])

def double(space):
    return Returning(space, lambda features: features.double())

def several(space):
    return Returning(space, lambda features: (features, features))

def dropout(space):
    return Returning(space, nn.Dropout(0.5))

def no_module(space):
    return 3

number = 3
made = nn.Linear(2, 2)
"""
SPACE = Dict(
    {"camera": Box(0, 255, (4, 6, 3), np.uint8), "radar": Box(0, 255, (2, 2), np.uint8), "speed": Box(-1, 1, (2,))}
)


@pytest.fixture(autouse=True)
def custom_encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "custom_encoders.py").write_text(OWN_ENCODERS)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_custom_encoder_receives_its_part_of_the_observation_unchanged(wording) -> None:
    encoders = {"camera": "custom_encoders:Camera", "radar": "custom_encoders:Lazy"}
    tree = observation_leaves(SPACE, {}, normalize=True, encoders=encoders)
    assert described_leaves(tree) == [
        wording("custom_encoders:Camera"),
        wording("custom_encoders:Lazy"),
        wording(),
    ]
    assert tree["camera"].own == pickle.loads(pickle.dumps(tree["camera"].own))
    encode = ObservationEncoder(tree)
    observations = {key: torch.as_tensor(np.stack([part.sample()] * 2)) for key, part in SPACE.items()}
    encoded = encode(observations)
    assert encoded.shape == (2, 14)
    camera = encode.parts[0]
    assert isinstance(camera, CustomEncoderModule)
    torch.testing.assert_close(encoded[:, :5], camera.module(observations["camera"]))


def test_a_custom_encoder_keeps_its_own_initial_weights() -> None:
    tree = observation_leaves(SPACE, {}, normalize=False, encoders={"camera": "custom_encoders:Camera"})
    encode = nn.Sequential(ObservationEncoder(tree), nn.Linear(11, 11))
    before = {name: parameter.detach().clone() for name, parameter in encode.named_parameters()}
    initialize_orthogonally(encode, HIDDEN_GAIN, torch.Generator().manual_seed(0))
    changed = [name for name, parameter in encode.named_parameters() if not torch.equal(parameter, before[name])]
    assert changed == ["1.weight", "1.bias"]


def test_trying_out_an_encoder_leaves_torchs_random_generator_unchanged() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    observation_leaves(SPACE, {}, normalize=False, encoders={"camera": "custom_encoders:Camera"})
    assert torch.rand(1) == expected


def test_an_observation_without_parts_can_have_a_custom_encoder() -> None:
    tree = observation_leaves(Discrete(4), {}, normalize=False, encoders={"": "custom_encoders:Choice"})
    assert ObservationEncoder(tree)(torch.tensor([1, 1, 2])).shape == (3, 3)


@pytest.mark.parametrize(
    ("encoders", "message"),
    [
        (
            {"camra": "custom_encoders:Camera"},
            "model.encoders: the observation has no part 'camra'.*; did you mean 'camera'",
        ),
        ({"camera": "custom_encoders:Camra"}, "has no 'Camra'; did you mean 'Camera'"),
        ({"camera": "own_encodrs:Camera"}, "'own_encodrs'; did you"),
        ({"camera": "Camera"}, "the encoder 'Camera' is not an import path"),
        (
            {"camera": "custom_encoders:no_module"},
            r"custom_encoders:no_module must create a torch\.nn\.Module, not int",
        ),
        (
            {"camera": "custom_encoders:number"},
            "custom_encoders:number must be a class or a function that creates one, got int",
        ),
        ({"camera": "custom_encoders:made"}, "custom_encoders:made must be a class"),
        (
            {"camera": "custom_encoders:flat"},
            r"features \[N, D\] of dtype torch.float32; .* returned \(2,\) of torch.float32",
        ),
        ({"camera": "custom_encoders:single"}, r"for N = 2 it returned \(1, 5\) of torch.float32"),
        ({"camera": "custom_encoders:double"}, r"for N = 2 it returned \(2, 5\) of torch.float64"),
        ({"camera": "custom_encoders:several"}, "for N = 2 it returned tuple"),
        ({"camera": "custom_encoders:dropout"}, "the encoder custom_encoders:dropout draws random numbers in forward"),
    ],
)
def test_an_encoder_that_does_not_fit_the_observation_is_refused_with_the_reason(
    encoders: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        observation_leaves(SPACE, {}, normalize=False, encoders=encoders)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoders": {"a": "lab:Net"}, "module": "lab:Net"}, "encodes observations itself; leave out encoders"),
        ({"encoders": {"a": "lab:Net"}, "observations": {"a": {}}}, "'a' is in both observations and encoders"),
        ({"observations": {"a": {"mask": "b"}}}, "pooling and mask need encode_as: entities"),
        (
            {"observations": {"a": {"encode_as": "image", "pooling": "max"}}},
            "pooling and mask need encode_as: entities",
        ),
    ],
)
def test_observation_and_encoder_settings_that_contradict_each_other_are_refused(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        ModelConfig.parse(settings)
