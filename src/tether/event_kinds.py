"""Kinds of /events by which a recording says what it was made with; `tether replay --check` reads them."""

from __future__ import annotations

RUN_CONFIG = "run_config"
"""What a run was made with."""
MODEL_RUNTIMES = "model_runtimes"
"""What runs a node's models: under `runtimes`, SHA-256 → see `Session.runtime`; under `since_ns`, from which stamp on
(of pictures for eyes, of decisions for all others)."""
ARBITER_THRESHOLD = "arbiter_threshold"
"""An episode's threshold, said by the bridge where it has an arbiter."""
LOOK_HOW = "look_how"
"""How hard the eyes look at pictures stamped after `since_ns`: `confidence`, `iou`, `image_size`, null: their own
(`tether.ingest.asking`)."""
LOOKING = "looking"
"""How often the eyes look from here on, and why (`tether.ingest.looking`); for whoever reads the recording."""
