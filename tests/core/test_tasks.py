"""Background tasks: they run to their end, their errors are logged once, and they end with their owner."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from drawbridge.core.errors import EditorGone
from drawbridge.core.tasks import BackgroundTasks
from tests.waiting import until

LOGGER = logging.getLogger("tests.tasks")


async def test_a_task_survives_garbage_collection() -> None:
    """The event loop keeps weak references only, so a task that only waits for itself would vanish."""
    tasks = BackgroundTasks(LOGGER)

    async def work() -> None:
        # Only the task refers to this future: without a reference of ours both would be collected.
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


async def test_an_expected_error_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks(LOGGER)
    tasks.start(fails(EditorGone("The editor is gone.")), "telling the editor")
    await until(lambda: caplog.records)
    await tasks.close()
    [record] = caplog.records
    assert (record.levelname, record.getMessage()) == ("WARNING", "telling the editor: The editor is gone.")
    assert record.exc_info is None


async def test_close_cancels_and_waits(caplog: pytest.LogCaptureFixture) -> None:
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
    await asyncio.wait_for(tasks.close(), 5)
    assert steps == ["ended"]
    await tasks.close()
    assert caplog.records == []


@pytest.mark.filterwarnings("error")
async def test_nothing_starts_after_close() -> None:
    tasks = BackgroundTasks(LOGGER)
    await tasks.close()
    tasks.start(fails(ValueError()), "too late")
    gc.collect()
    assert tasks._tasks == set()


async def test_a_task_that_never_began_is_closed(recwarn: pytest.WarningsRecorder) -> None:
    tasks = BackgroundTasks(LOGGER)
    tasks.start(fails(ValueError("odd")), "work")
    await tasks.close()
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []
