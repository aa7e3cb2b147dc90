"""Node that closes the loops of the primitives at 100 Hz"""
