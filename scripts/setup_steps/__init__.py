"""Steps of `make setup`; standard library only, since nothing is installed yet when they run."""
