"""Camera ingest: a raw or compressed picture into an `ImageFeature`, or one that says why it was refused."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from tether.config import bounded
from tether.contracts import U8, CameraModel, HybridAction, ImageFeature, ImageSample, SampleRef, Stream
from tether.ingest.admission import AdmissionConfig, ClockJump, StampAdmission
from tether.ingest.asking import OWN, Asked, LookHow, how_of
from tether.ingest.compressed import decode_compressed
from tether.ingest.encoder import PictureEncoder
from tether.ingest.encodings import Buffer, DepthImage, Order8UC3, Picture, decode_raw
from tether.ingest.rejection import Reason, RejectedError, Rejection
from tether.models.running import runtimes_of
from tether.skills import SkillTable

_MS = 1_000_000
_NO_DETECTIONS = np.zeros((0, 6), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class RawImage:
    """The fields of a sensor_msgs/Image."""

    stamp_ns: int
    encoding: str
    width: int
    height: int
    step: int
    is_bigendian: bool
    data: Buffer


@dataclass(frozen=True, eq=False)
class CompressedImage:
    """The fields of a sensor_msgs/CompressedImage."""

    stamp_ns: int
    format: str
    data: Buffer


@dataclass(frozen=True)
class CameraConfig:
    """How the camera stream is judged. A camera's samples come late and seldom, so its gap bound is wider."""

    admission: AdmissionConfig = field(
        default_factory=lambda: AdmissionConfig(reorder_window_ns=200 * _MS, gap_ns=250 * _MS)
    )
    order_8uc3: Order8UC3 | None = None
    constant_after: int = bounded(
        2, 1000, unit="pictures", default=2, doc="pictures equal bit for bit in a row: camera or driver is stuck"
    )
    noiseless_world: bool = False
    """Named exception for noiseless simulators, where a scene at rest looks the same. Refuse it on a robot."""


@dataclass(frozen=True, eq=False)
class CameraResult:
    """What became of one picture. rgb: (H, W, 3) uint8, or None where refused; feature: always there."""

    feature: ImageFeature
    rgb: U8 | None
    rejection: Rejection | None
    jump: ClockJump | None = None
    gap_ns: int | None = None
    reordered: bool = False


@dataclass(frozen=True)
class Answer:
    """What a decision asked of the eyes, as far as they can: `how`, for pictures stamped after `since_ns`.

    changed: whether that differs from what held before. rejection: what they cannot.
    """

    since_ns: int
    how: LookHow
    changed: bool
    rejection: Rejection | None


