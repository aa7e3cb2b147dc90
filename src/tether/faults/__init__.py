"""The fault campaign: faults put into the live graph, how long the robot took to stop, and whether it came back."""
