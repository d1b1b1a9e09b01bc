"""Which columns of repeated rows are the fields of a group that is asked for, and which parts of their texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.resources import files
from io import BytesIO

import numpy as np
import pytest

from llmcrawler.core.understanding.extraction.blocks import PageBlocks, TrainingPage
from llmcrawler.core.understanding.extraction.extractor import compile_extractor
from llmcrawler.core.understanding.extraction.record_schema import Field, RequestedSchema, schema_of
from llmcrawler.core.understanding.extraction.repeated_parts import row_tables
from llmcrawler.core.understanding.extraction.row_columns import compared, feature_tables
from llmcrawler.core.understanding.extraction.training_run import ColumnAnnotator, TrainingRules, TrainingRun

PEOPLE = "Ann Lee,Bo Fisher,Clara Moreno,David Okafor,Eva Lindqvist,Frank Weber,Grace Chen,Hugo Marchand".split(",")
FIRMS = "Acme Ltd,Brightwater Group,Cobalt Works,Dunmore Partners,Eastgate Systems,Fenwick Bros".split(",")
POSTS = "Engineer,Project Manager,Accountant,Sales Director,Technician,Data Analyst".split(",")
SAID = "The {} was late again but the staff helped us at once. We would come back any time."
THINGS = "train,kettle,garden tour,parcel,concert,ferry,breakfast,guide".split(",")


def pages_of(body_of: Callable[[int], str], count: int = 10) -> list[TrainingPage]:
    return [
        TrainingPage(
            f"http://site.example/p/{n}",
            PEOPLE[n % 8],
            "en",
            f"<html lang=en><title>{PEOPLE[n % 8]} {n}</title><body><main>{body_of(n)}</main></body></html>",
            frozenset(),
        )
        for n in range(count)
    ]


def records(pages: list[TrainingPage], page_type: str, group: str, names: str) -> list[list[dict[str, object]]]:
    """The objects of a group of each page, learned from these pages."""
    fields = tuple(Field(name, group=group) for name in names.split())
    requested = RequestedSchema(schema_of(fields), fields)
    extractor = asyncio.run(TrainingRun(page_type, ColumnAnnotator(requested), TrainingRules()).run(pages)).extractor
    if extractor is None:
        return [[] for _ in pages]
    compiled = compile_extractor(extractor)
    found = (compiled.extract(page.html, page.url, page.lang).record or {} for page in pages)
    return [one.get(group) or [] for one in found]


def job(n: int) -> dict[str, object]:
    start, end = f"{2001 + n}", f"{2003 + n}"
    return {"company": FIRMS[n % 6], "position": POSTS[(5 * n + 1) % 6], "start_date": start, "end_date": end}


def test_the_two_ends_of_a_time_in_one_text_are_two_fields() -> None:
    jobs = [[*map(job, range(n, n + 2 + n % 3))] for n in range(10)]

    def curriculum(n: int) -> str:
        rows = "".join(
            f"<div class=job><h3>{one['position']}</h3><span class=employer>{one['company']}</span>"
            f"<span class=period>{one['start_date']} – {one['end_date']}</span></div>"
            for one in jobs[n]
        )
        return f"<h1>{PEOPLE[n % 8]}</h1><h2>Work experience</h2><section>{rows}</section>"

    assert records(pages_of(curriculum), "profile", "work", "company position start_date end_date") == jobs


def test_a_line_of_who_and_when_gives_both() -> None:
    said = [
        [
            {
                "author": PEOPLE[(n + at) % 8],
                "date": f"{at + 1} May 20{10 + n}",
                "text": SAID.format(THINGS[(n + at) % 8]),
            }
            for at in range(2 + n % 3)
        ]
        for n in range(10)
    ]

    def thread(n: int) -> str:
        rows = "".join(
            f"<li><div class=meta>by {one['author']}, {one['date']}</div><p>{one['text']}</p></li>" for one in said[n]
        )
        return f"<h1>On the {THINGS[n % 8]} {n}</h1><h3>Comments</h3><ul class=comments>{rows}</ul>"

    found = records(pages_of(thread), "article", "comments", "author date text")
    for rows, expected in zip(found, said, strict=True):
        assert [(one["author"], one["text"]) for one in rows] == [(one["author"], one["text"]) for one in expected]
        assert [one["date"] for one in rows] == [f"{one['date'][-4:]}-05-0{one['date'][0]}" for one in expected]


def test_tables_that_only_their_titles_tell_apart_are_groups_of_their_own() -> None:
    tracks = [
        [
            {"title": f"{THINGS[(3 * n + at) % 8].title()} in the rain", "duration": f"{at + 2}:{10 + n + at}"}
            for at in range(2 + n % 3)
        ]
        for n in range(10)
    ]

    def album(n: int) -> str:
        facts = (("Year", 1990 + n), ("Country", ("Chad", "Peru")[n % 2]))
        crew = (("Camera", PEOPLE[(n + 5) % 8]), ("Sound", PEOPLE[(n + 2) % 8]))
        played = [one.values() for one in tracks[n]]
        tables = "".join(
            f"<table><tr class=head><th colspan=2>{name}</th></tr>"
            + "".join(f"<tr><td>{first}</td><td>{second}</td></tr>" for first, second in rows)
            + "</table>"
            for name, rows in (("General", facts), ("Tracks", played), ("Crew", crew))
        )
        return f"<h1>The {THINGS[n % 8]} of {n}</h1>{tables}"

    assert records(pages_of(album), "music", "tracks", "title duration") == tracks


def test_a_group_that_the_pages_do_not_have_is_not_made_up() -> None:
    def shelf(n: int) -> str:
        rows = "".join(
            f"<tr><th>{name}</th><td>{value}</td></tr>"
            for name, value in (("Weight", f"{n + 2} kg"), ("Colour", ("red", "blue")[n % 2]), ("Maker", FIRMS[n % 6]))
        )
        return f"<h1>The {THINGS[n % 8]} {n}</h1><p>{SAID.format(THINGS[n % 8])}</p><table>{rows}</table>"

    assert records(pages_of(shelf), "product", "reviews", "author rating date text") == [[]] * 10


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("by {person}, {day} May 2021", {"{person}, {day} May 2021", "{day} May 2021", "{person}"}),
        ("{person} (Director)", {"{person}", "Director"}),
        ("{day} points", {"{day}"}),
        ("Mar 20{day} – present", {"Mar 20{day}", "present"}),
        ("{day}/2015-06/2019", {"{day}/2015", "06/2019"}),
        ("{person}", set()),
    ],
)
def test_parts_of_a_text_are_columns_too(text: str, parts: set[str]) -> None:
    rows = [[text.format(person=PEOPLE[(n + at) % 8], day=10 + n + at) for at in range(3)] for n in range(4)]
    pages = [
        PageBlocks(f"<h1>{n}</h1><ul>{''.join(f'<li>{one}</li>' for one in row)}</ul>", "http://a.example/")
        for n, row in enumerate(rows)
    ]
    [table] = row_tables(pages, "other")
    found = {one.texts[0] for one in table.columns if one.part}
    assert found >= {part.format(person=PEOPLE[0], day=10) for part in parts}
    assert all(
        quote is None or quote in pages[at].blocks[n - 1].text
        for one in table.columns
        for (at, _), spots in one.cells.items()
        for (n, quote), _ in spots
    )


def test_the_trees_know_the_features_that_there_are() -> None:
    rows = "".join(f"<li><b>{one}</b> said on 3 May 2021</li>" for one in PEOPLE)
    tables = row_tables([PageBlocks(f"<h1>Page</h1><ul>{rows}</ul>", "http://a.example/")], "article")
    fields = [Field("author", group="comments"), Field("date", group="comments")]
    numbers = feature_tables(tables[0], "comments", fields)[0].shape[1]
    [others] = compared([np.zeros((len(fields), len(tables[0].columns)))])
    file = files("llmcrawler.core.understanding.extraction").joinpath("row_columns.npz")
    with np.load(BytesIO(file.read_bytes())) as arrays:
        first, second = (int(arrays[f"{step} feature"].max()) for step in ("first", "second"))
    assert first < numbers <= second < numbers + others[0].shape[1]
