"""`tether soak`: a robot, or its emulated devices, run for hours; faults are put in, and what wears is counted."""
