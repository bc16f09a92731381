"""Trains shipped specs and records their policies for the documentation's gallery.

    python -m scripts.gallery                        # all specs below; a quarter of an hour
    python -m scripts.gallery cartpole/ppo           # only some of them

The videos are animated WebP files in docs/images/gallery, each at most 200 kB. The script needs the `video` extra.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageSequence

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "images" / "gallery"
SPECS = (
    "cartpole/ppo",
    "pendulum/sac",
    "acrobot/ppo",
    "mountain_car_continuous/sac",
    "cliff_walking/q_learning",
    "taxi/q_learning",
    "lunar_lander/ppo",
)
WIDTH, FRAMES, MOST_BYTES = 240, 120, 200_000
"""Maximum width in pixels, number of frames, and size in bytes of a video."""
SHORTEST_MS, LONGEST_MS = 60, 300
"""Bounds on the duration of a frame; short episodes are played in slow motion."""


def main() -> None:
    """Records the specs named on the command line, or all specs."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for spec in sys.argv[1:] or SPECS:
        output = FOLDER / f"{spec.replace('/', '-')}.webp"
        with tempfile.TemporaryDirectory(prefix="gallery-") as folder:
            write(frames_of(recorded(spec, Path(folder))), output)
        print(f"{output}: {output.stat().st_size} bytes", flush=True)


def recorded(spec: str, folder: Path) -> Path:
    """Trains the first experiment of a spec and records one episode; returns the GIF."""
    rlrun, runs = [sys.executable, "-m", "rlrun"], ["--runs-dir", str(folder / "runs")]
    subprocess.run([*rlrun, "train", f"{ROOT}/configs/{spec}.yaml", "--name", "run", "--seed", "0", *runs], check=True)
    video = folder / "video.gif"
    subprocess.run([*rlrun, "record", "run", "-o", str(video), *runs], check=True)
    return video


def frames_of(video: Path) -> list[Image.Image]:
    """Returns evenly spaced frames of a GIF, scaled down."""
    with Image.open(video) as opened:
        frames = [frame.convert("RGB") for frame in ImageSequence.Iterator(opened)]
    stride = -(-len(frames) // FRAMES)
    height = round(WIDTH * frames[0].height / frames[0].width)
    return [frame.resize((WIDTH, height), Image.Resampling.LANCZOS) for frame in frames[::stride]]


def write(frames: list[Image.Image], output: Path) -> None:
    """Writes frames as an animated WebP, in the best quality that fits the size limit."""
    duration = min(LONGEST_MS, max(SHORTEST_MS, 4_000 // len(frames)))
    for quality in (70, 50, 30, 10):
        frames[0].save(
            output, save_all=True, append_images=frames[1:], duration=duration, loop=0, quality=quality, method=6
        )
        if output.stat().st_size <= MOST_BYTES:
            return


if __name__ == "__main__":
    main()
