"""Nodes that run the graph as a whole: lifecycle manager, recorder, replay, all stages in one process."""
