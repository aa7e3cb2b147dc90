"""Signatures of skills and models: who may be executed. See docs/integrity.md."""
