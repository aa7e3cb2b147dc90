"""Node that chooses the hybrid action"""
