"""How hard decisions ask the eyes to look: for pictures stamped after them, as far as the eyes can, and no further."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.assembly import make_camera_ingest, skills
from tether.contracts import CameraModel, Estimate, HybridAction, ImageSample, Primitive, SampleRef, Source, Stream
from tether.errors import InvalidInputError
from tether.ingest.asking import OWN, Asked, LookHow, how_of
from tether.ingest.camera import CameraIngest
from tether.ingest.detector import ColourDetector
from tether.ingest.encoder import DetectorEncoder, PictureEncoder
from tether.ingest.rejection import Reason
from tether.ingest.tuned import TunedDetector
from tether.resources import resource_path
from tether.vision.eyes import LearnedEyes
from tether.vision.yolo import DetectorBesideEyes

MS = 1_000_000
WIDTH, HEIGHT = 320, 240
CAMERA = CameraModel(WIDTH, HEIGHT, np.array([[250.0, 0, 160], [0, 250.0, 120], [0, 0, 1]]))


def scene(boxes: tuple[tuple[int, int, int, int], ...] = ((120, 90, 160, 130),), seed: int = 0) -> np.ndarray:
    """Grey and noisy, with blocks in the cube's colour: x1, y1, x2, y2."""
    rgb = np.random.default_rng(seed).integers(110, 130, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    for x1, y1, x2, y2 in boxes:
        rgb[y1:y2, x1:x2] = (204, 26, 26)
    return rgb


def look(stamp_ns: int, **params: float) -> HybridAction:
    values = skills().clipped(Primitive.LOOK, **params)
    return HybridAction(0, stamp_ns, Primitive.LOOK, values, Estimate.none(stamp_ns), Source.CLASSIC)


def hold(stamp_ns: int) -> HybridAction:
    return HybridAction(0, stamp_ns, Primitive.HOLD, np.zeros(0), Estimate.none(stamp_ns), Source.CLASSIC)


def boxes_of(ingest: CameraIngest, stamp_ns: int, rgb: np.ndarray) -> np.ndarray:
    sample = ImageSample(SampleRef(Stream.CAMERA, stamp_ns, 0), rgb, CAMERA)
    result = ingest.ingest(sample, CAMERA, stamp_ns)
    assert result.rejection is None
    return result.feature.detections


@pytest.fixture(scope="module")
def eyes() -> LearnedEyes:
    return LearnedEyes.load(resource_path("models", "eyes"))


def test_defaults_of_look_and_other_primitives_ask_for_nothing() -> None:
    table = skills()
    assert how_of(table, Primitive.LOOK, table[Primitive.LOOK].default) == OWN
    assert how_of(table, Primitive.HOLD, np.zeros(0)) == OWN
    asked = table.clipped(Primitive.LOOK, confidence=0.1, iou=0.2, image_size=128.4)
    assert how_of(table, Primitive.LOOK, asked) == LookHow(0.1, 0.2, 128)
    with pytest.raises(InvalidInputError, match=r"look\.confidence"):
        how_of(table, Primitive.LOOK, np.array([np.nan, 0.5, 320, 0]))


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from([OWN, LookHow(0.1), LookHow(0.9)])), max_size=20))
def test_what_holds_at_a_stamp_is_the_newest_wish_before_it_and_a_record_of_the_changes_says_the_same(asks) -> None:
    live, said = Asked(), []
    asks.sort(key=lambda ask: ask[0])
    for since_ns, how in asks:
        if live.ask(since_ns, how):
            said.append((since_ns, how))
    again = Asked(reversed(said) if len({s for s, _ in said}) == len(said) else said)
    for stamp_ns in range(42):
        before = [how for since_ns, how in asks if since_ns < stamp_ns]
        assert live.at(stamp_ns) == again.at(stamp_ns) == (before[-1] if before else OWN)


def test_default_look_gives_the_boxes_of_nobody_asking_on_every_kind_of_eyes(eyes: LearnedEyes) -> None:
    rgb = scene()
    for encoder in (eyes, DetectorEncoder(ColourDetector()), DetectorBesideEyes(ColourDetector(), eyes)):
        plain, asked = CameraIngest(encoder), CameraIngest(encoder, skills=skills())
        asked.decided(look(0))
        expected = boxes_of(plain, 40 * MS, rgb)
        assert len(expected), "the block is seen"
        assert boxes_of(asked, 40 * MS, rgb).tobytes() == expected.tobytes()


def test_confidence_and_overlap_hold_for_pictures_stamped_after_the_decision_until_the_next(eyes: LearnedEyes) -> None:
    for encoder in (eyes, DetectorEncoder(ColourDetector())):
        ingest = CameraIngest(encoder, skills=skills())
        ingest.decided(look(100 * MS, confidence=0.95))
        assert len(boxes_of(ingest, 90 * MS, scene(seed=1))), "stamped before it"
        for stamp_ns in (110 * MS, 140 * MS):
            rgb = scene(seed=stamp_ns)
            found = boxes_of(CameraIngest(encoder), stamp_ns, rgb)
            assert boxes_of(ingest, stamp_ns, rgb).tolist() == [row for row in found.tolist() if row[4] >= 0.95]
            ingest.decided(hold(150 * MS))
        assert len(boxes_of(ingest, 160 * MS, scene(seed=3)))


