"""`tether calibrate` and `tether latency`: what one robot is, measured on it, as its calibration and profile."""
