"""Cameras: V4L2 against a kernel that answers with its structures, and the watchdog that restarts a stalled one."""

from __future__ import annotations

import dataclasses
import errno
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tether.clock import ManualClock
from tether.hardware import camera_v4l2 as v4l2
from tether.hardware.camera import Camera, CameraError, Frame
from tether.hardware.camera_v4l2 import V4l2Camera, yuyv_to_rgb
from tether.hardware.emulate.camera import CameraServer, SocketCamera
from tether.hardware.notices import Notices
from tether.hardware.settings import CameraKind, load_robot_settings

SETTINGS = dataclasses.replace(
    load_robot_settings("tether_rover").camera, kind=CameraKind.V4L2, width=64, height=48, device="/dev/video7"
)


class Mapped(bytearray):
    """Memory of a buffer."""

    def close(self) -> None:
        """Nothing to give back."""


class FakeKernel:
    """A camera as the kernel shows it: YUYV at the wanted size, four buffers, monotonic stamps."""

    def __init__(self) -> None:
        self.buffers = [Mapped(64 * 48 * 2) for _ in range(4)]
        self.queued: list[int] = []
        self.streaming = False
        self.controls: dict[int, int] = {}
        self.ready: list[tuple[int, int]] = []
        self.gone = False

    def open(self, path: str) -> int:
        return 5

    def close(self, fd: int) -> None:
        self.streaming = False

    def map(self, fd: int, length: int, offset: int) -> Mapped:
        return self.buffers[offset // 4096]

    def wait(self, fd: int, seconds: float) -> bool:
        return bool(self.ready) or self.gone

    def show(self, picture: bytes, stamp_ns: int) -> None:
        index = self.queued.pop(0)
        self.buffers[index][: len(picture)] = picture
        self.ready.append((index, stamp_ns))

    def ioctl(self, fd: int, request: int, data: bytearray) -> None:
        if self.gone:
            raise OSError(errno.ENODEV, "No such device")
        if request == v4l2.QUERYCAP:
            struct.pack_into("<I", data, 88, v4l2.CAN_CAPTURE | v4l2.CAN_STREAM)
        elif request == v4l2.S_FMT:
            struct.pack_into("<5I", data, 8, 64, 48, v4l2.YUYV, 1, 128)
        elif request == v4l2.S_CTRL:
            control, value = struct.unpack("<Ii", data)
            self.controls[control] = value
        elif request == v4l2.QUERYBUF:
            struct.pack_into("<I", data, 64, 4096 * struct.unpack_from("<I", data)[0])
            struct.pack_into("<I", data, 72, 64 * 48 * 2)
        elif request == v4l2.QBUF:
            self.queued.append(struct.unpack_from("<I", data)[0])
        elif request == v4l2.DQBUF:
            index, stamp_ns = self.ready.pop(0)
            flags = v4l2.STAMP_MONOTONIC | v4l2.START_OF_EXPOSURE
            struct.pack_into("<4I", data, 0, index, 1, 64 * 48 * 2, flags)
            struct.pack_into("<2q", data, 24, stamp_ns // 10**9, stamp_ns % 10**9 // 1000)
        elif request == v4l2.STREAMON:
            self.streaming = True


def test_a_picture_of_v4l2_has_its_colours_and_the_middle_of_its_exposure():
    kernel = FakeKernel()
    camera = V4l2Camera(SETTINGS, kernel)
    camera.open()
    assert kernel.streaming
    assert len(kernel.queued) == 4
    assert kernel.controls[v4l2.EXPOSURE_ABSOLUTE] == 100
    for i in range(10):  # more pictures than buffers: each goes back
        kernel.show(bytes([81, 90, 81, 240]) * (64 * 48 // 2), (i + 1) * 33_333_000)
        frame = camera.read(0.0)
        assert frame is not None
        assert frame.stamp_ns == (i + 1) * 33_333_000 + 5_000_000
    assert frame.rgb.shape == (48, 64, 3)
    assert frame.rgb[20, 20].tolist() == pytest.approx([255, 0, 0], abs=3)
    camera.close()
    assert not kernel.streaming


def test_an_unplugged_v4l2_camera_is_a_camera_error():
    kernel = FakeKernel()
    camera = V4l2Camera(SETTINGS, kernel)
    camera.open()
    kernel.gone = True
    with pytest.raises(CameraError, match="No such device"):
        camera.read(0.0)
    camera.close()


def test_a_camera_without_the_wanted_size_is_refused_with_what_it_has():
    with pytest.raises(CameraError, match="nearest 64 × 48"):
        V4l2Camera(dataclasses.replace(SETTINGS, width=640), FakeKernel()).open()


def test_a_device_that_is_not_there_is_a_camera_error():
    with pytest.raises(CameraError, match="No such file"):
        V4l2Camera(SETTINGS).open()


def test_grey_stays_grey():
    rgb = yuyv_to_rgb(np.tile(np.array([126, 128, 126, 128], np.uint8), (4, 8)))
    assert (rgb == rgb[0, 0, 0]).all()


class Script:
    """A source that gives what it is told to."""

    def __init__(self, frames: Iterator[Frame | None]) -> None:
        self.frames = frames
        self.opened = 0

    def open(self) -> None:
        self.opened += 1

    def read(self, deadline_s: float) -> Frame | None:
        return next(self.frames)

    def close(self) -> None:
        """Nothing to close."""


def test_a_stalled_camera_is_restarted_and_a_picture_given_twice_is_no_new_one():
    picture = np.zeros((2, 2, 3), np.uint8)
    frames = iter([Frame(1, picture), Frame(1, picture), None, None, Frame(2, picture)])
    source, clock, notices = Script(frames), ManualClock(0), Notices()
    camera = Camera(source, SETTINGS, notices, clock)
    for _ in range(3):
        camera.attend()
    assert [frame.stamp_ns for frame in camera.take()] == [1]
    clock.set_ns(600_000_000)
    camera.attend()
    assert camera.restarts == 1
    assert not camera.attend()  # not yet
    clock.set_ns(1_200_000_000)
    assert camera.attend()
    assert source.opened == 2
    assert [frame.stamp_ns for frame in camera.take()] == [2]
    assert [notice.kind for notice in notices.take()] == ["camera_fault", "camera_back"]


def test_a_client_that_reads_late_gets_the_picture_all_the_same(tmp_path: Path):
    """A busy machine may hold a client up while a picture is half way through the socket."""
    server = CameraServer(tmp_path / "camera")
    camera = SocketCamera(str(tmp_path / "camera"))
    camera.open()
    while not server.connected:
        time.sleep(0.001)
    rgb = np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)  # more than the socket holds
    server.show(7, rgb)
    time.sleep(0.8)
    frame = camera.read(time.monotonic() + 30.0)
    assert frame is not None
    assert frame.stamp_ns == 7
    assert (frame.rgb == rgb).all()
    camera.close()
    server.close()
