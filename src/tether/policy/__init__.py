"""Policies behind the hybrid-action interface (`tether.policy.protocol.Policy`)."""
