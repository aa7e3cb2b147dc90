"""The teacher as a model: exported, refused where it does not fit, acting, and labelling others' states."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tether.assembly import robot, skills
from tether.contracts import Primitive
from tether.learning.config import SacConfig
from tether.learning.sac import Agent
from tether.learning.spaces import HybridSpace
from tether.models.errors import ModelRefusedError
from tether.motion.kinematics import ArmKinematics
from tether.student.labels import Scaling
from tether.teacher.actions import PRIMITIVES
from tether.teacher.env import TeacherEnv
from tether.teacher.export import export_teacher
from tether.teacher.loop import OracleLoop
from tether.teacher.model import TeacherNetwork, open_teacher
from tether.teacher.observation import SIZE, TeacherMemory
from tether.teacher.policy import TeacherLabeller, TeacherPolicy, teacher_action
from tether.world.profile import Delay


@pytest.fixture(scope="module")
def agent() -> Agent:
    return Agent(HybridSpace.of(TeacherEnv().action_space), SIZE, SacConfig(hidden=(32,)), seed=0)


@pytest.fixture(scope="module")
def folder(agent: Agent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "teacher"
    export_teacher(path, agent, skills(), version="0", seed=0, trained_on={}, scores={})
    return path


@pytest.fixture
def loop() -> OracleLoop:
    loop = OracleLoop("pick", "ideal_lagged", Delay(0.0, 0.0, 0.0))
    loop.reset(1)
    return loop


def test_the_exported_model_acts_as_the_agent_does(agent: Agent, folder: Path) -> None:
    network = TeacherNetwork(skills(), open_teacher(folder, skills()))
    rng = np.random.default_rng(0)
    for _ in range(50):
        observation = rng.uniform(-2.0, 2.0, SIZE).astype(np.float32)
        verdict = network.judge(observation, np.ones(len(Primitive), np.bool_))
        theirs = agent.act(observation, deterministic=True)
        assert verdict.best == theirs.choice
        assert verdict.mean[verdict.best] == pytest.approx(theirs.params, abs=1e-5)


def test_a_model_of_another_layout_is_refused(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["trained_on"]["observation_sha256"] = "of another time"
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelRefusedError, match="observation_sha256"):
        open_teacher(tmp_path, skills())


def test_the_policy_keeps_to_the_mask_and_the_table(folder: Path, loop: OracleLoop) -> None:
    network = TeacherNetwork(skills(), open_teacher(folder, skills()))
    policy = TeacherPolicy(robot(), network)
    policy.reset(0)
    for _ in range(5):
        action = policy.decide(loop.state(), loop.truth)
        skills().checked(action.primitive, action.params)
        assert action.primitive in PRIMITIVES
        assert policy.primitive_probability().sum() == pytest.approx(1.0)
        loop.act(action.primitive, action.params, action.estimate)
    only = np.zeros(len(Primitive), np.bool_)
    only[Primitive.RETREAT] = True
    memory = TeacherMemory(ArmKinematics(robot()))
    assert teacher_action(network, memory, loop.truth, loop.now_ns, only).primitive is Primitive.RETREAT
    with pytest.raises(ValueError, match="none of the teacher's primitives"):
        teacher_action(network, memory, loop.truth, loop.now_ns, np.zeros(len(Primitive), np.bool_))
    with pytest.raises(ValueError, match="truth channel"):
        policy.decide(loop.state(), None)


def test_labels_of_its_own_run_are_what_the_policy_does(folder: Path, loop: OracleLoop) -> None:
    network = TeacherNetwork(skills(), open_teacher(folder, skills()))
    policy = TeacherPolicy(robot(), network)
    scaling = Scaling(skills())
    labeller = TeacherLabeller(robot(), network, scaling)
    policy.reset(0), labeller.reset()
    last: Primitive | None = None
    for _ in range(12):
        label = labeller.label(loop.truth, last)
        action = policy.decide(loop.state(), loop.truth)
        assert int(np.argmax(label.probability)) == action.primitive
        assert label.probability == pytest.approx(policy.primitive_probability())
        params = scaling.params(action.primitive, label.mean[action.primitive])
        assert params == pytest.approx(action.params, abs=1e-6)
        assert (label.spread > 0.0).all()
        loop.act(action.primitive, action.params, action.estimate)
        last = action.primitive
