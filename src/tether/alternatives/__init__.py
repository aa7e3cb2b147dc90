"""Alternatives for the parameters of `reach` and `grasp`: several models for one step, and the choice between them."""
