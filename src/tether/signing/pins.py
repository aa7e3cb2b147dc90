"""SHA-256 of what this version ships and may be executed: made by `tether sign --pin`, by whoever releases it.

A clone trusts these pins as it trusts the code beside them; set-up signs with the machine's development key what fits
its pin, and nothing else. Paths are below the repository's folder of that resource; see `tether.resources`.
"""

from __future__ import annotations

PINS: dict[str, tuple[str, str]] = {
    "eyes/manifest.json": (
        "model",
        "99a135cba30208d03b066f6979b8d94e809d74c8db02b5f49b75880a9a5a15d3",
    ),
    "student/fusion/manifest.json": (
        "model",
        "a21094c6eaf42faf0a41b8edb5f6d68631f8cf3080e833c4846238f1ff282be9",
    ),
    "student/policy/manifest.json": (
        "model",
        "f4cadb390b0f05a6adc00eab20eb34e3d5ba889b19b71f7262ba88ed81dd2deb",
    ),
    "teacher/manifest.json": (
        "model",
        "7c3b50b98600fab97a5539a94118d59ea92c129437cecd11cc24640ced36772a",
    ),
}
"""Path below models/ → (kind, SHA-256)."""
