"""Threads of numerical libraries: what is recorded is what holds, and evaluations use one each."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys

import pytest

from tether import assembly
from tether.threads import VARIABLES, numerical_threads, one_thread_for_children


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_openblas_own_variable_goes_before_the_common_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numerical_threads() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert numerical_threads() == 3
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    assert numerical_threads() == 2
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "0")
    assert numerical_threads() == 3


def test_policy_stage_records_the_threads_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "5")
    assert assembly.make_policy_stage("classic").threads == 5


def test_worker_processes_get_one_thread_and_the_parent_keeps_its_own() -> None:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        with one_thread_for_children():
            worker = pool.submit(numerical_threads)
        assert worker.result(timeout=60) == 1
    assert not any(name in os.environ for name in VARIABLES)


def test_eval_command_limits_threads_before_numpy_is_imported() -> None:
    code = (
        "import sys, os, tether.cli\n"
        "assert 'numpy' not in sys.modules\n"
        "try: tether.cli.main(['eval', '--help'])\n"
        "except SystemExit: print(os.environ['OPENBLAS_NUM_THREADS'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "1"
