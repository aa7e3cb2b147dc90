"""What a recording says of the robot it was made with."""

from __future__ import annotations

import shutil
from pathlib import Path

from tether.resources import resource_path
from tether.robot.description import description_sha256, expand

ROVER = resource_path("urdf", "tether_rover.urdf.xacro")


def test_hash_of_a_description_is_that_of_what_it_says_wherever_it_lies(tmp_path: Path) -> None:
    shutil.copytree(ROVER.parent, tmp_path / "elsewhere")
    copy = tmp_path / "elsewhere" / ROVER.name
    assert expand(copy) != expand(ROVER), "xacro names the file it has read"
    assert description_sha256(copy) == description_sha256(ROVER)


def test_hash_changes_with_what_is_said(tmp_path: Path) -> None:
    plain, other = tmp_path / "a.urdf", tmp_path / "b.urdf"
    plain.write_text('<robot name="r"><link name="a"/><!-- one --></robot>')
    other.write_text('<robot name="r">\n  <link name="a"></link>\n</robot>')
    assert description_sha256(plain) == description_sha256(other)
    other.write_text('<robot name="r"><link name="b"/></robot>')
    assert description_sha256(plain) != description_sha256(other)
