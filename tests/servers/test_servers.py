"""What tests measure at the servers is what the servers see."""

import asyncio

import aiohttp
import pytest
from aiohttp import web

from tests.servers.mock_site import MockSite


@pytest.mark.server
async def test_requests_in_flight_are_measured():
    together = asyncio.Barrier(3)

    async def wait(_request: web.Request) -> web.Response:
        await together.wait()
        return web.Response()

    async with MockSite({"/together/*": wait}) as site, aiohttp.ClientSession() as session:
        await asyncio.gather(*(session.get(site.url(f"/together/{n}")) for n in range(3)))
        assert site.measures.max_in_flight == 3
        assert site.measures.hits.total() == 3
