"""Runs tasks on an executor, whatever happens to its workers.

A worker that dies takes the tasks under way with it: they run again. One that has been under way three times when a
worker died is suspected, and runs alone; where its worker dies then too, that is its outcome, and the others go on.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass, field
from multiprocessing import current_process
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Final, Protocol

from wirespeed.errors import InputError
from wirespeed.sweep import work
from wirespeed.sweep.work import Files, Outcome, Task

# Between two looks at whether Ctrl-C was pressed.
_HEARS_EVERY_S: Final = 0.2
# A pool that lost a worker ends the others, and says so to every future.
_BREAKS_WITHIN_S: Final = 10.0
# Tasks given out at a time for each worker, so that none waits for the driver.
_AHEAD: Final = 2
_SUSPECTED_AFTER: Final = 3
_GIVEN_UP_AFTER: Final = 5
# A worker may be killed while it starts, but not each time.
_STARTS: Final = 3


class Engine(Protocol):
    """Where tasks run."""

    @property
    def workers(self) -> int:
        """How many run at a time."""

    @property
    def died(self) -> tuple[type[BaseException], ...]:
        """What a task's future raises when its worker has died."""

    def start(self, files: Files) -> Executor:
        """An executor, after a look at whether its workers fit this driver and have `files`. Raises InputError."""

    def again(self) -> Executor | None:
        """Another executor in place of one that broke; None where there is none."""

    def stop(self) -> None:
        """Ends it, also what is under way."""


class _Context(SpawnContext):
    """Knows the processes that were made with it: others of this process are somebody else's to end."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        """As any context's."""
        made = SpawnProcess(*args, **kwargs)
        self.made.append(made)
        return made


class Threads:
    """Threads of this process: the simulator runs outside of Python's lock, and nobody's script is imported again."""

    died: tuple[type[BaseException], ...] = (BrokenExecutor,)

    def __init__(self, jobs: int | None = None, held: bool = False) -> None:
        """`held` keeps the threads from study to study, until `close`."""
        self._jobs = _judged(jobs)
        self._held = held
        self._pool: ThreadPoolExecutor | None = None
        self._stop = threading.Event()

    @property
    def workers(self) -> int:
        """As given, or as many as there are cores."""
        return self._jobs

    def start(self, files: Files) -> Executor:
        """New threads, or those that are held: they are this build and see these files."""
        if self._pool is None:
            self._stop = threading.Event()
            self._pool = ThreadPoolExecutor(self._jobs, initializer=work.heed, initargs=(self._stop,))
        return self._pool

    def again(self) -> Executor | None:
        """There is no other: a thread does not die alone."""
        return None

    def stop(self) -> None:
        """Ends the threads with what is under way, unless they are held."""
        if not self._held:
            self.close()

    def close(self) -> None:
        """Ends the threads, and the runs that they are in."""
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


class Local:
    """Processes of this machine. Each imports the script that started this one, as Python's always do."""

    died: tuple[type[BaseException], ...] = (BrokenExecutor,)

    def __init__(self, jobs: int | None = None, held: bool = False) -> None:
        """`held` keeps the processes, and what they have loaded, from study to study, until `close`."""
        self._jobs = _judged(jobs)
        self._held = held
        self._pool: ProcessPoolExecutor | None = None
        self._context = _Context()

    @property
    def workers(self) -> int:
        """As given, or as many as there are cores."""
        return self._jobs

    def start(self, files: Files) -> Executor:
        """New processes, or those that are held: they run this build and see these files.

        Raises InputError where processes cannot start: that is no failure of what they would have run.
        """
        if self._pool is not None:
            return self._pool
        if getattr(current_process(), "_inheriting", False):
            raise InputError(_UNGUARDED)  # this is a worker, which runs the script that it should only import
        for _ in range(_STARTS):
            # Not forked: a fork of a process with threads (those of Arrow, of a progress bar) may hang.
            pool = self._pool = ProcessPoolExecutor(self._jobs, mp_context=self._context, initializer=work.prepare)
            with contextlib.suppress(BrokenExecutor):
                pool.submit(work.identify).result()
                return pool
            self.close()
        raise InputError(_UNGUARDED)

    def again(self) -> Executor | None:
        """New processes for those that died, and their siblings."""
        self.close()
        return self.start(())

    def stop(self) -> None:
        """Ends the processes, unless they are held."""
        if not self._held:
            self.close()

    def close(self) -> None:
        """Ends the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        while self._context.made:
            process = self._context.made.pop()
            if process.pid is not None:
                process.terminate()
                process.join()


_UNGUARDED: Final = (
    'the processes of engine "local" cannot start. Each of them imports the script that asks for them: put what it '
    'does under `if __name__ == "__main__":`, or leave the engine out, which runs threads'
)


def _judged(jobs: int | None) -> int:
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: must be at least 1")
    return jobs or os.cpu_count() or 1


class Given:
    """An executor of the caller's, which stays the caller's to shut down."""

    died: tuple[type[BaseException], ...] = (BrokenExecutor,)

    def __init__(self, executor: Executor, workers: int | None = None) -> None:
        self._executor = executor
        self._workers = workers

    @property
    def workers(self) -> int:
        """As given, or as the executor says, or as many as there are cores."""
        said = getattr(self._executor, "_max_workers", None)
        return self._workers or (said if isinstance(said, int) else os.cpu_count() or 1)

    def start(self, files: Files) -> Executor:
        """Asks as many times as there are workers; which of them answer is the executor's choice."""
        asked = [self._executor.submit(work.identify, files) for _ in range(self.workers)]
        try:
            wrong = work.differences([each.result() for each in asked])
        except (ImportError, AttributeError) as e:
            raise InputError(f"the executor's workers cannot run this wirespeed: {e}; install it there") from None
        if wrong is not None:
            raise InputError(wrong)
        return self._executor

    def again(self) -> Executor | None:
        """There is no other."""
        return None

    def stop(self) -> None:
        """Nothing: the caller shuts it down."""


