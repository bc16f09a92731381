"""Zip files of Stable-Baselines3, read without running their content: tensors, and settings that are plain JSON.

The files in such an archive::

    policy.pth             the policy's parameters, saved by torch
    pytorch_variables.pth  SAC's temperature
    data                   JSON; values that JSON cannot represent are pickled, and these are never loaded
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.checkpoint.plain_json import load_json
from rlrun.engine.messages.errors import UsageError

MOST_TENSOR_BYTES = 2**30
"""Upper bound of the unpacked size of a file of tensors."""

MOST_DATA_BYTES = 2**26
"""Upper bound of the unpacked size of the settings."""

_MOST_NAMES_PER_TENSOR = 4
"""Upper bound of names that share a tensor: a shared image encoder has three."""

Tensors = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Sb3Zip:
    """Content of a Stable-Baselines3 zip file.

    Attributes:
        path: Path of the file, for messages.
        tensors: Parameters of the policy by name.
        variables: Tensors outside of the policy, such as SAC's temperature, by name.
        settings: Attributes of the algorithm by name; for pickled attributes, the readable text next to the pickle.
    """

    path: Path
    tensors: Tensors
    variables: Tensors
    settings: Mapping[str, Any]

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Parameter tensor of the policy by name.

        Raises:
            UsageError: There is no such parameter.
        """
        if name not in self.tensors:
            raise UsageError(f"{self.path}: policy.pth lacks {name}")
        return self.tensors[name]

    def section(self, name: str) -> Mapping[str, Any]:
        """Entries of a setting that is a mapping or a pickled object; {} if the setting is missing."""
        found = self.settings.get(name)
        return found if isinstance(found, Mapping) else {}


def read_sb3_zip(path: Path) -> Sb3Zip:
    """Reads a zip file written by `model.save` of Stable-Baselines3.

    Raises:
        UsageError: The file is damaged, too large, or not from Stable-Baselines3.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if "policy.pth" not in names:
                raise UsageError(
                    f"{path}: contains no policy.pth: it was not written by SB3's model.save, or is damaged"
                )
            read = {
                name: _member(archive, name, most)
                for name, most in (
                    ("policy.pth", MOST_TENSOR_BYTES),
                    ("pytorch_variables.pth", MOST_TENSOR_BYTES),
                    ("data", MOST_DATA_BYTES),
                )
                if name in names
            }
            settings = load_json(read["data"]) if "data" in read else {}
        parts = {name: _tensors(data, name) for name, data in read.items() if name != "data"}
    except FileNotFoundError:
        raise UsageError(f"{path}: file not found") from None
    except UsageError as error:
        raise UsageError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    except Exception as error:  # zipfile and zlib raise many types for a damaged or crafted file
        reason = str(error).partition("\n")[0]
        raise UsageError(f"{path}: cannot be read as an SB3 zip file: {reason[:200]}") from error
    if not isinstance(settings, dict):
        raise UsageError(f"{path}: its data is not a mapping of settings")
    return Sb3Zip(path, parts["policy.pth"], parts.get("pytorch_variables.pth", {}), settings)


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Reads a file of the archive, at most as many bytes as its entry in the archive declares."""
    size = archive.getinfo(name).file_size
    if size > most:
        raise UsageError(f"{name} has {size:,} bytes unpacked, more than the limit of {most:,}")
    return archive.read(name)


def _tensors(data: bytes, name: str) -> dict[str, NDArray[np.float32]]:
    """Loads the tensors of a file that torch saved, which is a zip file itself.

    Raises:
        UsageError: The file holds anything but tensors of finite numbers, or tensors that are larger than the file.
    """
    import torch

    with zipfile.ZipFile(io.BytesIO(data)) as inner:
        members = inner.infolist()
    is_packed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    if is_packed or sum(member.file_size for member in members) > len(data):
        raise UsageError(f"{name} is compressed, which torch never does")
    try:
        loaded = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types if the pickle contains more than tensors
        reason = str(error).partition("\n")[0]
        raise UsageError(f"{name} contains objects other than tensors, or is damaged: {reason[:120]}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict) or not all(_is_plain(part) for part in loaded.values()):
        raise UsageError(f"{name} contains objects other than tensors of numbers")
    if sum(part.numel() * part.element_size() for part in loaded.values()) > _MOST_NAMES_PER_TENSOR * len(data):
        raise UsageError(f"{name} contains tensors that are larger than the file")
    arrays = {str(key): part.detach().float().numpy() for key, part in loaded.items()}
    for key, array in arrays.items():
        if not np.isfinite(array).all():
            raise UsageError(f"{name}: {key} contains NaN or infinite numbers")
    return arrays


def _is_plain(part: Any) -> bool:
    import torch

    return isinstance(part, torch.Tensor) and part.layout == torch.strided and part.device.type == "cpu"