class CameraIngest:
    """Judges one colour camera, has the encoder look at what passes. Deterministic in the sequence of calls.

    skills: the table by which decisions ask for how hard to look; None: nobody asks.
    """

    def __init__(
        self, encoder: PictureEncoder, config: CameraConfig | None = None, skills: SkillTable | None = None
    ) -> None:
        self.config = config or CameraConfig()
        self.asked = Asked()
        self.admission = StampAdmission(self.config.admission)
        self.rejected: Counter[Reason] = Counter()
        self.received = 0
        self._skills = skills
        self._encoder = encoder
        self._tuned: tuple[LookHow, PictureEncoder] = (OWN, encoder)
        self._sequence = 0
        self._newest_ns = 0
        self._forget_content()

    @property
    def runtimes(self) -> dict[str, str]:
        """Of the encoder's models, see `runtimes_of`."""
        return runtimes_of(self._encoder)

    def reset(self) -> None:
        """Forget stamps and start sequence numbers anew (start of an episode); counters stay."""
        self.admission.reset()
        self.asked.forget()
        self._sequence = 0
        self._newest_ns = 0
        self._forget_content()

    def decided(self, action: HybridAction, image_size_max: int | None = None) -> Answer:
        """A decision was made: what it asks of the eyes holds for pictures stamped after it, until the next one.

        image_size_max: px, the widest picture that there is memory for; None: any. Raises InvalidInputError where a
        `look` does not fit the skill table.
        """
        how = OWN if self._skills is None else how_of(self._skills, action.primitive, action.params)
        how, rejection = self._possible(how, image_size_max)
        # A decision that comes late does not change what has been looked at.
        since_ns = max(action.stamp_ns, self._newest_ns)
        return Answer(since_ns, how, self.asked.ask(since_ns, how), rejection)

    def _possible(self, how: LookHow, image_size_max: int | None) -> tuple[LookHow, Rejection | None]:
        """What of it these eyes can do, and what not."""
        size, own = how.image_size, self._encoder.width_px
        if size is None:
            return how, None
        if own is not None:
            detail = f"look asks for pictures {size} px wide, these eyes take {own} px only; looked at as ever"
            return replace(how, image_size=None), None if size == own else Rejection(Reason.IMAGE_SIZE, detail)
        if image_size_max is not None and size > image_size_max:
            detail = f"look asks for pictures {size} px wide, there is memory for {image_size_max} px"
            return replace(how, image_size=image_size_max), Rejection(Reason.LITTLE_MEMORY, detail)
        return how, None

    def ingest(
        self,
        message: RawImage | CompressedImage | ImageSample,
        camera: CameraModel | None,
        now_ns: int,
        sequence: int | None = None,
    ) -> CameraResult:
        """Judge one picture that came at `now_ns`; camera: the newest camera_info, None while none has come.

        sequence: number of the picture in its stream, counted here where None.
        """
        self.received += 1
        stamp_ns = message.ref.stamp_ns if isinstance(message, ImageSample) else message.stamp_ns
        ref = SampleRef(Stream.CAMERA, stamp_ns, self._sequence if sequence is None else sequence)
        self._sequence = ref.sequence + 1
        # The stamp is judged first: a picture too old to use is not worth decoding.
        admission = self.admission.admit(stamp_ns, now_ns)
        if admission.rejection is not None:
            return self._refuse(ref, camera, admission.rejection, admission.jump)
        if admission.jump is not None:
            self._forget_content()
            self.asked.forget()
            self._newest_ns = 0
        stuck = self._stuck(message)
        if stuck is not None:
            return self._refuse(ref, camera, stuck, admission.jump)
        result = self.look(message, camera, ref)
        if result.rejection is not None:
            self.rejected[result.rejection.reason] += 1
            return replace(result, jump=admission.jump)
        return replace(result, jump=admission.jump, gap_ns=admission.gap_ns, reordered=admission.reordered)

    def look(
        self, message: RawImage | CompressedImage | ImageSample, camera: CameraModel | None, ref: SampleRef
    ) -> CameraResult:
        """Judge the content of a picture alone, whatever its stamp: what replay does with an admitted one."""
        try:
            rgb = _colour(_decode(message, self.config.order_8uc3))
            _check_camera(rgb, camera)
        except RejectedError as error:
            return CameraResult(
                ImageFeature(ref, camera, _NO_DETECTIONS, rejected=str(error.rejection)), None, error.rejection
            )
        self._newest_ns = max(self._newest_ns, ref.stamp_ns)
        seen = self._encoder_for(self.asked.at(ref.stamp_ns)).look(rgb, camera)
        return CameraResult(ImageFeature(ref, camera, seen.detections, seen.tokens), rgb, None)

    def _encoder_for(self, how: LookHow) -> PictureEncoder:
        if how == OWN:
            return self._encoder
        if how != self._tuned[0]:
            self._tuned = (how, self._encoder.tuned(how))
        return self._tuned[1]

    def _forget_content(self) -> None:
        self._same, self._digest = 0, -1

    def _stuck(self, message: RawImage | CompressedImage | ImageSample) -> Rejection | None:
        """No two pictures of a real camera are the same, bit for bit: its pixels are noisy."""
        data = message.rgb if isinstance(message, ImageSample) else message.data
        if self.config.noiseless_world or len(data) == 0:
            return None
        content = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
        digest = zlib.crc32(np.ascontiguousarray(content).data)
        self._same = self._same + 1 if digest == self._digest else 1
        self._digest = digest
        if self._same < self.config.constant_after:
            return None
        detail = f"the picture is the same, bit for bit, for {self._same} pictures, expected noise; the camera is stuck"
        return Rejection(Reason.CONSTANT, detail)

    def _refuse(
        self, ref: SampleRef, camera: CameraModel | None, rejection: Rejection, jump: ClockJump | None
    ) -> CameraResult:
        self.rejected[rejection.reason] += 1
        feature = ImageFeature(ref, camera, _NO_DETECTIONS, rejected=str(rejection))
        return CameraResult(feature, None, rejection, jump)


def _decode(message: RawImage | CompressedImage | ImageSample, order_8uc3: Order8UC3 | None) -> Picture | U8:
    if isinstance(message, ImageSample):
        return message.rgb
    if isinstance(message, CompressedImage):
        return decode_compressed(message.format, message.data)
    return decode_raw(
        message.encoding,
        message.width,
        message.height,
        message.step,
        message.is_bigendian,
        message.data,
        order_8uc3,
    )


def _colour(picture: Picture | U8) -> U8:
    if isinstance(picture, DepthImage):
        raise RejectedError(Reason.DEPTH_NOT_COLOUR, "a depth picture on the colour topic, expected a colour encoding")
    return picture if isinstance(picture, np.ndarray) else picture.rgb


def _check_camera(rgb: U8, camera: CameraModel | None) -> None:
    """Intrinsics of another resolution would place every detection wrongly."""
    height, width = rgb.shape[:2]
    if camera is not None and (camera.width, camera.height) != (width, height):
        raise RejectedError(
            Reason.CAMERA_MISMATCH,
            f"picture of {width}x{height}, camera_info for {camera.width}x{camera.height}",
        )
