"""Several agents on one task, each a process with skills of its own; they hand over by the task's record."""
