"""Background tasks run to completion, their errors are logged once, and they end with their owner."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from drawbridge.core.errors import EditorGone
from drawbridge.core.tasks import BackgroundTasks
from tests.waiting import PATIENCE, until

LOGGER = logging.getLogger("tests.tasks")


async def test_a_task_survives_garbage_collection() -> None:
    """The event loop has only weak references to tasks, so a task can be collected while it waits if nothing else
    refers to it or to what it is waiting for.
    """
    tasks = BackgroundTasks(LOGGER)

    async def work() -> None:
        # Only the task refers to this future. Without a reference to the task, both would be collected.
        await asyncio.get_running_loop().create_future()

    tasks.start(work(), "work")
    await asyncio.sleep(0)
    gc.collect()
    assert [task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}] == ["work"]
    await tasks.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def fails(error: Exception) -> None:
    raise error


async def test_an_unexpected_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks(LOGGER)
    tasks.start(fails(ValueError("odd")), "reading the lamp")
    await until(lambda: caplog.records)
    await tasks.close()
    [record] = caplog.records
    assert (record.levelname, record.getMessage()) == ("ERROR", "reading the lamp failed")
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "odd"


async def test_an_expected_error_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks(LOGGER)
    tasks.start(fails(EditorGone("The editor is gone.")), "telling the editor")
    await until(lambda: caplog.records)
    await tasks.close()
    [record] = caplog.records
    assert (record.levelname, record.getMessage()) == ("WARNING", "telling the editor: The editor is gone.")
    assert record.exc_info is None


async def test_close_cancels_tasks_and_waits_for_their_end(caplog: pytest.LogCaptureFixture) -> None:
    tasks, began, steps = BackgroundTasks(LOGGER), asyncio.Event(), list[str]()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("ended")
            tasks.start(fails(ValueError()), "too late")

    tasks.start(work(), "work")
    await began.wait()
    await asyncio.wait_for(tasks.close(), PATIENCE)
    assert steps == ["ended"]
    await tasks.close()
    assert caplog.records == []


@pytest.mark.filterwarnings("error")
async def test_nothing_starts_after_close() -> None:
    tasks = BackgroundTasks(LOGGER)
    await tasks.close()
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")

    tasks.start(work(), "too late")
    await tasks.close()
    gc.collect()
    assert begun == []
    assert len(tasks) == 0


@pytest.mark.filterwarnings("error")
async def test_a_task_that_is_canceled_immediately_never_begins() -> None:
    """Its coroutine is closed too. Otherwise, the warning "was never awaited" would fail this test."""
    tasks = BackgroundTasks(LOGGER)
    task = tasks.start(fails(ValueError()), "too early")
    task.cancel()
    await asyncio.wait([task])
    gc.collect()
    assert task.cancelled()
    assert len(tasks) == 0


async def test_the_owner_is_notified_of_unexpected_errors_only(caplog: pytest.LogCaptureFixture) -> None:
    tasks, errors = BackgroundTasks(LOGGER), list[Exception]()
    tasks.start(fails(EditorGone("The editor is gone.")), "announcing", failed=errors.append)
    tasks.start(fails(error := ValueError("odd")), "answering", failed=errors.append)
    await until(lambda: len(caplog.records) == 2)
    assert errors == [error]
    assert caplog.records[-1].exc_info is not None
    await tasks.close()


async def test_a_repeated_task_continues_after_a_failed_run(caplog: pytest.LogCaptureFixture) -> None:
    tasks, rounds = BackgroundTasks(LOGGER), list[int]()

    async def check() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 1:
            raise ValueError("odd")
        if len(rounds) == 2:
            raise EditorGone("The editor is gone.")

    task = tasks.repeat(check, 0.001, "looking")
    await until(lambda: len(rounds) > 3)
    assert not task.done()
    await tasks.close()
    assert task.cancelled()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "looking failed"),
        ("WARNING", "looking: The editor is gone."),
    ]
    assert caplog.records[0].exc_info is not None


async def test_an_error_that_repeats_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """After a successful round, the error is logged again."""
    tasks, rounds = BackgroundTasks(LOGGER), list[int]()

    async def check() -> None:
        rounds.append(len(rounds))
        if len(rounds) != 3:
            raise ValueError("odd")

    tasks.repeat(check, 0.001, "looking")
    await until(lambda: len(rounds) > 6)
    await tasks.close()
    assert [record.getMessage() for record in caplog.records] == ["looking failed", "looking failed"]


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_repeated_task_runs_immediately_only_if_requested(at_once: bool) -> None:
    tasks, rounds = BackgroundTasks(LOGGER), list[str]()

    async def check() -> None:
        rounds.append("look")

    tasks.repeat(check, 3600.0, "looking", at_once=at_once)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rounds == ["look"] * at_once
    await tasks.close()


async def test_cancel_does_not_wait() -> None:
    tasks, began, ended = BackgroundTasks(LOGGER), asyncio.Event(), list[str]()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    tasks.start(work(), "work")
    await began.wait()
    tasks.cancel()
    assert ended == []
    await asyncio.wait_for(tasks.close(), PATIENCE)
    assert ended == ["work"]
