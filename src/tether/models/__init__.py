"""Models in files: manifests that say all that is needed to run them, and runtimes behind one small interface."""