@dataclass(slots=True)
class _Queue:
    """Tasks that wait, with how often a worker has died under each."""

    waiting: deque[Task]
    suspects: deque[Task] = field(default_factory=deque)
    deaths: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.waiting or self.suspects)

    def take(self, under_way: int) -> Task | None:
        """The next to give out; a suspect only when nothing else is under way or waits."""
        if self.waiting:
            return self.waiting.popleft()
        return self.suspects.popleft() if self.suspects and under_way == 0 else None

    def returned(self, task: Task) -> Outcome | None:
        """A worker died under it: it waits again, or its outcome is known."""
        died = self.deaths[task.key] = self.deaths.get(task.key, 0) + 1
        if died >= _GIVEN_UP_AFTER:
            alone = _GIVEN_UP_AFTER - _SUSPECTED_AFTER
            return Outcome(
                task.key,
                error=f"its worker died {died} times, {alone} of them with nothing else under way: "
                "it was killed from outside, or for memory",
            )
        (self.suspects if died >= _SUSPECTED_AFTER else self.waiting).append(task)
        return None


def run(
    engine: Engine,
    executor: Executor,
    tasks: Iterable[Task],
    finished: Callable[[Outcome], Iterable[Task]],
    told: Callable[[], None],
) -> None:
    """Runs tasks, and those that `finished` asks for when it is given an outcome; `told` is called now and then.

    An exception (Ctrl-C, a disk that is full, an executor that is lost) leaves what is under way unfinished.
    """
    queue = _Queue(deque(tasks))
    running: dict[Future[Outcome], Task] = {}

    def settle(futures: Iterable[Future[Outcome]], died: tuple[type[BaseException], ...]) -> bool:
        """Takes what came of futures; True where one says that the executor is broken."""
        broken = False
        for future in list(futures):
            task = running.pop(future)
            outcome, failure = _outcome(future, task, died)
            broken = broken or isinstance(failure, BrokenExecutor)
            if failure is not None:
                outcome = queue.returned(task)
            if outcome is not None:
                queue.waiting.extend(finished(outcome))
        return broken

    while queue or running:
        broken = not _give_out(executor, queue, running, engine.workers * _AHEAD)
        done, _ = wait(running, timeout=0 if broken else _HEARS_EVERY_S, return_when=FIRST_COMPLETED)
        if settle(done, engine.died) or broken:
            # All its futures fail: those that were finished before are taken, the others wait again.
            wait(running, timeout=_BREAKS_WITHIN_S)
            settle(running, (*engine.died, CancelledError, TimeoutError))
            renewed = engine.again()
            if renewed is None:
                raise InputError(
                    "the executor broke, as one of its workers died; what is finished is kept: run the study again"
                )
            executor = renewed
        told()


def _give_out(executor: Executor, queue: _Queue, running: dict[Future[Outcome], Task], most: int) -> bool:
    """Fills up what is under way; False where the executor is broken."""
    while len(running) < most and (task := queue.take(len(running))) is not None:
        try:
            running[executor.submit(work.work, task)] = task
        except BrokenExecutor:
            queue.waiting.appendleft(task)
            return False
        if task.key in queue.deaths and queue.deaths[task.key] >= _SUSPECTED_AFTER:
            break  # alone
    return True


def _outcome(
    future: Future[Outcome], task: Task, died: tuple[type[BaseException], ...]
) -> tuple[Outcome | None, BaseException | None]:
    """What came of a task, or what says that its worker died."""
    try:
        return future.result(timeout=0), None
    except died as e:
        return None, e
    except CancelledError:
        # Nobody here cancels what is under way: its scheduler is gone, or somebody stopped it there.
        raise InputError(
            "the executor has cancelled runs: its scheduler has ended, or somebody stopped them; what is finished is "
            "kept: run the study again"
        ) from None
    except work.VersionMismatchError as e:
        raise InputError(f"{e}: install the same build on both") from None
    except Exception as e:
        # Whatever else a worker raises belongs to the task; the study goes on.
        return Outcome(task.key, error=f"{type(e).__name__}: {e}"), None


@contextlib.contextmanager
def running(engine: Engine, files: Files) -> Iterator[Executor]:
    """An executor that is ended with the block, however it ends."""
    try:
        yield engine.start(files)
    finally:
        engine.stop()
