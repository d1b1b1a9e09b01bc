"""Reads WARC records (iipc.github.io/warc-specifications, 0.17 to 1.1), of files that may be damaged or may lie.

What a record says of its length, and what a gzip member unpacks to, is bounded: what is beyond `most_bytes` is passed
over, and what is no record is passed over up to the next one that is.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Final

_PIECE: Final = 64 * 2**10
_GZIP: Final = b"\x1f\x8b\x08"
_VERSION: Final = re.compile(rb"WARC/[01]\.\d+[ \t]*\r?\n")
_NEXT_VERSION: Final = re.compile(rb"\nWARC/[01]\.\d+[ \t]*\r?\n")
_MEMBER: Final = re.compile(re.escape(_GZIP))
_MAX_VERSION: Final = 32
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_MAX_HEAD: Final = 64 * 2**10
_MAX_UNPACKED: Final = 2**28  # a record that unpacks to more is a bomb, or a film
_MAX_FAULTS: Final = 1_000  # each may cost as much as _MAX_UNPACKED


class WarcFault(ValueError):
    """What is wrong with a record, or with a file, in words."""


@dataclass(frozen=True, slots=True)
class WarcRecord:
    """A record. `fields` are its header's, by lower-case name. `block` has at most `most_bytes` of its block, all where
    `is_whole`. `offset` and `length` are those of its bytes in the file; without a `length` it shares its gzip member
    with others, and cannot be read by itself. A `fault` says why there is no record at this offset.
    """

    offset: int
    length: int | None = None
    fields: dict[str, str] = field(default_factory=dict)
    block: bytes = b""
    is_whole: bool = True
    fault: str = ""


def read_records(file: BinaryIO, most_bytes: int, start: int = 0, end: int | None = None) -> Iterator[WarcRecord]:
    """Yield the records of a file in their order; those that begin between two offsets, where these are of
    `part_starts`. Raises WarcFault for a file without any, and for one that is damaged all over.
    """
    faults, is_warc, why = 0, start > 0, "it is empty"
    source = _FileBytes(file)
    if start:
        source = _at_next_member(source, start, end) if source.is_packed else source.moved(start)
    for one in _records_from(source, most_bytes):
        if end is not None and one.offset >= end:
            return
        faults += bool(one.fault)
        is_warc = is_warc or not one.fault
        why = why if is_warc or faults > 1 else one.fault
        if faults > _MAX_FAULTS:
            raise WarcFault(f"more than {_MAX_FAULTS:,} places of it are damaged")
        yield one
    if not is_warc:
        raise WarcFault(f"it is not a WARC file: {why}")


def part_starts(file: BinaryIO, part_bytes: int, *, reads_heads: bool = True) -> list[int]:
    """Return offsets that cut a file into parts of about so many bytes: a gzip file anywhere, as members are found by
    their marks; any other where records begin, for which all heads are read, as pages may hold what looks like one.
    """
    if (source := _FileBytes(file)).is_packed:
        return list(range(0, source.end, part_bytes))
    starts = [0]
    with suppress(WarcFault):  # reported where the part is read
        for record in read_records(file, 0) if reads_heads else ():
            if not record.fault and record.offset >= starts[-1] + part_bytes:
                starts.append(record.offset)
    return starts


def read_record(file: BinaryIO, offset: int, length: int, most_bytes: int) -> WarcRecord:
    """Return the record at an offset, from no more than `length` bytes there. Raises WarcFault where there is none."""
    found = next(_records_from(_FileBytes(file, offset, offset + length), most_bytes), None)
    if found is None or found.fault:
        raise WarcFault("there is nothing" if found is None else found.fault)
    return found


class _FileBytes:
    """The bytes of a file between two offsets, from `position` on; some are given back."""

    def __init__(self, file: BinaryIO, position: int = 0, end: int | None = None) -> None:
        size = file.seek(0, os.SEEK_END)
        self.end = size if end is None else min(size, end)
        self.position = file.seek(position)
        self._file, self._back = file, b""

    @property
    def is_packed(self) -> bool:
        start = self.read(len(_GZIP))
        self.give_back(start)
        return start == _GZIP

    @property
    def is_over(self) -> bool:
        return self.position >= self.end

    def read(self, size: int = _PIECE) -> bytes:
        """Return up to `size` bytes, none at the end."""
        if self._back:
            data, self._back = self._back[:size], self._back[size:]
        else:
            data = self._file.read(max(0, min(size, self.end - self.position)))
        self.position += len(data)
        return data

    def give_back(self, data: bytes) -> None:
        self._back = data + self._back
        self.position -= len(data)

    def skip(self, size: int) -> int:
        """Go on without reading; return how many bytes that were."""
        skipped = min(size, self.end - self.position)
        self._back = b""
        self.position = self._file.seek(self.position + skipped)
        return skipped

    def moved(self, position: int) -> _FileBytes:
        """Return a source elsewhere in the file, in the place of this one."""
        return _FileBytes(self._file, position, self.end)

    def find(self, mark: re.Pattern[bytes], longest: int, end: int | None = None) -> bool:
        """Go on to where the mark begins, which is no longer than `longest`; False at the end, or far behind `end`."""
        before = b""
        while (end is None or self.position < end + longest) and (data := self.read()):
            seen = before + data
            if match := mark.search(seen):
                self.give_back(seen[match.start() :])
                return True
            before = seen[-longest:]
        return False


class _GzipMember:
    """What one gzip member unpacks to."""

    def __init__(self, source: _FileBytes) -> None:
        self._source = source
        self._unpacker = zlib.decompressobj(31)
        self._back = b""
        self.unpacked = 0  # bytes of the present record

    @property
    def is_over(self) -> bool:
        return self._unpacker.eof and not self._back

    def read(self, size: int = _PIECE) -> bytes:
        """Return up to `size` bytes, none at the end. Raises WarcFault for damage, and beyond _MAX_UNPACKED."""
        if self._back:
            data, self._back = self._back[:size], self._back[size:]
            return data
        while not self._unpacker.eof:
            given = self._unpacker.unconsumed_tail or self._source.read()
            if not given:
                raise WarcFault("the file ends inside it")
            try:
                data = self._unpacker.decompress(given, size)
            except zlib.error as error:
                raise WarcFault(f"its gzip is damaged: {error}") from error
            if unused := self._unpacker.unused_data:
                self._source.give_back(unused)
            self.unpacked += len(data)
            if self.unpacked > _MAX_UNPACKED:
                raise WarcFault(f"it unpacks to more than {_MAX_UNPACKED // 2**20:,} MB")
            if data:
                return data
        return b""

    def give_back(self, data: bytes) -> None:
        self._back = data + self._back

    def skip(self, size: int) -> int:
        left = size
        while left and (data := self.read(min(left, _PIECE))):
            left -= len(data)
        return size - left


def _records_from(source: _FileBytes, most_bytes: int) -> Iterator[WarcRecord]:
    return _packed_records(source, most_bytes) if source.is_packed else _plain_records(source, most_bytes)


def _packed_records(source: _FileBytes, most_bytes: int) -> Iterator[WarcRecord]:
    """Yield the records of gzip members; behind a fault, go on with the next member that begins as a record does."""
    while not source.is_over:
        offset, member = source.position, _GzipMember(source)
        try:
            found, is_first = _read_one(member, offset, most_bytes), True
            while found is not None:
                try:
                    after = _read_one(member, offset, most_bytes)
                except WarcFault:
                    yield found
                    raise
                is_alone = is_first and after is None
                yield replace(found, length=source.position - offset) if is_alone else found
                found, is_first = after, False
        except WarcFault as fault:
            yield WarcRecord(offset, fault=str(fault))
            if not member.is_over:
                source = _at_next_member(source, offset + 1)


def _plain_records(source: _FileBytes, most_bytes: int) -> Iterator[WarcRecord]:
    """Yield the records of a file that is not packed; behind a fault, go on with the next line that begins one."""
    while not source.is_over:
        offset = source.position
        try:
            found = _read_one(source, offset, most_bytes)
            if found is None:
                return
            yield replace(found, length=source.position - offset)
        except WarcFault as fault:
            yield WarcRecord(offset, fault=str(fault))
            source = source.moved(offset + 1)
            if source.find(_NEXT_VERSION, _MAX_VERSION):
                source.read(1)  # the end of the line before


def _at_next_member(source: _FileBytes, position: int, end: int | None = None) -> _FileBytes:
    """Return the source at the next gzip member that begins with a record; behind `end` where there is none before."""
    ahead = source.moved(position)
    while ahead.find(_MEMBER, len(_GZIP), end):
        at = ahead.position
        try:
            begins = _VERSION.match(_GzipMember(ahead).read(_MAX_VERSION)) is not None
        except WarcFault:
            begins = False
        ahead = ahead.moved(at if begins else at + 1)
        if begins:
            break
    return ahead


def _read_one(stream: _FileBytes | _GzipMember, offset: int, most_bytes: int) -> WarcRecord | None:
    """Read a record; None at the end. Raises WarcFault for what is none."""
    if isinstance(stream, _GzipMember):
        stream.unpacked = 0
    fields = _read_head(stream)
    if fields is None:
        return None
    given = fields.get("content-length", "")
    if not given.isascii() or not given.isdigit() or len(given) > 15:
        raise WarcFault(f"its Content-Length is {given[:40]!r}")
    length = int(given)
    if isinstance(stream, _FileBytes) and length > stream.end - stream.position:
        raise WarcFault(f"its Content-Length is {length:,}, and the file ends before")
    pieces, wanted = [], min(length, most_bytes)
    while wanted and (data := stream.read(min(wanted, _PIECE))):
        pieces.append(data)
        wanted -= len(data)
    kept = sum(map(len, pieces))
    if kept + stream.skip(length - kept) < length:
        raise WarcFault(f"its Content-Length is {length:,}, and there is less")
    behind = stream.read(2) + stream.read(2)
    if behind.strip(b"\r\n"):
        raise WarcFault(f"its Content-Length is {length:,}, and there is more")
    return WarcRecord(offset, None, fields, b"".join(pieces), kept == length)


def _read_head(stream: _FileBytes | _GzipMember) -> dict[str, str] | None:
    head = b""
    while True:
        data = stream.read()
        head = (head + data).lstrip(b"\r\n")
        if not data and not head:
            return None
        if _VERSION.match(head) is None and (not data or len(head) > _MAX_VERSION):
            raise WarcFault("it does not begin as a WARC record does")
        if end := _HEAD_END.search(head):
            stream.give_back(head[end.end() :])
            return parse_fields(head[: end.start()])
        if not data or len(head) > _MAX_HEAD:
            raise WarcFault("its header has no end")


def parse_fields(head: bytes) -> dict[str, str]:
    """Return the fields of a header behind its first line, by lower-case name; of one that is repeated the first."""
    fields: dict[str, str] = {}
    for line in head.splitlines()[1:]:
        name, _, value = line.decode("utf-8", "replace").partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    return fields
