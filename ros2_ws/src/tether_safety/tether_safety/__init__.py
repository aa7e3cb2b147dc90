"""Node of the safety supervisor, the gate before every motor"""
