"""Ingest: what sensors send, judged and brought into one form. What is refused is named and counted."""
