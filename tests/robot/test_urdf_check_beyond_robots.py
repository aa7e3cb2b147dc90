"""Inertias and centres of mass of links whose size nothing tells, against the largest robots there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.robot.check import check_file

ROBOT = """<robot name="r"><link name="a"><inertial><origin xyz="{centre}"/><mass value="{mass}"/>
<inertia ixx="{moment}" iyy="{moment}" izz="{moment}" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""


def found(folder: Path, mass: float, moment: float, centre: str) -> list[tuple[str, str, str]]:
    file = folder / "r.urdf"
    file.write_text(ROBOT.format(mass=mass, moment=moment, centre=centre), encoding="utf-8")
    report = check_file(file)
    return [(f.rule.value, f.severity.value, f.subject) for f in report.findings]


@pytest.mark.parametrize(
    ("moment", "centre"),
    [(1e300, "0 0 0"), (1e5, "0 0 0"), (0.01, "1e9 0 0"), (0.01, "0 -80 80"), (0.01, "0 0 1e308")],
)
def test_what_reaches_beyond_all_robots_is_an_error(moment: float, centre: str, tmp_path: Path) -> None:
    assert found(tmp_path, 1.0, moment, centre) == [("inertia-size", "error", "a")]


@pytest.mark.parametrize(("mass", "moment", "centre"), [(5e5, 1e8, "10 0 5"), (1e-6, 1e-12, "0 0 0")])
def test_a_crane_and_a_grain_are_in_order(mass: float, moment: float, centre: str, tmp_path: Path) -> None:
    assert found(tmp_path, mass, moment, centre) == []
