"""How a job's bodies and lines are packed."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from llmcrawler.core.storage import StoredBody, open_job_file, unpack
from llmcrawler.core.storage.body_packer import number_of_dictionary, pack
from llmcrawler.core.storage.job_file import JobConnection, checksum, url_key
from llmcrawler.core.storage.ledger import body_hash, read_bodies, read_page
from tests.servers.many_pages import ManyPages

MENU = "".join(f'<li><a href="/{number * 7919 % 1000}/">Things of the kind {number**3}</a>' for number in range(80))
PAGES = [f"{body}<ul>{MENU}</ul>".encode() for path, body in ManyPages(120).bodies.items() if "/item/" in path]
SITE = "a.example"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "crawl.sqlite"


@pytest.fixture
def connection(path: Path) -> Iterator[JobConnection]:
    with closing(open_job_file(path)) as connection:
        yield connection


def store(connection: JobConnection, bodies: list[bytes], site: str = SITE) -> list[bytes]:
    """Store bodies of new urls of a site; what is in the file of them."""
    packed = []
    for body in bodies:
        number = connection.keys.next_number
        url = f"https://{site}/{number}"
        connection.execute("INSERT OR IGNORE INTO hosts VALUES (1, ?)", (site,))
        query = "INSERT INTO urls (id, url, host, depth, crc) VALUES (?, ?, 1, 0, ?)"
        connection.execute(query, (number, url, checksum(number, url, 1, 0, None)))
        connection.keys.add({url_key(url): number})
        packed.append(connection.packer.pack(number, site, body))
        row = (number, None, 200, "[]", body_hash(body), "2026-01-01T00:00:00+00:00")
        query = "INSERT INTO bodies VALUES (?, ?, ?, ?, ?, ?, ?, 0.1, NULL, 0, ?)"
        connection.execute(query, (*row, checksum(*row), packed[-1]))
    return packed


def body_of(connection: JobConnection, number: int, site: str = SITE) -> StoredBody | None:
    return read_page(connection, f"https://{site}/{number}").body


def test_the_first_pages_of_a_site_make_the_dictionary_of_those_that_follow(connection, path):
    packed = store(connection, PAGES)
    numbers = [number_of_dictionary(one) for one in packed]
    assert numbers[:32] == [0] * 32
    assert len({*numbers[32:]}) == 1
    assert numbers[32]
    alone, together = len(packed[31]), len(packed[40])
    assert together < 0.6 * alone  # what the pages share, the dictionary has
    assert [connection.packer.unpack(one) for one in packed] == PAGES


def test_each_site_has_a_dictionary_of_its_own_and_a_later_run_goes_on_with_it(connection, path):
    store(connection, PAGES[:40])
    others = store(connection, PAGES[40:80], "b.example")
    numbers = {number_of_dictionary(one) for one in others} - {0}
    assert connection.execute("SELECT count(*) FROM dictionaries").fetchone() == (2,)
    with closing(open_job_file(path)) as later:
        (packed,) = store(later, PAGES[41:42], "b.example")
        assert {number_of_dictionary(packed)} == numbers
        for number, body in enumerate(PAGES[:40], 1):
            stored = body_of(later, number)
            assert stored is not None
            assert stored.body == body


def test_pages_that_no_dictionary_can_be_made_of_are_packed_without(connection):
    packed = store(connection, [b""] * 100)
    assert {number_of_dictionary(one) for one in packed} == {0}
    assert [connection.packer.unpack(one) for one in packed] == [b""] * 100


def test_no_dictionary_is_made_of_pages_that_are_damaged(connection):
    store(connection, PAGES[:31])
    connection.execute("UPDATE bodies SET body = substr(body, 1, 20) WHERE url = 5")
    assert {number_of_dictionary(one) for one in store(connection, PAGES[31:60])} == {0}


def test_sites_with_the_same_pages_share_a_dictionary(connection):
    packed = store(connection, PAGES[:40]) + store(connection, PAGES[:40], "b.example")
    assert len({number_of_dictionary(one) for one in packed} - {0}) == 1
    assert number_of_dictionary(packed[-1])
    assert [connection.packer.unpack(one) for one in packed] == PAGES[:40] * 2


def test_a_number_that_another_dictionary_has_is_not_used(connection):
    store(connection, PAGES[:40])
    connection.execute("UPDATE dictionaries SET content = x'00', site = 'c.example'")
    packed = store(connection, PAGES[:40], "b.example")
    assert {number_of_dictionary(one) for one in packed} == {0}


def test_a_dictionary_of_which_only_the_number_is_left_makes_its_pages_fetched_again(connection, path):
    store(connection, PAGES[:40])
    connection.execute("DELETE FROM dictionaries")
    with closing(open_job_file(path)) as later:
        assert body_of(later, 1) is not None
        assert body_of(later, 40) is None
        assert len(read_bodies(later, 40)) == 32


def test_bodies_go_with_a_dictionary_that_is_damaged_and_their_site_gets_another(connection, path):
    packed = store(connection, PAGES[:40])
    store(connection, PAGES[40:80], "b.example")
    content = bytearray(connection.execute("SELECT content FROM dictionaries WHERE site = ?", (SITE,)).fetchone()[0])
    content[-100] ^= 1
    connection.execute("UPDATE dictionaries SET content = ? WHERE site = ?", (bytes(content), SITE))
    with closing(open_job_file(path)) as later:
        assert body_of(later, 40) is None  # and not a page that nobody has sent
        again = store(later, PAGES[40:80])
        assert number_of_dictionary(again[-1]) not in {0, number_of_dictionary(packed[-1])}


def test_a_damaged_body_is_not_used_and_told(connection, caplog):
    (packed, _other) = store(connection, PAGES[:2])
    damaged = bytearray(packed)
    damaged[len(damaged) // 2] ^= 1
    connection.execute("UPDATE bodies SET body = ? WHERE url = 1", (bytes(damaged),))
    assert body_of(connection, 1) is None
    assert body_of(connection, 2) is not None
    assert "The stored page of https://a.example/1 is damaged" in caplog.text


def test_lines_come_back_as_they_were():
    text = '{"title": "K\u00e4se \ud83e"}'  # half a surrogate pair, as pages may have in their JSON
    assert unpack(pack(text)) == text


def test_a_body_that_is_that_of_another_page_is_not_used(connection):
    store(connection, PAGES[:2])
    connection.execute("UPDATE bodies SET body = (SELECT body FROM bodies WHERE url = 1)")
    assert body_of(connection, 1) is not None
    assert body_of(connection, 2) is None
