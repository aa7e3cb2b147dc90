"""Rewards: success split into verified subgoals, paid once each, late as the profile says, from one server."""
