"""A prepared model whose runtime may fail: the reference takes over in the same call, and says so."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tether.models.errors import ModelRefusedError
from tether.runtimes.interface import Buffers, Prepared

_LOG = logging.getLogger(__name__)


class WithFallback:
    """See `Prepared`. Where `first` fails (a GPU that vanishes), what `make_fallback` makes runs the same inputs.

    `inputs` and `outputs` are the buffers of whichever runs; ask for them anew after each run.
    """

    def __init__(self, first: Prepared, make_fallback: Callable[[], Prepared]) -> None:
        self._active = first
        self._make_fallback: Callable[[], Prepared] | None = make_fallback

    @property
    def label(self) -> str:
        """See `Prepared`; that of the fallback once it has taken over."""
        return self._active.label

    @property
    def threads(self) -> int:
        """See `Prepared`."""
        return self._active.threads

    @property
    def inputs(self) -> Buffers:
        """See `Prepared`."""
        return self._active.inputs

    @property
    def outputs(self) -> Buffers:
        """See `Prepared`."""
        return self._active.outputs

    def run(self) -> None:
        """See `Prepared`; raises only where the fallback fails, too."""
        try:
            self._active.run()
        except ModelRefusedError as error:
            if self._make_fallback is None:
                raise
            fallback = self._make_fallback()
            _LOG.error("%s failed and is left for %s: %s", self.label, fallback.label, " ".join(str(error).split()))
            for name, buffer in fallback.inputs.items():
                buffer[...] = self._active.inputs[name]
            self._active, self._make_fallback = fallback, None
            self._active.run()
