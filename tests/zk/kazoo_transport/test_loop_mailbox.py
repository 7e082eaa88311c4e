"""Callbacks that other threads post to the event loop."""

import asyncio
import threading

from holdfast.zk.kazoo_transport.loop_mailbox import LoopMailbox
from tests.harness.waiting import wait_until_async

WAIT_S = 30.0


def test_callbacks_of_another_thread_run_on_the_loop_in_order() -> None:
    received: list[tuple[int, str]] = []

    async def test() -> None:
        mailbox = LoopMailbox(asyncio.get_running_loop())

        def post() -> None:
            for number in range(100):
                mailbox.post(lambda n: received.append((n, threading.current_thread().name)), number)

        thread = threading.Thread(target=post)
        thread.start()
        await wait_until_async(lambda: len(received) == 100, WAIT_S, "all callbacks")
        thread.join()

    asyncio.run(test())
    assert received == [(number, threading.main_thread().name) for number in range(100)]


def test_failing_callback_does_not_prevent_later_ones() -> None:
    received: list[str] = []
    errors: list[object] = []

    def fail() -> None:
        raise ValueError("broken callback")

    async def test() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        mailbox = LoopMailbox(loop)
        mailbox.post(fail)
        mailbox.post(received.append, "later")
        await wait_until_async(lambda: received == ["later"], WAIT_S, "the later callback")

    asyncio.run(test())
    assert [type(error) for error in errors] == [ValueError]


def test_stream_of_callbacks_does_not_stop_other_work_of_the_loop() -> None:
    posted: list[int] = []

    async def test() -> int:
        loop = asyncio.get_running_loop()
        mailbox = LoopMailbox(loop)

        def post_next() -> None:
            posted.append(1)
            if len(posted) < 1000:
                mailbox.post(post_next)

        mailbox.post(post_next)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return len(posted)

    assert asyncio.run(test()) < 10


def test_post_after_the_loop_is_closed_is_ignored() -> None:
    loop = asyncio.new_event_loop()
    mailbox = LoopMailbox(loop)
    loop.close()
    mailbox.post(lambda: None)
