"""Frames in the folders and text files that Ultralytics reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml
from PIL import Image

from tether.vision.frames import Frames
from tether.vision.geometry import HEIGHT, WIDTH


def write_dataset(folder: Path, train: Frames, held_out: Frames) -> Path:
    """Write both sets below `folder`; returns the path of the file that describes them. Written once and kept.

    Frames whose cube is neither clearly seen nor clearly hidden are left out: YOLO has no way to ignore one.
    """
    description = folder / "data.yaml"
    if description.exists():
        return description
    for name, frames in (("train", train), ("val", held_out)):
        _write(folder, name, frames)
    content = {"path": str(folder.resolve()), "train": "images/train", "val": "images/val", "names": {0: "cube"}}
    description.write_text(yaml.safe_dump(content), encoding="utf-8")
    return description


def _write(folder: Path, name: str, frames: Frames) -> None:
    images, labels = folder / "images" / name, folder / "labels" / name
    images.mkdir(parents=True, exist_ok=True)
    labels.mkdir(parents=True, exist_ok=True)
    for i in np.flatnonzero(frames.shown | frames.hidden).tolist():
        Image.fromarray(frames.pictures[i]).save(images / f"{i:06d}.png", compress_level=1)
        text = ""
        if frames.shown[i]:
            x1, y1, x2, y2 = frames.boxes[i].tolist()
            centre, size = ((x1 + x2) / 2 / WIDTH, (y1 + y2) / 2 / HEIGHT), ((x2 - x1) / WIDTH, (y2 - y1) / HEIGHT)
            text = f"0 {centre[0]:.6f} {centre[1]:.6f} {size[0]:.6f} {size[1]:.6f}\n"
        (labels / f"{i:06d}.txt").write_text(text, encoding="utf-8")
