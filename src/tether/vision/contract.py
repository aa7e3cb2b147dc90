"""What a model has to be to serve as eyes: names, shapes, settings."""

from __future__ import annotations

from tether.models.manifest import DType, TensorSpec
from tether.models.session import Expectation
from tether.vision.geometry import HEIGHT, STRIDE, TOKEN_DIM, TOKENS, WIDTH

KIND = "eyes"
_ROWS, _COLUMNS = HEIGHT // STRIDE, WIDTH // STRIDE

PICTURE = TensorSpec("picture", (1, HEIGHT, WIDTH, 3), DType.UINT8, "RGB, resized by area, top row first")
TOKENS_OUT = TensorSpec("tokens", (1, TOKENS, TOKEN_DIM), DType.FLOAT32, "map of 6 x 8 cells, row by row")
CONFIDENCE_OUT = TensorSpec("confidence", (1, _ROWS, _COLUMNS), DType.FLOAT32, "0 to 1: a box's centre is in this cell")
BOX_OUT = TensorSpec(
    "box",
    (1, 4, _ROWS, _COLUMNS),
    DType.FLOAT32,
    "px of picture: offset x, y of the centre from the cell's centre, width, height",
)
EYES = Expectation(KIND, (PICTURE,), (TOKENS_OUT, CONFIDENCE_OUT, BOX_OUT))
