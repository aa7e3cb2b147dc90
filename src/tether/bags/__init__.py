"""Bags: reading every kind of them, broken ones too, playing them back, and recording crash-safe MCAP."""

from tether.bags.model import BagMessage, Encoding, TopicInfo
from tether.bags.reader import Bag, open_bag
from tether.bags.report import BagError, CorruptMessageError, Loss, LossKind, Report

__all__ = [
    "Bag",
    "BagError",
    "BagMessage",
    "CorruptMessageError",
    "Encoding",
    "Loss",
    "LossKind",
    "Report",
    "TopicInfo",
    "open_bag",
]
