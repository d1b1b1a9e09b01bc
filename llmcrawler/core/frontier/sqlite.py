"""The frontier of a crawl with a job directory: its urls are in the job's file, not in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from llmcrawler.core.frontier.host_turns import HostTurns
from llmcrawler.core.frontier.protocol import Counts, Lease, UrlTask
from llmcrawler.core.storage import Database, JobConnection, Outcome, State, id_of, read_value, url_key, write_outcome
from llmcrawler.core.storage.job_file import checksum, count_duplicates
from llmcrawler.items import SOURCES, PageError, UrlSource


class NameTable:
    """The names in one table of the job's file, and their numbers there."""

    def __init__(self, table: str) -> None:
        self._table = table
        self.number_of: dict[str, int] = {}
        self.name_of: dict[int, str] = {}

    def note(self, number: int, name: str) -> None:
        self.number_of[name], self.name_of[number] = number, name

    def number(self, connection: JobConnection, name: str) -> int:
        """Return the number of a name, which goes into the table when it is new."""
        number = self.number_of.get(name)
        if number is None:
            query = f"INSERT INTO {self._table} (name) VALUES (?) RETURNING id"  # noqa: S608 - the name of a table
            number = int(connection.execute(query, (name,)).fetchone()[0])
            self.note(number, name)
        return number


_FIRST_ID = 0

_INSERT = 'INSERT INTO urls (id, url, host, depth, referer, crc, rank, "group") VALUES (?, ?, ?, ?, ?, ?, ?, ?)'
# As in Found.merged; a source is its place in SOURCES.
_FOUND = (
    "INSERT INTO found VALUES (?, ?, ?, ?) ON CONFLICT (url) DO UPDATE SET source = min(source, excluded.source), "
    "lastmod = coalesce(lastmod, excluded.lastmod), title = coalesce(title, excluded.title)"
)
_JOINS = (
    "urls u LEFT JOIN referers r ON r.id = u.referer AND r.url != ''"  # which stands for one that is lost
    " LEFT JOIN tasks t ON t.url = u.id LEFT JOIN found f ON f.url = u.id"
)
_NEXT = (
    "SELECT u.rank, u.id, u.url, u.depth, r.url, u.attempts, "  # noqa: S608 - a constant is put in
    "(SELECT b.generation FROM bodies b WHERE b.url = u.id AND b.body IS NOT NULL), "
    "EXISTS (SELECT 1 FROM pages p WHERE p.url = u.id AND p.line IS NOT NULL), t.payload, f.source, f.lastmod, f.title "
    f'FROM {_JOINS} WHERE u.host = ? AND u."group" = ? AND u.state = 0 '  # 0: State.QUEUED, as in the index
    "ORDER BY u.rank, u.id LIMIT ?"
)
_HELD = (
    "SELECT u.attempts, u.depth, r.url, t.payload, f.source, f.lastmod, f.title "  # noqa: S608 - likewise
    f"FROM {_JOINS} WHERE u.id = ? AND u.state = ?"
)


