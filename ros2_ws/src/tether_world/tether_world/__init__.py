"""Node of the MuJoCo world"""
