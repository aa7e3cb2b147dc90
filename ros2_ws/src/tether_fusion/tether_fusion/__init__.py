"""Node that makes one state of everything that has arrived"""
