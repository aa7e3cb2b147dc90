"""Learned eyes: pictures rendered for training, a network, its training, its measures, and how a robot runs it."""
