"""Reads a WARC file with the two libraries that people read them with, which have to agree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator


@dataclass(frozen=True)
class WarcRecord:
    type: str
    url: str | None
    status: str | None
    fields: dict[str, str]
    headers: dict[str, str]
    body: bytes


def records_of(file: Path) -> list[WarcRecord]:
    """All records, by warcio; both libraries have found every digest right."""
    found = []
    with file.open("rb") as stream:
        for record in ArchiveIterator(stream, check_digests="raise"):
            http = record.http_headers
            body = record.content_stream().read()
            assert record.digest_checker.passed is not False
            found.append(
                WarcRecord(
                    record.rec_type,
                    record.rec_headers.get_header("WARC-Target-URI"),
                    None if http is None else http.statusline,
                    dict(record.rec_headers.headers),
                    {} if http is None else dict(http.headers),
                    body,
                )
            )
    with file.open("rb") as stream:
        blocks = [record.verify_block_digest() for record in FastIterator(stream, parse_http=False)]
    with file.open("rb") as stream:
        payloads = [
            record.verify_payload_digest()
            for record in FastIterator(stream, parse_http=True)
            if record.is_http and "WARC-Payload-Digest" in record.headers
        ]
    assert len(blocks) == len(found)
    assert all(blocks)
    assert all(payloads)
    return found


def of_type(records: Iterable[WarcRecord], name: str) -> list[WarcRecord]:
    return [one for one in records if one.type == name]
