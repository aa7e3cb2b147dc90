"""A USB camera through V4L2 alone: memory-mapped buffers, the driver's own time stamps, no picture library for YUYV.

Source: Linux, include/uapi/linux/videodev2.h; sizes and offsets are those of 64-bit machines, the same on x86-64 and
aarch64. Buffers are made once, when the camera is opened.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import mmap
import os
import select
import struct
import time
from typing import Any, Protocol

import numpy as np

from tether.contracts import U8
from tether.hardware.camera import CameraError, Frame
from tether.hardware.settings import CameraSettings

QUERYCAP, S_FMT, REQBUFS, QUERYBUF = 0x80685600, 0xC0D05605, 0xC0145608, 0xC0585609
QBUF, DQBUF, STREAMON, STREAMOFF, S_PARM, S_CTRL = (
    0xC058560F,
    0xC0585611,
    0x40045612,
    0x40045613,
    0xC0CC5616,
    0xC008561C,
)
CAPTURE, MEMORY_MMAP, FIELD_NONE = 1, 1, 1
CAN_CAPTURE, CAN_STREAM = 0x1, 0x04000000
STAMP_MASK, STAMP_MONOTONIC, START_OF_EXPOSURE = 0xE000, 0x2000, 0x10000
ERROR_FLAG = 0x40
EXPOSURE_AUTO, EXPOSURE_ABSOLUTE, EXPOSURE_PRIORITY = 0x9A0901, 0x9A0902, 0x9A0903
MANUAL = 1
BUFFER_SIZE, FORMAT_SIZE, PARM_SIZE, CAPABILITY_SIZE = 88, 208, 204, 104
_BUFFERS = 4


def fourcc(name: str) -> int:
    """A pixel format's number."""
    return int.from_bytes(name.encode("ascii"), "little")


YUYV, RGB24, MJPG = fourcc("YUYV"), fourcc("RGB3"), fourcc("MJPG")


class Kernel(Protocol):
    """What is asked of the operating system."""

    def open(self, path: str) -> int:
        """A descriptor."""

    def ioctl(self, fd: int, request: int, data: bytearray) -> None:
        """Changes `data`; OSError."""

    def map(self, fd: int, length: int, offset: int) -> Any:
        """A buffer, closed by its `close`."""

    def wait(self, fd: int, seconds: float) -> bool:
        """Whether a picture is ready."""

    def close(self, fd: int) -> None:
        """Give it up."""


class Linux:
    """See `Kernel`."""

    def open(self, path: str) -> int:
        """See `Kernel`."""
        return os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def ioctl(self, fd: int, request: int, data: bytearray) -> None:
        """See `Kernel`."""
        fcntl.ioctl(fd, request, data, True)

    def map(self, fd: int, length: int, offset: int) -> Any:
        """See `Kernel`."""
        return mmap.mmap(fd, length, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset)

    def wait(self, fd: int, seconds: float) -> bool:
        """See `Kernel`."""
        return bool(select.select([fd], [], [], seconds)[0])

    def close(self, fd: int) -> None:
        """See `Kernel`."""
        os.close(fd)


