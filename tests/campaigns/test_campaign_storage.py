"""A campaign's storage: a folder, and a bucket behind a real API of S3, do the same."""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass, replace
from typing import Any

import pytest

from llmcrawler.campaigns.campaign_storage import CampaignStorage
from llmcrawler.errors import ConfigError
from tests.servers.s3_server import ENVIRONMENT

SITE = "pages/site=a.example%3A8080/pages.jsonl"


def test_what_is_written_is_read(storage):
    assert storage.read(SITE) is None
    storage.write(SITE, b"first")
    storage.write(SITE, b"second")
    storage.write("manifest.json", b"")
    assert (storage.read(SITE), storage.read("manifest.json")) == (b"second", b"")
    assert storage.names("pages") == [SITE]
    assert storage.names("") == ["manifest.json", SITE]
    assert storage.names("elsewhere") == []
    storage.delete(SITE)
    storage.delete(SITE)
    assert storage.names("pages") == []


def test_files_go_there_and_come_back(storage, tmp_path):
    local, back = tmp_path / "local", tmp_path / "back"
    local.write_bytes(data := bytes(range(256)) * 80_000)  # some of S3's parts
    storage.upload(SITE, local)
    storage.upload("named.zst", local)
    assert storage.read("named.zst") == data, "it is not packed once more"
    assert not storage.download("elsewhere", back)
    assert not back.exists()
    back.write_bytes(b"of before")
    assert storage.download(SITE, back)
    assert back.read_bytes() == data
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["back", "local"]


@dataclass
class Replacing:
    """A file system whose object is replaced by a longer one after its size was asked for."""

    system: Any
    contents: list[bytes]

    def get_file_info(self, key: str) -> Any:
        return self.system.get_file_info(key)

    def open_input_file(self, key: str) -> Any:
        source = self.system.open_input_file(key)
        if self.contents:
            with self.system.open_output_stream(key) as out:
                out.write(self.contents.pop(0))
        return source


@pytest.mark.parametrize("storage", ["s3"], indirect=True)
def test_what_is_replaced_while_it_is_read_is_read_whole(storage, tmp_path):
    """As `scrapy campaign status` reads what the driver writes."""
    storage.write("owner.json", b"1")
    reader = replace(storage, system=Replacing(storage.system, [b"2" * 10, b"3" * 100]))
    assert reader.read("owner.json") == b"3" * 100
    reader = replace(storage, system=Replacing(storage.system, [b"4" * 1_000]))
    assert reader.download("owner.json", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"4" * 1_000
    reader = replace(storage, system=Replacing(storage.system, [b"5" * length for length in range(20)]))
    with pytest.raises(OSError, match=r"owner.json was replaced 10 times while it was read"):
        reader.read("owner.json")


def test_it_can_be_pickled(storage):
    storage.write("manifest.json", b"{}")
    assert pickle.loads(pickle.dumps(storage)).read("manifest.json") == b"{}"


def test_a_file_that_lies_there_is_not_copied_onto_itself(tmp_path):
    storage = CampaignStorage.at(tmp_path)
    file = tmp_path / "manifest.json"
    file.write_bytes(b"{}")
    before = file.stat()
    storage.upload("manifest.json", file)
    assert storage.download("manifest.json", file)
    assert (file.stat().st_ino, file.read_bytes()) == (before.st_ino, b"{}")


def test_a_file_that_cannot_be_written_whole_is_as_it_was(storage, tmp_path, monkeypatch):
    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    local = tmp_path / "local"
    local.write_bytes(b"of before")
    storage.write(SITE, b"new")
    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(OSError, match="the disk is full"):
        storage.download(SITE, local)
    assert local.read_bytes() == b"of before"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["local"]


def test_a_place_that_cannot_be_is_refused_with_the_cure(s3_server, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"s3://nowhere/campaign: there is no bucket nowhere: make it"):
        CampaignStorage.at(s3_server.place("campaign", "nowhere"))
    with pytest.raises(ConfigError, match="name a path in the bucket too"):
        CampaignStorage.at(s3_server.place(""))
    with pytest.raises(ConfigError, match="Unexpected query parameter"):
        CampaignStorage.at(s3_server.place("campaign") + "&regoin=x")
    with pytest.raises(ConfigError, match="in a folder, or at s3://BUCKET/PATH") as refused:
        CampaignStorage.at("hdfs://user:secret@host/path?token=secret")
    assert "secret" not in str(refused.value)


def test_without_pyarrow_a_bucket_is_refused_with_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="pip install"):
        CampaignStorage.at("s3://bucket/campaign")
