"""Action server for task skills."""
