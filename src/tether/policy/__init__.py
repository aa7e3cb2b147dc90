"""Policies behind the hybrid-action interface (contracts.Policy)."""
