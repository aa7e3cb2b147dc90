"""Trains an Ultralytics YOLO detector on Tether's rendered frames.

Ultralytics is AGPL-3.0, and claims that for weights trained with it too. So it is imported in this package only, which
nothing else in Tether imports unless `tether train detector --kind yolo` is called; what it trains is not shipped. The
exported model is run by `tether.vision.yolo`, which has no part of it.
"""
