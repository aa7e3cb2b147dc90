"""The console command: help worth reading, faults in one readable message, exit statuses that mean something."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tether import cli
from tether.assembly import policy_kit
from tether.cli import sim

COMMANDS = [
    *("sim", "eval", "study", "train", "launch", "replay", "bench", "faults", "fuzz", "urdf", "agent", "gateway"),
    *("sign", "verify", "deploy", "calibrate", "latency", "soak", "runtimes", "doctor"),
]
RUN = [sys.executable, "-c", "import sys; from tether.cli import main; sys.exit(main())"]


def exit_status(words: list[str]) -> int:
    try:
        return cli.main(words)
    except SystemExit as end:  # argparse's own end
        return int(end.code or 0)


@pytest.mark.parametrize("words", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_exits_with_0_and_says_something(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(words) == 0
    captured = capsys.readouterr()
    assert captured.out.strip()
    assert not captured.err


def test_every_command_stands_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(["--help"]) == 0
    out = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n    {name}" in out, name
    assert set(COMMANDS) == set(cli._COMMANDS)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense"],
        ["eval"],
        ["eval", "--policy", "classic", "--episodes", "0"],
        ["eval", "--policy", "classic", "--seed", "-1"],
        ["eval", "--policy", "scripted", "--truth-age-ms", "nan"],
        ["sim", "--episodes", "many"],
        ["sim", "--seed", str(2**63)],
        ["sim", "--seed", str(2**62 + 1)],
        ["eval", "--policy", "classic", "--episodes", str(2**64)],
        ["bench", "align", "--seed", "-1"],
        ["bench", "nonsense"],
        ["urdf", "nonsense"],
        ["replay"],
    ],
    ids=" ".join,
)
def test_what_is_not_understood_exits_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(words) == 2
    captured = capsys.readouterr()
    assert captured.err.strip()
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["eval", "--policy", "nobody", "--episodes", "1"], "nobody"),
        (["eval", "--policy", "classic", "--episodes", "1", "--task", "nothing"], "nothing"),
        (["eval", "--policy", "classic", "--episodes", "1", "--profile", "nowhere.yaml"], "nowhere.yaml"),
        (["replay", "no/such/bag", "--check"], "no/such/bag"),
        (["launch", "no_such.launch.xml"], "no_such.launch.xml"),
        (["urdf", "check", "no_such.urdf"], "no_such.urdf"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_fault_of_an_input_is_one_readable_message(words: list[str], named: str, tmp_path: Path) -> None:
    done = subprocess.run([*RUN, *words], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode in (1, 2), done.stderr
    assert named in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_interrupt_at_any_place_ends_with_130_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupted)
    assert exit_status(["doctor"]) == 130
    assert capsys.readouterr().err == "tether: interrupted\n"


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_output_that_cannot_be_written_is_refused_before_the_first_episode(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    words = ["eval", "--policy", "scripted", "--profile", "ideal", "--episodes", "1", "--workers", "1"]
    assert exit_status([*words, option, str(tmp_path / "file" / "result.json")]) == 2
    captured = capsys.readouterr()
    assert str(tmp_path / "file") in captured.err and "fix:" in captured.err
    assert not captured.out


@pytest.mark.parametrize("words", [["replay", "no/such/bag"], ["bench", "gate"]], ids=" ".join)
def test_a_folder_is_no_place_for_a_result(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_status([*words, "--json", str(tmp_path)]) == 2
    assert f"{tmp_path}: found a folder" in capsys.readouterr().err


def test_faults_of_policy_task_and_profile_are_reported_together_with_the_names_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_status(["eval", "--policy", "nobody", "--task", "nope", "--profile", "never"]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in ("'nobody'", "'nope'", "pick_moving", "'never'", "ideal"))
    assert "reinstall" not in error


@pytest.mark.parametrize(
    ("option", "typed", "meant"),
    [
        ("--policy", "studnet", "student"),
        ("--policy", "clasic", "classic"),
        ("--policy", "clasic+codebook", "classic+codebook"),
        ("--policy", "classic+difusion", "classic+diffusion"),
        ("--policy", "student_constant_velocity", "student+constant_velocity"),
        ("--task", "pick_moved", "pick_moving"),
        ("--profile", "reel", "real"),
    ],
)
def test_a_name_that_is_mistyped_is_answered_with_the_one_it_is_like(
    option: str, typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_status(["sim", option, typed]) == 2
    assert f"fix: did you mean '{meant}'?" in capsys.readouterr().err


def test_every_policy_that_an_unknown_one_is_answered_with_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(["eval", "--policy", "nosuch", "--json", "/dev/null"]) == 2
    error = capsys.readouterr().err
    assert "did you mean" not in error
    names = re.search(r"expected one of (.*)", error)[1].split(", ")
    alternatives = {"classic+codebook", "classic+diffusion", "classic+speed", "classic+precision", "classic+staged"}
    assert {"scripted", "classic", "teacher", "student", "student+padded", "student@FOLDER", *alternatives} <= {*names}
    for name in names:
        policy_kit(name.replace("MODALITY", "imu"))


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        (["eval", "--help"], ""),  # argparse swallows what fails at once
        (["urdf", "check", "no_such.urdf"], ""),
        (["urdf", "check", "no_such.urdf"], "1"),
    ],
)
def test_output_that_nobody_reads_ends_quietly_and_not_with_0(
    words: list[str], unbuffered: str, tmp_path: Path
) -> None:
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*RUN, *words], cwd=tmp_path, env=env, stdout=writer, stderr=subprocess.PIPE, timeout=100, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_broken_pipe_that_is_not_the_output_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def worker_gone(*arguments: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("importlib.import_module", worker_gone)
    assert exit_status(["doctor"]) == 1
    assert "Broken pipe" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["eval", "--policy", "classic", "--jsn", "x"], ["agent", "check", "nonsense"]])
def test_unknown_argument_is_answered_with_the_usage_of_its_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_status(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"usage: tether {words[0]} ")
    assert words[-1] in error


def test_failure_of_the_system_names_the_file_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device", "runs/x")

    monkeypatch.setattr("importlib.import_module", full)
    assert exit_status(["doctor"]) == 1
    assert capsys.readouterr().err == (
        "tether: runs/x: No space left on device\n  fix: check the path, its permissions and the free space\n"
    )


@pytest.mark.parametrize(
    ("module", "fix"),
    [
        ("mujoco", "run `make setup` in a checkout, or `pip install 'tether-robotics[sim]'`"),
        ("torch.nn", "run `make setup-dev` in a checkout, or `pip install 'tether-robotics[train]'`"),
        ("unified_planning", "run `make setup-dev` in a checkout, or `pip install 'tether-robotics[agent]'`"),
        ("faiss", "run `make setup-dev` in a checkout, or `pip install 'tether-robotics[agent]'`"),
        ("cv2", "`pip install 'tether-robotics[calibrate]'`"),
    ],
)
def test_missing_package_is_named_with_the_extra_that_brings_it(
    module: str, fix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*arguments: object) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("importlib.import_module", missing)
    assert exit_status(["doctor"]) == 2
    assert capsys.readouterr().err.endswith(f"which is not installed here\n  fix: {fix}\n")


@pytest.mark.parametrize("age", ["abc", "nan", "3", "-10"])
def test_age_of_the_truth_that_is_refused_is_told_what_is_expected(
    age: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_status(["eval", "--policy", "scripted", f"--truth-age-ms={age}"]) == 2
    assert "expected 0 to 1000 ms in steps of 10 ms" in capsys.readouterr().err


def test_age_of_the_truth_is_refused_for_what_never_sees_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["eval", "--episodes", "1", "--workers", "1", "--truth-age-ms", "0", "120", "--policy"]
    assert exit_status([*words, "classic"]) == 2
    assert "--truth-age-ms: found classic, which never sees the truth" in capsys.readouterr().err


def test_a_stdout_that_was_closed_from_the_start_is_no_error_of_its_own() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *RUN, "--version"], stderr=subprocess.PIPE, text=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_missing_is_named_where_the_sources_are_not_installed() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(cli.__file__).parents[2])!r}); "
        "import tether.cli as c; print(c._fix_of_missing('mujoco'))"
    )
    # -S leaves installed packages out, and with them what would say which extra asks for what
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "tether-robotics[sim]" in done.stdout


STREAMS = """
import os, subprocess, sys
from pathlib import Path
from tether import cli

