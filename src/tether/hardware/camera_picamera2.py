"""The camera of a Raspberry Pi, through picamera2 (libcamera).

Written against picamera2's sources (picamera2.py: create_video_configuration, capture_request, wait, and job.py); no
machine of this project's has run it yet. picamera2 comes with Raspberry Pi OS, and is not on PyPI for other systems.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import time
from typing import Any

import numpy as np

from tether.hardware.camera import CameraError, Frame
from tether.hardware.settings import CameraSettings

_BUFFERS = 4
_RGB_IN_MEMORY = "BGR888"
"""libcamera names formats by the order of a little-endian word: this one's bytes are red, green, blue."""


class Picamera2Camera:
    """See `tether.hardware.camera.Source`. device: the camera's number as libcamera counts them, 0 for the only one."""

    def __init__(self, settings: CameraSettings, module: Any = None) -> None:
        """module: picamera2, or what stands for it."""
        self._settings = settings
        self._module = module
        self._camera: Any = None
        self._job: Any = None

    def open(self) -> None:
        """See `Source`."""
        settings = self._settings
        number = settings.device.removeprefix("/dev/video")
        try:
            module = self._module or importlib.import_module("picamera2")
            camera = self._camera = module.Picamera2(int(number))
            period_us = round(1e6 / settings.rate_hz)
            controls: dict[str, Any] = {"FrameDurationLimits": (period_us, period_us)}
            if settings.exposure_us is not None:
                controls["ExposureTime"] = settings.exposure_us
            main = {"size": (settings.width, settings.height), "format": _RGB_IN_MEMORY}
            camera.configure(camera.create_video_configuration(main=main, buffer_count=_BUFFERS, controls=controls))
            camera.start()
        except (ImportError, RuntimeError, ValueError, IndexError, OSError) as error:
            self.close()
            raise CameraError(f"camera {settings.device}: {error}; fix: `rpicam-hello --list-cameras`") from error

    def read(self, deadline_s: float) -> Frame | None:
        """See `Source`. A request that did not come in time is waited for again the next time, and not asked twice."""
        camera = self._camera
        if camera is None:
            raise CameraError("camera: not open")
        self._job = self._job or camera.capture_request(wait=False)
        try:
            request = camera.wait(self._job, timeout=max(0.0, deadline_s - time.monotonic()))
        except (concurrent.futures.TimeoutError, TimeoutError):
            return None
        except (RuntimeError, OSError, concurrent.futures.CancelledError) as error:
            raise CameraError(f"camera: {error}") from error
        self._job = None
        try:
            metadata = request.get_metadata()
            rgb = np.array(request.make_array("main")[: self._settings.height, : self._settings.width, :3])
        finally:
            request.release()
        # libcamera: SensorTimestamp is when the first row was read out, on CLOCK_BOOTTIME, which counts sleep, too
        asleep_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
        middle_ns = 500 * int(metadata.get("ExposureTime", 0))
        return Frame(int(metadata["SensorTimestamp"]) - asleep_ns - middle_ns, rgb)

    def close(self) -> None:
        """See `Source`."""
        camera, self._camera, self._job = self._camera, None, None
        if camera is not None:
            with contextlib.suppress(RuntimeError, OSError):
                camera.cancel_all_and_flush()
                camera.stop()
            with contextlib.suppress(RuntimeError, OSError):
                camera.close()
