"""Webhooks: what they get, when they get it again, and where nothing is ever sent."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from llmcrawler.server.jobs import Webhook, _store
from llmcrawler.server.webhooks import Webhooks
from tests.server.conftest import open_jobs
from tests.server.stored_jobs import stored_job

pytestmark = pytest.mark.server
ID = "a" * 24
TOKEN = "a-token-of-the-operator"


class Receiver:
    """Keeps what is posted, and answers with the next of these bytes; the last one again and again."""

    def __init__(self, *answers):
        self.answers = [*answers]
        self.requests: list[tuple[dict[str, str], bytes]] = []

    async def __call__(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        self.requests.append((headers, await reader.readexactly(int(headers["content-length"]))))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        writer.write(answer)
        if not answer:
            await reader.read()  # it answers nothing, until the other side gives up
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def answer(status, more=b""):
    return f"HTTP/1.1 {status} So\r\nContent-Length: {len(more)}\r\n\r\n".encode() + more


@asynccontextmanager
async def receiving(*answers):
    receiver = Receiver(*answers)
    server = await asyncio.start_server(receiver, "127.0.0.1", 0)
    async with server:
        yield receiver, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?a=1"


@asynccontextmanager
async def open_hooks(folder, url, now, *, allow_private=True, **hook):
    """The deliveries of a folder with one job, which has ended."""
    if not (folder / "jobs").exists():
        _store(replace(stored_job(folder / "jobs" / ID), webhook=Webhook(url, **hook)))
    async with open_jobs(folder / "jobs", allow_private=allow_private) as jobs:
        yield Webhooks(jobs, TOKEN, clock=lambda: now[0]), jobs


async def delivered(hooks):
    tasks = hooks.begin_due()
    await asyncio.gather(*tasks)
    return len(tasks)


def state_of(jobs):
    return json.loads((jobs.folder / ID / "webhook.json").read_text())


@pytest.mark.parametrize("secret", ["", "a-secret-of-the-client"])
async def test_the_end_of_a_job_is_posted_once_and_signed(tmp_path, secret):
    now = [1_000_000.4]
    async with receiving(answer(204)) as (receiver, url):
        async with open_hooks(tmp_path, url, now, **({"secret": secret} if secret else {})) as (hooks, jobs):
            assert [await delivered(hooks) for _ in range(2)] == [1, 0]
            assert state_of(jobs) | {"next": 0} == {"tries": 1, "next": 0, "is_over": True, "told": "answered 204"}
        async with open_hooks(tmp_path, url, now) as (hooks, _jobs):
            assert await delivered(hooks) == 0
    ((headers, body),) = receiver.requests
    job = json.loads(body)
    assert (job["id"], job["state"], job["webhook"]) == (ID, "finished", {"url": url})
    signed = hmac.new((secret or TOKEN).encode(), b"1000000." + body, hashlib.sha256).hexdigest()
    assert headers["x-llmcrawler-signature"] == f"sha256={signed}"
    assert (headers["x-llmcrawler-timestamp"], headers["content-type"]) == ("1000000", "application/json")


async def test_it_is_tried_again_after_one_five_and_fifteen_minutes_by_the_next_server_too(tmp_path, caplog):
    now = [0.0]
    async with receiving(answer(500)) as (receiver, url):
        for pause in (0, 60, 300, 900):
            async with open_hooks(tmp_path, url, now) as (hooks, jobs):
                if pause:
                    now[0] += pause - 1
                    assert await delivered(hooks) == 0
                    now[0] += 1
                assert await delivered(hooks) == 1
        assert state_of(jobs)["is_over"]
        now[0] += 10**9
        assert await delivered(hooks) == 0
    assert len(receiver.requests) == 4
    assert caplog.messages[-1] == f"The webhook of job {ID}: answered 500; it is given up"


async def test_a_clock_that_is_put_back_puts_no_delivery_off(tmp_path):
    now = [10.0**9]
    async with receiving(answer(500)) as (receiver, url), open_hooks(tmp_path, url, now) as (hooks, jobs):
        assert await delivered(hooks) == 1
        now[0] -= 10**8
        assert await delivered(hooks) == 1
        assert await delivered(hooks) == 0
        assert state_of(jobs)["next"] == now[0] + 300
    assert len(receiver.requests) == 2


BAD_ANSWERS = [
    (answer(302, b"Location: http://127.0.0.1/"), "answered 302"),
    (b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\n\r\n", "answered 302"),
    (b"HTTP/1.1 999999999999999999999999 A\r\n", "without sending a response"),
    (b"SSH-2.0-OpenSSH\r\n", "without sending a response"),
    (b"SSH-2.0-OpenSSH\r\n\r\n", "illegal status line"),
    (b"HTTP/1.1 200", "without sending a response"),
    (b"A" * 10_000, "without sending a response"),
    (b"\r\n", "no response line"),
]


@pytest.mark.parametrize(("given", "told"), BAD_ANSWERS)
async def test_an_odd_answer_is_no_delivery_and_redirects_are_not_followed(tmp_path, given, told):
    async with receiving(given) as (receiver, url), open_hooks(tmp_path, url, [0.0]) as (hooks, jobs):
        await delivered(hooks)
        state = state_of(jobs)
    assert (state["tries"], state["is_over"], len(receiver.requests)) == (1, False, 1)
    assert told in state["told"]


async def test_a_receiver_that_answers_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("llmcrawler.server.webhooks._TIMEOUT_SECONDS", 0.05)
    async with receiving(b"") as (_receiver, url), open_hooks(tmp_path, url, [0.0]) as (hooks, jobs):
        await delivered(hooks)
        assert (state_of(jobs)["told"], state_of(jobs)["next"]) == ("TimeoutError", 60.0)


async def test_no_body_is_read(tmp_path):
    async with (
        receiving(answer(200, b"a" * 2**20)) as (_receiver, url),
        open_hooks(tmp_path, url, [0.0]) as (hooks, jobs),
    ):
        await delivered(hooks)
        assert state_of(jobs)["is_over"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://inside.test/", "inside.test has a private address"),  # public when the job was asked for
        ("http://127.0.0.1:{port}/", "127.0.0.1 has a private address"),
        ("http://10.0.0.1/", "10.0.0.1 has a private address"),
        ("http://[::1]:{port}/", "::1 has a private address"),
        ("http://unknown.test/", "unknown.test: no address is known"),
    ],
)
async def test_nothing_is_sent_to_private_addresses(tmp_path, url, told):
    async with receiving(answer(200)) as (receiver, here):
        address = url.format(port=here.rpartition(":")[2].partition("/")[0])
        async with open_hooks(tmp_path, address, [0.0], allow_private=False) as (hooks, jobs):
            await delivered(hooks)
            assert told in state_of(jobs)["told"]
    assert receiver.requests == []


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"tries": "a"}', "\x00"])
async def test_a_damaged_state_begins_anew(tmp_path, damage):
    async with receiving(answer(200)) as (receiver, url):
        async with open_hooks(tmp_path, url, [0.0]) as (_hooks, jobs):
            (jobs.folder / ID / "webhook.json").write_text(damage)
        async with open_hooks(tmp_path, url, [0.0]) as (hooks, _jobs):
            assert await delivered(hooks) == 1
    assert len(receiver.requests) == 1


async def test_of_two_servers_one_delivers(tmp_path):
    async with receiving(answer(200)) as (receiver, url), open_hooks(tmp_path, url, [0.0]) as (first, jobs):
        second = Webhooks(jobs, TOKEN, clock=lambda: 0.0)
        running = [asyncio.create_task(one.run()) for one in (first, second)]
        while not (jobs.folder / ID / "webhook.json").exists():  # noqa: ASYNC110 - the file is all there is to look at
            await asyncio.sleep(0.02)
        await asyncio.sleep(0)
        assert [one._lock.is_locked for one in (first, second)] == [True, False]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    assert len(receiver.requests) == 1