def run(words):
    with Path(sys.argv[1]).open("w") as file:
        assert file.fileno() > 2
        os.write(1, b"a library's line")
        print(input() if sys.stdin.isatty() else sys.stdin.read(), "to the reader")
        subprocess.run([sys.executable, "-c", "import os; os.write(1, b'x'); os.write(2, b'y')"], check=True)
        sys.stderr.write("a warning")
        file.write("result")
    return 0

cli._run = run
sys.exit(cli.main([]))
"""


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_end_no_command_and_get_into_no_file(closed: str, tmp_path: Path) -> None:
    file = tmp_path / "result"
    command = f'exec "{sys.executable}" -c "$CODE" "{file}" {closed}'
    env = {**os.environ, "CODE": STREAMS}
    done = subprocess.run(
        ["sh", "-c", command], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert file.read_text(encoding="utf-8") == "result"


def test_a_command_whose_output_is_closed_does_its_work(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = f'exec "{sys.executable}" -c "$CODE" urdf check urdf/tether_rover.urdf.xacro --json "{report}" >&-'
    env = {**os.environ, "CODE": RUN[2]}
    done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert report.stat().st_size


@pytest.mark.parametrize(
    "locale",
    [
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=str,
)
def test_what_the_encoding_of_the_output_does_not_have_is_escaped(locale: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "robot….urdf"
    file.write_text('<robot name="r"><link name="a"/></robot>', encoding="utf-8")
    env = {name: text for name, text in os.environ.items() if not name.startswith(("LC_", "PYTHON"))} | locale
    ended = subprocess.run([*RUN, "urdf", "check", file], capture_output=True, env=env, timeout=100)
    assert b"Traceback" not in ended.stderr
    assert ended.returncode == 0
    assert b"robot\\u2026.urdf" in ended.stdout or b"robot\\udce2\\udc80\\udca6.urdf" in ended.stdout


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_sim_refuses_a_latest_that_is_no_link_before_the_first_episode(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    latest = tmp_path / "runs" / "latest"
    (latest if kind == "folder" else latest.parent).mkdir(parents=True)
    if kind == "file":
        latest.write_text("mine", encoding="utf-8")
    assert exit_status(["sim", "--policy", "classic", "--episodes", "1", "--no-record", "--no-report"]) == 2
    assert f"runs/latest: found a {kind}, expected a link to the latest run" in capsys.readouterr().err
    assert list(latest.parent.iterdir()) == [latest]


def test_a_latest_that_cannot_be_replaced_leaves_no_link_of_its_own_behind(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for folder in (run, tmp_path / "latest"):
        folder.mkdir()
    with pytest.raises(IsADirectoryError):
        sim._leave_result(run, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "run"]
