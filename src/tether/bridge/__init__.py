"""The OPD bridge: arbitrates between student, teacher and fallback, and streams aligned pairs to a trainer."""