class SqliteFrontier:
    """Keeps a job's urls in its file; in memory only the place of the first url of each host and group. One process at
    a time has the file, so what was leased when it was opened is free again.
    """

    def __init__(self, database: Database, *, max_leases: int) -> None:
        self._database = database
        self._max_leases = max_leases
        self._hosts = NameTable("hosts")
        self._groups = NameTable("groups")
        self._groups.note(0, "")
        self._turns: HostTurns[int, int] = HostTurns()  # by places no later than those of the first urls
        self._counts = dict.fromkeys(State, 0)
        self._duplicates = 0
        self._referer: tuple[str, int] = ("", 0)
        self._generation = 0

    async def open(self) -> None:
        await self._database.run(self._open)

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        given = list(tasks)
        return await self._database.run(lambda connection: self._add(connection, given)) if given else 0

    async def set_priorities(self, priorities: Mapping[str, int]) -> None:
        given = dict(priorities)
        if given:
            await self._database.run(lambda connection: self._set_priorities(connection, given))

    async def lease(self, limit: int, held: Mapping[str, int], per_host: int, worst: int | None = None) -> list[Lease]:
        busy = dict(held)
        return await self._database.run(lambda connection: self._lease(connection, limit, busy, per_host, worst))

    async def start(self, url: str) -> None:
        query = "UPDATE urls SET attempts = attempts + 1 WHERE id = ?"
        await self._database.run(lambda connection: connection.execute(query, (id_of(connection, url),)))

    def mark_survived(self, url: str) -> None:
        query = "UPDATE urls SET attempts = 0 WHERE id = ?"
        self._database.post(lambda connection: connection.execute(query, (id_of(connection, url),)))

    async def ack(self, url: str, outcome: Outcome | None = None) -> bool:
        return await self._database.run(lambda connection: self._ack(connection, url, outcome))

    async def release(self, url: str) -> bool:
        return await self._database.run(lambda connection: self._release(connection, url))

    async def reserve_target(self, url: str, by: str) -> bool:
        return await self._database.run(lambda connection: self._reserve(connection, url, by))

    def counts(self) -> Counts:
        queued, leased, done, dead = (self._counts[one] for one in (State.QUEUED, State.LEASED, State.DONE, State.DEAD))
        return Counts(queued, leased, done, dead, self._duplicates)

    def queued_hosts(self) -> list[str]:
        return [self._hosts.name_of[host] for host in self._turns.hosts()]

    # Everything below runs on the database's thread.

    def _open(self, connection: JobConnection) -> None:
        self._generation = read_value(connection, "generation", 0)
        for row in connection.execute("SELECT id, name FROM hosts"):
            self._hosts.note(*row)
        leased = connection.execute("SELECT url FROM urls WHERE state = ?", (State.LEASED,)).fetchall()
        self._counts |= {
            State(state): count
            for state, count in connection.execute("SELECT state, count(*) FROM urls GROUP BY state")
        }
        self._duplicates = count_duplicates(connection)
        for number, name, self._turns.priorities[number] in connection.execute("SELECT id, name, rank FROM groups"):
            self._groups.note(number, name)
        queued = connection.execute(
            'SELECT host, "group", min(rank) FROM urls WHERE state = 0 GROUP BY host, "group"'  # 0: State.QUEUED
        )
        for host, group, priority in queued:
            self._turns.put(host, group, (priority, _FIRST_ID))
        for (url,) in leased:
            self._give_back(connection, url)

    def _add(self, connection: JobConnection, tasks: list[UrlTask]) -> int:
        keys, rows, payloads, sources = connection.keys, [], [], []
        new: dict[int, int] = {}
        for task in tasks:
            key = url_key(task.url)
            known = new.get(key) or keys.find(key)
            number = known or keys.next_number + len(new)
            if task.found is not None:
                found = task.found
                sources.append((number, SOURCES.index(found.source), found.lastmod, found.title))
            if known is not None:
                continue
            new[key] = number
            host, referer = self._hosts.number(connection, task.host), self._referer_id(connection, task.referer)
            group = self._groups.number(connection, task.group)
            row = (number, task.url, host, task.depth, referer)
            rows.append((*row, checksum(*row), task.priority, group))
            self._turns.note(host, group, (task.priority, _FIRST_ID))
            if task.payload is not None:
                request = (number, task.details().get("key"), task.payload)
                payloads.append((*request, checksum(*request)))
        connection.executemany(_INSERT, rows)
        if payloads:
            connection.executemany("INSERT INTO tasks VALUES (?, ?, ?, ?)", payloads)
        if sources:
            connection.executemany(_FOUND, sources)
        keys.add(new)
        self._counts[State.QUEUED] += len(new)
        return len(new)

    def _set_priorities(self, connection: JobConnection, priorities: Mapping[str, int]) -> None:
        numbered = {self._groups.number(connection, name): priority for name, priority in priorities.items()}
        connection.executemany(
            "UPDATE groups SET rank = ? WHERE id = ?", [(priority, number) for number, priority in numbered.items()]
        )
        self._turns.set_priorities(numbered)

    def _referer_id(self, connection: JobConnection, url: str | None) -> int | None:
        if url is None:
            return None
        if url != self._referer[0]:
            connection.execute("INSERT OR IGNORE INTO referers (url) VALUES (?)", (url,))
            (number,) = connection.execute("SELECT id FROM referers WHERE url = ?", (url,)).fetchone()
            self._referer = (url, number)
        return self._referer[1]

    def _lease(
        self, connection: JobConnection, limit: int, held: Mapping[str, int], per_host: int, worst: int | None
    ) -> list[Lease]:
        """Lease the first urls of all queues whose hosts have room. A queue's urls are read when its turn comes."""
        names = self._hosts.name_of
        self._turns.look(lambda host: per_host - held.get(names[host], 0), worst)
        ahead: dict[tuple[int, int], deque[Any]] = {}
        leases: list[Lease] = []
        ids = []
        while len(leases) < limit and (turn := self._turns.next()) is not None:
            host, group, room = turn
            if (rows := ahead.get((host, group))) is None:  # one more than may be taken tells where the queue goes on
                rows = ahead[host, group] = deque(connection.execute(_NEXT, (host, group, min(room, limit) + 1)))
            else:
                priority, number, url, depth, referer, attempts, generation, is_known, payload, *found = rows.popleft()
                name = self._groups.name_of[group]
                task = UrlTask(url, names[host], depth, referer, priority, name, payload, _found(*found))
                leases.append(Lease(task, attempts + 1, generation == self._generation, bool(is_known)))
                ids.append(number)
                self._turns.took(host)
            self._turns.put(host, group, rows[0][:2] if rows else None)
        self._move(connection, ids, State.QUEUED, State.LEASED)
        return leases

    def _move(self, connection: JobConnection, ids: list[int], old: State, new: State) -> None:
        connection.executemany(f"UPDATE urls SET state = {new:d} WHERE id = ?", [(number,) for number in ids])  # noqa: S608 - a constant is put in
        self._counts[old] -= len(ids)
        self._counts[new] += len(ids)

    def _ack(self, connection: JobConnection, url: str, outcome: Outcome | None) -> bool:
        number = id_of(connection, url) or 0  # which no url has
        state = State.DEAD if outcome is not None and outcome.is_dead else State.DONE
        query = "UPDATE urls SET state = ? WHERE id = ? AND state = ?"
        if not connection.execute(query, (state, number, State.LEASED)).rowcount:
            return False
        self._counts |= {State.LEASED: self._counts[State.LEASED] - 1, state: self._counts[state] + 1}
        if outcome is not None:
            write_outcome(connection, number, outcome)
            self._duplicates += outcome.is_duplicate
        return True

    def _release(self, connection: JobConnection, url: str) -> bool:
        query = 'SELECT id, host, "group", rank FROM urls WHERE id = ? AND state = ?'
        row = connection.execute(query, (id_of(connection, url), State.LEASED)).fetchone()
        if row is not None:
            number, host, group, priority = row
            self._move(connection, [number], State.LEASED, State.QUEUED)
            self._turns.note(host, group, (priority, number))
        return row is not None

    def _reserve(self, connection: JobConnection, url: str, by: str) -> bool:
        key, referer = url_key(url), self._referer_id(connection, by)
        number = connection.keys.find(key)
        if number is None:
            number = connection.keys.next_number
            row = (number, url, 0, 0, referer)
            query = "INSERT INTO urls (id, url, host, depth, referer, crc, state) VALUES (?, ?, ?, ?, ?, ?, ?)"
            connection.execute(query, (*row, checksum(*row), State.SEEN))
            connection.keys.add({key: number})
            self._counts[State.SEEN] += 1
            return True
        query = "SELECT 1 FROM urls WHERE id = ? AND state = ? AND referer = ?"
        return connection.execute(query, (number, State.SEEN, referer)).fetchone() is not None

    def _give_back(self, connection: JobConnection, url: str) -> None:
        """Queue a url again that an earlier run had leased, or make it a dead letter when that happened too often."""
        row = connection.execute(_HELD, (id_of(connection, url), State.LEASED)).fetchone()
        if row is None or row[0] < self._max_leases:
            self._release(connection, url)
            return
        attempts, depth, referer, payload, *found = row
        line = UrlTask(url, "", depth, referer, payload=payload, found=_found(*found)).line()
        message = f"the crawl was taken down {attempts} times while it was read"
        line.error = PageError("fetch", "lost", message, attempts)
        self._ack(connection, url, Outcome(line.as_line(), {}, is_dead=True))


def _found(source: int | None, lastmod: str | None, title: str | None) -> UrlSource | None:
    return None if source is None else UrlSource(SOURCES[source], lastmod, title)
