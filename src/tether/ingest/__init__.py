"""Ingest: what sensors send, judged and brought into one form. Whatever is refused is refused by name and
counted.
"""
