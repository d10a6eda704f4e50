"""All boxes of one grader: pools by role and image, zygotes by what they have imported.

A *candidate* box runs code nobody trusts, a *judge* box runs ours and the reference's; no box ever changes its role.
What a paper's tests import is learnt from runs of its reference and preloaded from then on, in either role. torch, which takes
seconds to import, is preloaded at once where a paper names it, and not where nothing does.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from rcb_env.dataset.variant_names import published
from rcb_env.errors import BoxDied, SandboxUnavailable
from rcb_env.sandbox.box import Box, BoxSettings, Maker, RunRequest, RunResult
from rcb_env.sandbox.pool import Pool

# What test runs are forked from has imported, where the image has it: of papers that name torch, and of others.
_OURS = ("rcb_env.runner.case_run", "rcb_env.runner.open_run")
_IMAGE_PRELOAD = ("numpy", "numpy.random", "torch", *_OURS)
_PLAIN_PRELOAD = ("numpy", "numpy.random", *_OURS)
_JUDGE_PRELOAD = ("numpy", "rcb_env.runner.case_run")
# A judgement takes milliseconds, so one judge serves many workers; another is started only when one is held up.
_JUDGE_WAIT_S = 0.5
_MAX_IMPORT_BYTES = 150_000  # names of preloaded modules, which must fit into one datagram


class Fleet:
    """Boxes of one maker. Thread-safe; a box starts on first use and ends with `close`."""

    def __init__(self, maker: Maker, settings: BoxSettings, workers: int) -> None:
        self.maker = maker
        self._settings = settings
        self._workers = workers
        self._pools: dict[tuple[str, str], Pool] = {}
        self._imports: dict[str, tuple[str, ...]] = {}
        self._closed = False
        self._lock = threading.Lock()

    def close(self) -> None:
        """End every box; whoever waits for one gets a BoxDied. Idempotent."""
        with self._lock:
            self._closed = True
            pools = list(self._pools.values())
        for pool in pools:
            pool.close()

    def warm(self, image: str) -> None:
        """Have one box for candidates ready.

        Raises:
            BoxDied: twice in a row.
        """

        def start() -> None:
            with self._pool("candidate", image).lease() as box:
                box.ping()

        try:
            start()
        except BoxDied:
            start()

    def learn_imports(self, paper: str, modules: tuple[str, ...]) -> None:
        """Have later runs of this paper, in all its variants, start from processes that have imported these modules."""
        paper = published(paper)
        with self._lock:
            known = tuple(sorted({*self._imports.get(paper, ()), *modules}))
            if sum(map(len, known)) <= _MAX_IMPORT_BYTES:
                self._imports[paper] = known

    def run_trusted(self, request: RunRequest) -> RunResult:
        """Run our own or the reference's code in the judge box.

        Raises:
            BoxDied: twice in a row.
        """
        return self._again(lambda fresh: self._run("judge", request, fresh=fresh))

    def run_judge(self, request: RunRequest) -> RunResult:
        """Run a judgement, which needs numpy only, in the judge box.

        Raises:
            BoxDied: twice in a row.
        """

        def judge(fresh: bool) -> RunResult:
            with self._pool("judge", request.image).lease(fresh=fresh) as box:
                box.zygote("judge", _JUDGE_PRELOAD)
                return box.run("judge", request)

        return self._again(judge)

    def run_candidate(self, request: RunRequest) -> RunResult | BoxDied:
        """Run a candidate's code; a `BoxDied` that is returned is the candidate's own doing.

        It is when the same code ended a warm box and a fresh one, nobody outside did, and one more works all the same.

        Raises:
            BoxDied: no box works, which is no candidate's doing.
        """
        deaths: list[BoxDied] = []

        def candidate(fresh: bool) -> RunResult:
            try:
                return self._run("candidate", request, fresh=fresh)
            except BoxDied as error:
                deaths.append(error)
                raise

        try:
            return self._again(candidate)
        except BoxDied as error:
            if not all(death.during_run and not death.from_outside for death in deaths):
                raise
            with self._pool("candidate", request.image).lease() as box:
                box.ping()
            return error

    def _again(self, job: Callable[[bool], RunResult]) -> RunResult:
        """Do a job in a warm box, and once more in a fresh one if that dies."""
        try:
            return job(False)
        except BoxDied:
            return job(True)

    @contextlib.contextmanager
    def box_for(
        self, role: str, request: RunRequest, *, fresh: bool = False
    ) -> Iterator[tuple[Box, str]]:
        """A box of one's own for such a run, and the name of the zygote to fork it from.

        Raises:
            BoxDied: it cannot be had.
        """
        with self._pool(role, request.image).lease(fresh=fresh) as box:
            yield box, self._zygote(box, request)

    def _run(self, role: str, request: RunRequest, *, fresh: bool) -> RunResult:
        with self.box_for(role, request, fresh=fresh) as (box, zygote):
            return box.run(zygote, request)

    def _zygote(self, box: Box, request: RunRequest) -> str:
        """The zygote to fork from: the image's, or one that has also imported the paper's packages."""
        torch = any(b"torch" in data for data in (request.argument, *request.files.values()))
        image, preload = ("image", _IMAGE_PRELOAD) if torch else ("plain", _PLAIN_PRELOAD)
        if not box.zygote(image, preload):
            raise SandboxUnavailable("the image's packages start threads when they are imported")
        imports = self._imports.get(published(request.paper), ())
        if not imports:
            return image
        names = "\n".join((image, *imports))
        name = "imports:" + hashlib.sha256(names.encode()).hexdigest()[:16]
        return name if box.zygote(name, imports, parent=image) else image

    def _pool(self, role: str, image: str) -> Pool:
        with self._lock:
            if self._closed:
                raise BoxDied("the grader is closed")
            key = (role, image)
            if key not in self._pools:
                settings = replace(self._settings, image=image)
                patience_s = _JUDGE_WAIT_S if role == "judge" else 0.0
                self._pools[key] = Pool(self.maker, settings, self._workers, patience_s=patience_s)
            return self._pools[key]
