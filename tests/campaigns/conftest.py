"""Set up what the tests of campaigns' storages share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from llmcrawler.campaigns.campaign_storage import CampaignStorage, storage_at
from tests.servers.s3_server import ENVIRONMENT, S3Server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    pytest.importorskip("moto.server")
    pytest.importorskip("pyarrow.fs")
    with S3Server() as server:
        yield server


@pytest.fixture(params=["folder", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CampaignStorage:
    """An empty one."""
    if request.param == "folder":
        return storage_at(tmp_path / "storage")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return storage_at(request.getfixturevalue("s3_server").place(f"kept/{tmp_path.name}"))
