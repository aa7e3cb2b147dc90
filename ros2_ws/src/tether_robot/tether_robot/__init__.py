"""Nodes of the physical robot and of its emulator"""
