"""Warm boxes of one kind, each leased to one user at a time.

A box is started when somebody needs one and none is idle, up to the pool's size (a patient pool first waits a moment for
one to come back, so that jobs of milliseconds share one); it goes back when its user is done,
cleans up there, and is thrown away on any doubt: it died, it is not clean, it does not answer, or it has served its
number of runs. Closing the pool ends every box, leased ones too: whoever waits for one gets a `BoxDied`. Pools still
open when the interpreter exits are closed then.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Iterator

from rcb_env.errors import BoxDied
from rcb_env.sandbox.box import Box, BoxSettings, Maker

RUNS_PER_BOX = 2000  # then a fresh one, so that nothing can build up
_ASK_AFTER_IDLE_S = 30.0  # a box idle for longer must answer before it is used

_open_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


class Pool:
    """At most `size` boxes of one maker and one kind of settings. Thread-safe."""

    def __init__(
        self, maker: Maker, settings: BoxSettings, size: int, *, patience_s: float = 0.0
    ) -> None:
        self._maker, self._settings = maker, settings
        self._free = threading.Semaphore(size)
        self._patience_s = patience_s
        self._lock = threading.Condition()
        self._idle: list[tuple[Box, float]] = []
        self._all: set[Box] = set()
        self._closed = False
        _open_pools.add(self)

    @contextlib.contextmanager
    def lease(self, *, fresh: bool = False) -> Iterator[Box]:
        """A box of one's own for the length of a ``with`` block; a fresh one has served nobody before.

        Raises:
            BoxDied: the pool is closed, or the box could not be started.
        """
        with self._free:
            box = self._take(fresh)
            fit = False
            try:
                yield box
                fit = box.runs < RUNS_PER_BOX
            finally:
                self._give_back(box, fit)

    def _take(self, fresh: bool) -> Box:
        while True:
            with self._lock:
                if self._all and not fresh:
                    self._lock.wait_for(lambda: self._closed or self._idle, self._patience_s)
                if self._closed:
                    raise BoxDied("the pool of boxes is closed")
                if not self._idle:
                    break
                box, since = self._idle.pop()
            try:
                if time.monotonic() - since > _ASK_AFTER_IDLE_S:
                    box.ping()
            except BoxDied:
                pass
            if not fresh and box.clean:  # by now it has had time to clean up
                return box
            self._give_back(box, False)
            if fresh:
                break
        box = Box(self._maker, self._settings)
        with self._lock:
            if not self._closed:
                self._all.add(box)
                return box
        box.close()
        raise BoxDied("the pool of boxes is closed")

    def _give_back(self, box: Box, fit: bool) -> None:
        with self._lock:
            if fit and not self._closed:
                self._idle.append((box, time.monotonic()))
                self._lock.notify()
                return
            self._all.discard(box)
        box.close()

    def close(self) -> None:
        """End every box. Idempotent."""
        with self._lock:
            self._closed = True
            boxes = list(self._all)
            self._all.clear()
            self._idle.clear()
            self._lock.notify_all()
        for box in boxes:
            box.close()


@atexit.register
def _close_all() -> None:
    for pool in list(_open_pools):
        pool.close()
