"""Names that a job's file holds once and that its urls refer to by number: hosts, and groups of links."""

from __future__ import annotations

from llmcrawler.core.storage import JobConnection


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
