"""TensorBoard event files, written without the tensorboard package.

An event file is a sequence of records, each framed with checksums (TFRecord), that hold one `Event` message each, as
defined in tensorboard/compat/proto/event.proto. The few fields that scalars and hyper-parameters need are encoded here:
importing TensorBoard's own writer takes 0.24 s, starts a thread per file, and ties a run to one version of protobuf.
"""

from __future__ import annotations

import math
import struct
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE_PATTERN = "events.out.tfevents.*"

# Field numbers and wire types of event.proto and summary.proto, encoded as tag bytes.
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY, _SESSION_LOG = b"\x09", b"\x10", b"\x1a", b"\x2a", b"\x3a"
_SUMMARY_VALUE, _VALUE_TAG, _VALUE_SIMPLE = b"\x0a", b"\x0a", b"\x15"
_SESSION_START = b"\x08\x01"
_VALUE_TENSOR, _VALUE_METADATA, _METADATA_PLUGIN = b"\x42", b"\x4a", b"\x0a"
_PLUGIN_NAME, _PLUGIN_CONTENT = b"\x0a", b"\x12"
_NO_NUMBERS = b"\x08\x01\x12\x02\x12\x00"  # an empty tensor of floats; every value must have a tensor

# Tags of tensorboard/plugins/hparams/plugin_data.proto, and of protobuf's own map entries and struct.proto.
_HPARAMS_TAG = b"_hparams_/session_start_info"
_SESSION_START_INFO, _SESSION_PARAMS, _SESSION_GROUP, _SESSION_START_TIME = b"\x1a", b"\x0a", b"\x22", b"\x29"
_ENTRY_KEY, _ENTRY_VALUE, _NUMBER, _TEXT, _TRUTH = b"\x0a", b"\x12", b"\x11", b"\x1a", b"\x20"


class EventFile:
    """Writer of one TensorBoard event file; TensorBoard merges the event files of a directory, ordered by name."""

    def __init__(self, directory: Path, first_step: int) -> None:
        """Creates a new event file, ordered after the existing ones in the directory.

        Args:
            directory: The trial's directory.
            first_step: First step of this file; from earlier files, TensorBoard discards this step and later ones.
        """
        earlier = (int(path.name.split(".")[-2]) for path in directory.glob(f"{FILE_PATTERN}.rlrun"))
        number = max(earlier, default=-1) + 1  # not the number of files: the user may have removed some
        self._file = (directory / f"events.out.tfevents.{number:010d}.rlrun").open("xb", buffering=0)
        self._write(_field(_FILE_VERSION, b"brain.Event:2"), 0)
        self._write(_field(_SESSION_LOG, _SESSION_START), first_step)

    def add_scalars(self, step: int, scalars: Mapping[str, float]) -> None:
        """Writes scalar summaries by tag at a step; numbers beyond the range of float32 become infinite."""
        values = b"".join(
            _field(_SUMMARY_VALUE, _field(_VALUE_TAG, name.encode()) + _VALUE_SIMPLE + _float32(value))
            for name, value in scalars.items()
        )
        self._write(_field(_SUMMARY, values), step)

    def add_hyperparameters(self, step: int, values: Mapping[str, Any], group: str) -> None:
        """Writes the trial's hyperparameters to TensorBoard's HPARAMS tab, which shows them next to the scalars.

        Args:
            step: Step of the summary.
            values: Numbers, booleans and strings by name; None is omitted, other values are converted to strings.
            group: Name of the trial's group; the tab has one line per group, with the means of its trials' metrics.
        """
        entries = b"".join(
            _field(_SESSION_PARAMS, _field(_ENTRY_KEY, name.encode()) + _field(_ENTRY_VALUE, _struct_value(value)))
            for name, value in values.items()
            if value is not None
        )
        start = _SESSION_START_TIME + struct.pack("<d", time.time())
        content = _field(_SESSION_START_INFO, entries + _field(_SESSION_GROUP, group.encode()) + start)
        plugin = _field(_PLUGIN_NAME, b"hparams") + _field(_PLUGIN_CONTENT, content)
        metadata = _field(_VALUE_METADATA, _field(_METADATA_PLUGIN, plugin))
        value = _field(_VALUE_TAG, _HPARAMS_TAG) + metadata + _field(_VALUE_TENSOR, _NO_NUMBERS)
        self._write(_field(_SUMMARY, _field(_SUMMARY_VALUE, value)), step)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _write(self, content: bytes, step: int) -> None:
        event = _WALL_TIME + struct.pack("<d", time.time()) + _STEP + _varint(step) + content
        length = struct.pack("<Q", len(event))
        self._file.write(length + _checksum(length) + event + _checksum(event))


def tag_of(metric: str) -> str:
    """TensorBoard tag of a metric; a metric without a group prefix is put in a default group.

    Examples:
        >>> tag_of("learner/loss"), tag_of("episode_return_mean"), tag_of("env_steps")
        ('learner/loss', 'episodes/episode_return_mean', 'training/env_steps')
    """
    if "/" in metric:
        return metric
    return f"{'episodes' if metric.startswith('episode') else 'training'}/{metric}"


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(len(content)) + content


def _float32(value: float) -> bytes:
    try:
        return struct.pack("<f", float(value))
    except OverflowError:
        return struct.pack("<f", math.inf if value > 0 else -math.inf)


def _struct_value(value: Any) -> bytes:
    """Encodes a google.protobuf.Value, whose numbers are float64."""
    if isinstance(value, bool):
        return _TRUTH + _varint(value)
    if isinstance(value, float) or (isinstance(value, int) and abs(value) <= sys.float_info.max):
        return _NUMBER + struct.pack("<d", value)
    return _field(_TEXT, str(value).encode())


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def _checksum(data: bytes) -> bytes:
    """TFRecord's masked CRC-32C."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF)


def _crc_table() -> tuple[int, ...]:
    table = []
    for entry in range(256):
        for _ in range(8):
            entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
        table.append(entry)
    return tuple(table)


_CRC_TABLE = _crc_table()
