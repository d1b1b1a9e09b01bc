"""Lists of urls and of requests: what comes out of a file, and what is said of one that is wrong."""

import json
from pathlib import Path

import pytest

from llmcrawler.crawl.task_lists import ListedTask, TaskList
from llmcrawler.errors import ConfigError


def listed(tmp_path: Path, kind: str, text: str | bytes) -> list[ListedTask]:
    path = tmp_path / "list"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(TaskList(path, "urls=list", kind))


def tasks(tmp_path: Path, **given: object) -> list[tuple[str, dict[str, object]]]:
    found = listed(tmp_path, "tasks", json.dumps(given))
    return [(one.url, json.loads(one.payload or "{}")) for one in found]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("txt", "\ufeff# those of May\nhttps://a.example/1\r\n\n  b.example:8080/2#part  \n"),
        ("csv", 'name,URL\n"one,\ntwo",https://a.example/1\nthree,b.example:8080/2\n'),
        ("csv", '\ufeffname;"URL"\r\n"one;\r\ntwo";https://a.example/1\r\nthree;b.example:8080/2\r\n'),
        ("jsonl", '{"url": "https://a.example/1", "x": 1}\n{"kind": "template"}\n\n"b.example:8080/2"\n'),
    ],
)
def test_urls_are_read_from_several_kinds_of_file(tmp_path, kind, text):
    assert listed(tmp_path, kind, text) == [ListedTask("https://a.example/1"), ListedTask("https://b.example:8080/2")]


def test_a_task_without_anything_is_a_get_under_its_key(tmp_path):
    assert tasks(tmp_path, a={"url": "a.example/x"}) == [("https://a.example/x", {"key": "a", "method": "GET"})]


def test_a_form_a_json_body_and_a_string_are_posted(tmp_path):
    form = {"q": "süß & sauer", "tag": ["a", "b"], "none": None, "page": 2}
    found = tasks(
        tmp_path,
        form={"url": "a.example", "post_payload": form},
        json={"url": "a.example", "json": {"q": "süß"}, "headers": {"content-type": "application/vnd.x+json"}},
        raw={"url": "a.example", "post_payload": "a=1", "method": "put"},
    )
    assert [(payload["method"], payload["body"], payload["headers"]) for _, payload in found] == [
        (
            "POST",
            "q=s%C3%BC%C3%9F+%26+sauer&tag=a&tag=b&none=&page=2",
            {"Content-Type": "application/x-www-form-urlencoded"},
        ),
        ("POST", '{"q": "süß"}', {"content-type": "application/vnd.x+json"}),
        ("PUT", "a=1", {"Content-Type": "application/x-www-form-urlencoded"}),
    ]


@pytest.mark.parametrize(
    ("kind", "text", "named"),
    [
        ("csv", "name,link\nx,https://a.example\n", "line 1: there is no column url; there are: name, link"),
        ("csv", "", "line 1: there is no column url"),
        ("csv", 'url\n"https://a.example\nhttps://b.example\n', "it is not CSV"),
        ("tasks", "[]", "not a JSON object of tasks by key"),
        ("tasks", '{"a": {"url": "a.example"}, "a": {"url": "b.example"}}', "task 'a': this key occurs twice"),
    ],
)
def test_a_file_whose_rest_cannot_be_read_is_refused(tmp_path, kind, text, named):
    with pytest.raises(ConfigError) as raised:
        listed(tmp_path, kind, text)
    assert named in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "text", "fault"),
    [
        ("txt", "https://a.example/\nftp://b.example/\n", "line 2: url='ftp://b.example/' is not"),
        ("txt", "not a url", "line 1: url='not a url' is not an http or https url"),
        ("txt", "http://u:secret@b b/", "line 1: url='http://b b/' is not"),
        ("txt", b"https://a.example/\n" * 5000 + b"https://\xff.example/\n", "line 5001: it is not UTF-8"),
        ("csv", "url,name\nhttps://a.example\n,x\nhtp:/x,\n", "line 4: url='htp:/x'"),
        ("csv", 'url\n"https://a.example"x\nhttps://b.example\n', "line 2: it is not CSV"),
        ("csv", 'url\n"https://a.example\n', "line 2: it is not CSV"),
        ("jsonl", '{"url": "https://a.example"}\n{"url": \n', "line 2: it is not JSON"),
        ("jsonl", '{"link": "https://a.example"}', "line 1: there is no url"),
        ("jsonl", "[1]", "line 1: url=[1]"),
        ("jsonl", "[" * 100_000, "line 1: "),
        ("tasks", '{"a": "a.example"}', "task 'a': it is not an object with a url"),
        ("tasks", '{"": {"url": "a.example"}}', "task '': a key must not be empty"),
        ("tasks", '{"a": {"link": "a.example"}}', "task 'a': no field 'link'"),
        ("tasks", '{"a": {"method": "GET"}}', "task 'a': there is no url"),
        ("tasks", '{"a": {"url": "a.example", "method": "G T"}}', "task 'a': method='G T'"),
        ("tasks", '{"a": {"url": "a.example", "json": 1, "post_payload": {}}}', "give one of them"),
        ("tasks", '{"a": {"url": "a.example", "post_payload": [1]}}', "task 'a': post_payload=[1]"),
        ("tasks", '{"a": {"url": "a.example", "headers": {"X": "1\\r\\nY: 2"}}}', "headers: X is '1\\r\\nY: 2'"),
        ("tasks", '{"a": {"url": "a.example", "headers": {"X Y": "1"}}}', "headers: 'X Y' is not a valid name"),
        ("tasks", '{"a": {"url": "a.example", "cookies": [1]}}', "cookies=[1]"),
        ("tasks", '{"a": {"url": "a.example", "cookies": {"s": "1; t=2"}}}', "cookies: s is"),
        ("tasks", '{"a": {"url": "a.example", "timeout": "5"}}', "timeout='5'"),
        ("tasks", '{"a": {"url": "a.example", "timeout": 0}}', "timeout=0"),
        ("tasks", '{"a": {"url": "a.example", "country": "Germany"}}', "task 'a': country='Germany' is not a country"),
    ],
)
def test_an_entry_that_cannot_be_fetched_says_why_and_where_it_stands(tmp_path, kind, text, fault):
    (faulty,) = (one for one in listed(tmp_path, kind, text) if one.fault)
    assert fault in faulty.fault
    assert len(faulty.url) <= 2083
    assert faulty.url == faulty.url.strip()
    faulty.url.encode()
    assert "secret" not in faulty.url + faulty.fault


def test_a_long_list_is_read_one_entry_at_a_time(tmp_path):
    path = tmp_path / "list"
    path.write_text("https://a.example/1\nnot a url\n")
    entries = iter(TaskList(path, "urls=list", "txt"))
    assert next(entries) == ListedTask("https://a.example/1")
