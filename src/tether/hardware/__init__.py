"""Drivers of the physical robot, behind the World protocol. Nothing in here knows ROS."""