def test_thresholds_reach_the_network_boxes(eyes: LearnedEyes) -> None:
    tuned = eyes.tuned(LookHow(confidence=0.07, iou=0.3))
    assert (tuned.config.confidence, tuned.config.iou) == (0.07, 0.3)
    assert (tuned.config.threads, tuned.session) == (eyes.config.threads, eyes.session)
    rgb = scene(((20, 30, 60, 70), (200, 150, 230, 180)))
    counts = [len(eyes.tuned(LookHow(confidence=c)).look(rgb, None).detections) for c in (0.05, 0.3, 0.95)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]


def test_overlapping_boxes_are_one_object_where_a_look_says_so() -> None:
    class Two:
        def detect(self, rgb, camera):
            return np.array([[0, 0, 10, 10, 0.9, 0], [2, 0, 12, 10, 0.8, 0]], np.float32)

    assert len(TunedDetector(Two(), LookHow(iou=0.9)).detect(scene(), None)) == 2
    assert len(TunedDetector(Two(), LookHow(iou=0.5)).detect(scene(), None)) == 1


@pytest.mark.parametrize("width", [96, 160, 319])
def test_shrunk_picture_gives_the_box_in_the_pixels_of_the_whole_one(width: int) -> None:
    rgb = scene(((121, 91, 162, 133),))
    whole = ColourDetector().detect(rgb, CAMERA)
    small = TunedDetector(ColourDetector(), LookHow(image_size=width)).detect(rgb, CAMERA)
    assert small.tobytes() != whole.tobytes()
    assert np.abs(small[0, :4] - whole[0, :4]).max() < 0.5 * WIDTH / width
    wider = TunedDetector(ColourDetector(), LookHow(image_size=640)).detect(rgb, CAMERA)
    assert wider.tobytes() == whole.tobytes(), "nothing is made larger than it is"


def test_camera_of_a_shrunk_picture_sees_the_same_directions() -> None:
    class Spy:
        def detect(self, rgb, camera):
            self.camera = camera
            assert rgb.shape[:2] == (camera.height, camera.width)
            return np.zeros((0, 6), np.float32)

    spy = Spy()
    TunedDetector(spy, LookHow(image_size=80)).detect(scene(), CAMERA)
    edge = np.array([[WIDTH - 0.5, HEIGHT - 0.5, 1.0], [-0.5, -0.5, 1.0]])
    small_edge = np.array([[79.5, 59.5, 1.0], [-0.5, -0.5, 1.0]])
    assert np.linalg.solve(spy.camera.k, small_edge.T) == pytest.approx(np.linalg.solve(CAMERA.k, edge.T))


def test_size_that_a_network_does_not_take_is_refused_by_name_and_the_rest_is_done(eyes: LearnedEyes) -> None:
    ingest = CameraIngest(eyes, skills=skills())
    answer = ingest.decided(look(0, image_size=200, confidence=0.1))
    assert answer.rejection is not None
    assert answer.rejection.reason is Reason.IMAGE_SIZE
    assert "200 px" in answer.rejection.detail and "128 px only" in answer.rejection.detail
    assert answer.how == LookHow(confidence=0.1)
    assert ingest.decided(look(1, image_size=128)).rejection is None


def test_size_is_capped_where_memory_is_little_and_only_there() -> None:
    ingest = make_camera_ingest("classic")
    assert ingest.decided(look(0, image_size=500)).how == LookHow(image_size=500)
    capped = ingest.decided(look(50 * MS, image_size=500), image_size_max=300)
    assert capped.how == LookHow(image_size=300) and capped.changed
    assert capped.rejection is not None and capped.rejection.reason is Reason.LITTLE_MEMORY
    assert ingest.decided(look(100 * MS, image_size=200), image_size_max=300).rejection is None


def test_decision_that_comes_late_changes_nothing_that_was_looked_at() -> None:
    ingest = make_camera_ingest("classic")
    boxes_of(ingest, 200 * MS, scene(seed=1))
    answer = ingest.decided(look(100 * MS, image_size=96))
    assert answer.since_ns == 200 * MS
    assert ingest.asked.at(200 * MS) == OWN


def test_episode_begins_with_nothing_asked_for() -> None:
    ingest = make_camera_ingest("classic")
    ingest.decided(look(0, image_size=96))
    ingest.reset()
    assert ingest.asked.newest == OWN


def test_every_encoder_says_which_width_it_takes(eyes: LearnedEyes) -> None:
    encoders: list[tuple[PictureEncoder, int | None]] = [
        (eyes, 128),
        (DetectorEncoder(ColourDetector()), None),
        (DetectorBesideEyes(ColourDetector(), eyes), None),
    ]
    assert [encoder.width_px for encoder, _ in encoders] == [width for _, width in encoders]
