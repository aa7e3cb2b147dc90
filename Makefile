# Two commands: `make sim` and `make test`. Each does all the set-up by itself; see docs/setup.md.
#
#   make sim                    three episodes of pick in the simulated world, through the whole ROS 2 graph
#   make sim EPISODES=20        more of them
#   make sim ARGS="--task pick_moving --profile real --policy classic"
#   make test                   lint, types and all tests (at most 30 minutes on two cores)
#   make test-fast              without the slow ones        T="tests/world -k lag" picks some
#   sudo make test-arm64        core, runtimes and drivers on Debian 12 arm64, emulated; see docs/robot.md
#   make test-isaac             Isaac Lab against the MuJoCo world, in its own environment (8 GB); see docs/isaac.md
#   make setup                  set-up alone                 PYTHON=python3.12 picks the interpreter
#   make doctor                 what is wrong with this machine
#   make clean                  removes all that set-up and builds made (not runs/)

SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON ?=
EPISODES =
ARGS =
T = tests

BIN := .venv/bin
SETUP := PYTHON="$(PYTHON)" sh scripts/setup
SOURCES := setup.py src scripts tests ros2_ws/src
NODES := $(patsubst %/setup.py,%,$(wildcard ros2_ws/src/*/setup.py))
EMPTY :=
NODE_PATH := $(subst $(EMPTY) $(EMPTY),:,$(NODES))
NODE_MODULES := $(foreach node,$(NODES),$(node)/$(notdir $(node)))
# One thread a process: the tests run beside each other's nodes on two cores.
QUIET_MATHS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(QUIET_MATHS) $(BIN)/python -m pytest

.PHONY: help setup setup-dev sim test test-fast test-isaac test-arm64 lint types format doctor clean s t tf l

help:
	@sed -n 's/^#   //p' Makefile

setup:
	@$(SETUP)

setup-dev:
	@$(SETUP) --dev

sim: setup
	@$(BIN)/tether sim $(if $(EPISODES),--episodes $(EPISODES)) $(ARGS)

lint: setup-dev
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)

types: setup-dev
	@$(BIN)/mypy
	@MYPYPATH=src:$(NODE_PATH) $(BIN)/mypy --config-file ros2_ws/mypy.ini $(NODE_MODULES)

test: lint types
	@sh scripts/run_tests $(T)

test-fast: setup-dev
	@$(PYTEST) $(T) -m "not slow"

# Not part of `make test`: as root, with an emulator; some five minutes once its system is there.
test-arm64:
	@sh scripts/test_arm64 $(filter-out tests,$(T))

# Not part of `make test`: Isaac Lab weighs 8 GB, and compiles its kernels for minutes the first time.
test-isaac:
	@PYTHON="$(PYTHON)" sh scripts/setup_isaac
	@mkdir -p reports
	@cd isaac_envs && $(QUIET_MATHS) ../.venv-isaac/bin/python -m pytest -s --junitxml=../reports/isaac.xml $(ARGS)

format: setup-dev
	@$(BIN)/ruff check --fix $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)

doctor: setup
	@$(BIN)/tether doctor $(ARGS)

clean:
	rm -rf .venv ros2_ws/build ros2_ws/install ros2_ws/log build dist reports .mypy_cache .ruff_cache .pytest_cache
	find src ros2_ws tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
	find src ros2_ws -name '*.egg-info' -type d -prune -exec rm -rf {} +

s: sim
t: test
tf: test-fast
l: lint