class V4l2Camera:
    """See `tether.hardware.camera.Source`."""

    def __init__(self, settings: CameraSettings, kernel: Kernel | None = None) -> None:
        self._settings = settings
        self._kernel: Kernel = kernel or Linux()
        self._fd = -1
        self._maps: list[Any] = []
        self._format = 0
        self._stride = 0

    def open(self) -> None:
        """See `Source`."""
        device = self._settings.device
        try:
            self._fd = self._kernel.open(device)
            self._require_camera()
            self._choose_format()
            self._set_rate_and_exposure()
            self._map_buffers()
            self._ioctl(STREAMON, bytearray(struct.pack("<i", CAPTURE)))
        except OSError as error:
            self.close()
            raise CameraError(f"camera {device}: {error.strerror or error}; fix: plug it in, group video") from error

    def read(self, deadline_s: float) -> Frame | None:
        """See `Source`. A picture that the driver marks as damaged is none."""
        if self._fd < 0:
            raise CameraError("camera: not open")
        try:
            if not self._kernel.wait(self._fd, max(0.0, deadline_s - time.monotonic())):
                return None
            buffer = _buffer(0)
            self._ioctl(DQBUF, buffer)
            came_ns = time.monotonic_ns()
            index, _, used, flags = struct.unpack_from("<4I", buffer)
            seconds, microseconds = struct.unpack_from("<2q", buffer, 24)
            try:
                rgb = None if flags & ERROR_FLAG or not used else self._rgb(bytes(self._maps[index][:used]))
            finally:
                self._ioctl(QBUF, _buffer(index))
        except BlockingIOError:
            return None
        except (OSError, ValueError) as error:
            raise CameraError(f"camera {self._settings.device}: {error}") from error
        if rgb is None:
            return None
        stamp_ns = came_ns
        if flags & STAMP_MASK == STAMP_MONOTONIC:
            stamp_ns = seconds * 1_000_000_000 + microseconds * 1000
            if flags & START_OF_EXPOSURE and self._settings.exposure_us is not None:
                stamp_ns += 500 * self._settings.exposure_us
        return Frame(stamp_ns, rgb)

    def close(self) -> None:
        """See `Source`."""
        fd, self._fd = self._fd, -1
        maps, self._maps = self._maps, []
        if fd < 0:
            return
        with contextlib.suppress(OSError):
            self._kernel.ioctl(fd, STREAMOFF, bytearray(struct.pack("<i", CAPTURE)))
        for one in maps:
            one.close()
        with contextlib.suppress(OSError):
            self._kernel.close(fd)

    # -- setting up -----------------------------------------------------------------------------------------------

    def _require_camera(self) -> None:
        capability = bytearray(CAPABILITY_SIZE)
        self._ioctl(QUERYCAP, capability)
        device = struct.unpack_from("<I", capability, 88)[0] or struct.unpack_from("<I", capability, 84)[0]
        if not (device & CAN_CAPTURE and device & CAN_STREAM):
            raise CameraError(f"camera {self._settings.device}: cannot stream pictures; fix: another /dev/videoN")

    def _choose_format(self) -> None:
        """YUYV where the camera has it at this size, else RGB, else JPEG (which Pillow decodes)."""
        wanted = (self._settings.width, self._settings.height)
        offered = []
        for pixels in (YUYV, RGB24, MJPG):
            data = bytearray(FORMAT_SIZE)
            struct.pack_into("<I", data, 0, CAPTURE)
            struct.pack_into("<4I", data, 8, *wanted, pixels, FIELD_NONE)
            self._ioctl(S_FMT, data)
            width, height, given, _, stride = struct.unpack_from("<5I", data, 8)
            if (width, height, given) == (*wanted, pixels):
                self._format, self._stride = pixels, stride
                return
            offered.append(f"{width} × {height}")
        found = ", ".join(dict.fromkeys(offered))
        raise CameraError(f"camera {self._settings.device}: has no {wanted[0]} × {wanted[1]}; nearest {found}")

    def _set_rate_and_exposure(self) -> None:
        data = bytearray(PARM_SIZE)
        struct.pack_into("<I", data, 0, CAPTURE)
        struct.pack_into("<2I", data, 12, 1000, round(1000 * self._settings.rate_hz))
        self._ioctl(S_PARM, data)
        controls = [(EXPOSURE_PRIORITY, 0)]  # the rate stays when it gets dark
        if self._settings.exposure_us is not None:
            controls += [(EXPOSURE_AUTO, MANUAL), (EXPOSURE_ABSOLUTE, max(1, round(self._settings.exposure_us / 100)))]
        for control, value in controls:
            with contextlib.suppress(OSError):  # not every camera has every control
                self._ioctl(S_CTRL, bytearray(struct.pack("<Ii", control, value)))

    def _map_buffers(self) -> None:
        request = bytearray(struct.pack("<5I", _BUFFERS, CAPTURE, MEMORY_MMAP, 0, 0))
        self._ioctl(REQBUFS, request)
        for index in range(struct.unpack_from("<I", request)[0]):
            buffer = _buffer(index)
            self._ioctl(QUERYBUF, buffer)
            offset, length = struct.unpack_from("<I", buffer, 64)[0], struct.unpack_from("<I", buffer, 72)[0]
            self._maps.append(self._kernel.map(self._fd, length, offset))
            self._ioctl(QBUF, _buffer(index))
        if not self._maps:
            raise CameraError(f"camera {self._settings.device}: gives no buffers")

    def _ioctl(self, request: int, data: bytearray) -> None:
        self._kernel.ioctl(self._fd, request, data)

    def _rgb(self, data: bytes) -> U8:
        """One picture, (height, width, 3); ValueError where it is cut short."""
        width, height = self._settings.width, self._settings.height
        if self._format == MJPG:
            from PIL import Image

            with Image.open(io.BytesIO(data)) as picture:
                return np.asarray(picture.convert("RGB"))
        row = width * (2 if self._format == YUYV else 3)
        stride = self._stride or row
        if len(data) < stride * (height - 1) + row:
            raise ValueError(f"a picture of {len(data)} bytes, expected {stride * height}")
        padded = np.frombuffer(data.ljust(stride * height, b"\0")[: stride * height], np.uint8)
        rows = padded.reshape(height, stride)[:, :row]
        return yuyv_to_rgb(rows) if self._format == YUYV else rows.reshape(height, width, 3).copy()


def yuyv_to_rgb(rows: U8) -> U8:
    """(height, 2 · width) uint8 YUYV → (height, width, 3) uint8. ITU-R BT.601, limited range, as UVC has it."""
    height, width = rows.shape[0], rows.shape[1] // 2
    luma = (rows[:, 0::2].astype(np.int32) - 16) * 298
    blue = np.repeat(rows[:, 1::4].astype(np.int32) - 128, 2, axis=1)
    red = np.repeat(rows[:, 3::4].astype(np.int32) - 128, 2, axis=1)
    rgb = np.empty((height, width, 3), np.uint8)
    rgb[..., 0] = np.clip((luma + 409 * red + 128) >> 8, 0, 255)
    rgb[..., 1] = np.clip((luma - 100 * blue - 208 * red + 128) >> 8, 0, 255)
    rgb[..., 2] = np.clip((luma + 516 * blue + 128) >> 8, 0, 255)
    return rgb


def _buffer(index: int) -> bytearray:
    data = bytearray(BUFFER_SIZE)
    struct.pack_into("<2I", data, 0, index, CAPTURE)
    struct.pack_into("<I", data, 60, MEMORY_MMAP)
    return data
