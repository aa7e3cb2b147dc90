"""The student in models/ fits this code, its eyes and the skill table, and does what it was trained for."""

from __future__ import annotations

from tether.assembly import make_camera_ingest, settings_hashes, skills
from tether.models.manifest import read_manifest
from tether.rollout import Rollout
from tether.student.models import EYES, FUSION, POLICY, open_fusion, open_policy, require_eyes
from tether.student.naming import parse_name


def test_the_shipped_models_fit_this_code_and_each_other() -> None:
    name = parse_name("student")
    fusion = open_fusion(name.model_folder(FUSION), skills().sha256).manifest
    policy = open_policy(name.model_folder(POLICY), skills().sha256).manifest
    assert fusion.version == policy.version
    if EYES in fusion.trained_on:
        require_eyes(fusion, read_manifest(name.eyes_folder()))
    make_camera_ingest("student")
    hashes = settings_hashes("pick_moving", "real", "student")
    assert (hashes["student fusion"], hashes["student policy"]) == (fusion.sha256, policy.sha256)


def test_the_shipped_student_picks_a_moving_cube_up_at_the_first_attempt() -> None:
    with Rollout("student", "pick_moving", "real") as rollout:
        result = rollout.episode(200)
    assert result.success and result.attempts == 1
