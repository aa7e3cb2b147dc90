"""`tether doctor`: looks at the machine before the robot does, and says what to fix."""
