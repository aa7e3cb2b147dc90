"""Evaluation: episodes under fixed seeds, success with its confidence interval, failures by reason."""
