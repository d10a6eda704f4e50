"""How many requests a server gets at once: as many as it takes, found out while asking.

One gate for each server and process. There is no limit until a server answers 429 (or 503 with a
time to wait); then half of what was under way, and one more after each round of that many
successes. While a server asks to wait, nobody sends.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator


class Gate:
    """Lets requests through to one server."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = 0
        self._limit: float | None = None
        self._not_before = 0.0
        self._narrowed_at = 0.0

    @property
    def limit(self) -> int | None:
        """Requests at once; None: as many as come."""
        return None if self._limit is None else int(self._limit)

    @contextlib.contextmanager
    def passing(self, longest_s: float | None = None) -> Iterator[float]:
        """Wait for one's turn; yields when it came, for `narrow`.

        Raises:
            TimeoutError: it did not come so soon.
        """
        ends = math.inf if longest_s is None else time.monotonic() + longest_s
        with self._changed:
            while True:
                now = time.monotonic()
                full = self._limit is not None and self._under_way >= int(self._limit)
                if self._not_before <= now and not full:
                    break
                if now >= ends:
                    raise TimeoutError
                until = min(ends, self._not_before if self._not_before > now else math.inf)
                self._changed.wait(None if until == math.inf else until - now)
            self._under_way += 1
        try:
            yield time.monotonic()
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def narrow(self, began: float, wait_s: float | None) -> None:
        """A request that began then was one too many.

        Requests that were under way together are refused together: only the first one of them
        narrows the gate.
        """
        with self._changed:
            now = time.monotonic()
            if began >= self._narrowed_at:
                at_once = self._under_way if self._limit is None else self._limit
                self._limit = max(1.0, at_once / 2)
                self._narrowed_at = now
            if wait_s is not None:
                self._not_before = max(self._not_before, now + wait_s)

    def widen(self) -> None:
        """A request went well."""
        with self._changed:
            if self._limit is not None:
                self._limit += 1 / self._limit
                self._changed.notify_all()


_gates: dict[str, Gate] = {}
_lock = threading.Lock()


def gate_of(server: str) -> Gate:
    """The gate of a server, the same one for everybody in this process."""
    with _lock:
        return _gates.setdefault(server, Gate())
