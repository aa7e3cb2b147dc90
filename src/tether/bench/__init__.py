"""Benchmarks: side by side with a reference in one run, medians and spread, ratios pair by pair."""
