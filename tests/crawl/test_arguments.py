from pathlib import Path
from typing import ClassVar

import pytest

from llmcrawler.crawl.arguments import ExploreOptions, ExtractOptions, MapOptions
from llmcrawler.errors import ConfigError


def test_defaults():
    options = ExploreOptions.of({"url": "https://example.com"})
    assert options == ExploreOptions(url=("https://example.com/",), max_pages=500, depth=None, given=options.given)
    options = ExploreOptions.of({"url": "https://example.com", "max_pages": "7", "force": "all", "_job": "1"})
    assert options.given == {"url": "https://example.com", "max_pages": "7"}


def test_several_urls_and_a_file_of_urls(tmp_path: Path):
    listed = tmp_path / "urls.txt"
    listed.write_text("# a comment\nhttps://c.example/x\n\nhttps://a.example/\n")
    options = ExploreOptions.of({"url": "https://a.example, b.example", "urls": str(listed)})
    assert options.urls == ("https://a.example/", "https://b.example/", "https://c.example/x")


def test_arguments_of_others_are_ignored():
    assert ExploreOptions.of({"url": "https://example.com", "_job": "26"}).urls == ("https://example.com/",)


@pytest.mark.parametrize(
    ("options", "arguments", "named"),
    [
        (ExploreOptions, {"url": ""}, "-a url="),
        (ExploreOptions, {"url": " , "}, "-a url="),
        (ExploreOptions, {"url": "ftp://example.com"}, "ftp://example.com"),
        (ExploreOptions, {"url": "https://exa mple.com"}, "exa mple"),
        (ExploreOptions, {"max_pages": "many"}, "max_pages='many'"),
        (ExploreOptions, {"max_pages": "0"}, "max_pages=0"),
        (ExploreOptions, {"max_pages": "9" * 23}, f"max_pages={'9' * 23} is too large: at most 10"),
        (ExploreOptions, {"max_pages": 10**23}, "is too large"),
        (ExploreOptions, {"depth": "9" * 5000}, f"depth={'9' * 20}... is too large"),
        (ExploreOptions, {"depth": "-1"}, "depth=-1"),
        (ExploreOptions, {"allow": "("}, "allow='('"),
        (ExploreOptions, {"deny": "*"}, "deny='*'"),
        (ExploreOptions, {"page_types": "/no/such/file"}, "page_types=/no/such/file"),
        (ExploreOptions, {"urls": "/no/such/file"}, "urls=/no/such/file"),
        (ExploreOptions, {"max_page": "5"}, "no argument 'max_page': did you mean max_pages?"),
        (ExploreOptions, {"max_records": "5"}, "-a goal="),
        (ExploreOptions, {"colour": "red"}, "no argument 'colour': there are url, urls, max_pages,"),
        (MapOptions, {"max_url": "5"}, "did you mean max_urls?"),
        (MapOptions, {"render": "always"}, "render='always': a map needs no browser"),
        (MapOptions, {"max_urls": "0"}, "max_urls"),
        (MapOptions, {"match": "("}, "match"),
        (MapOptions, {"subdomains": "perhaps"}, "subdomains"),
        (MapOptions, {"force": "all"}, "force"),
        (MapOptions, {"refresh": "1"}, "refresh"),
        (ExtractOptions, {"url": "", "max_pages": "5"}, "max_pages='5': give the list to fetch with"),
        (ExtractOptions, {"url": "", "warc": "/no/such.warc.gz"}, "it cannot be read: No such file"),
        (ExtractOptions, {"url": "", "warc": "a", "urls": "b"}, "several lists: give one of them"),
        (ExtractOptions, {"url": "", "warc": __file__}, "it is not a WARC file: it does not begin as a WARC"),
        (ExtractOptions, {"url": "", "warc": __file__, "render": "always"}, "nothing is fetched"),
    ],
)
def test_a_wrong_or_unknown_argument_is_named_with_its_value_or_the_near_one(options, arguments, named):
    with pytest.raises(ConfigError) as raised:
        options.of({"url": "https://example.com", **arguments})
    assert named in str(raised.value)


@pytest.mark.parametrize("url", ["http://u:hunter2@exa mple/", "u:hunter2@a..b"])
def test_a_password_in_a_wrong_url_is_not_shown(url):
    with pytest.raises(ConfigError) as raised:
        ExploreOptions.of({"url": url})
    assert "hunter2" not in str(raised.value)


def test_a_list_is_the_same_by_its_name_and_content(tmp_path: Path):
    def identity(folder: str, text: str) -> dict[str, object]:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "tasks.json").write_text(text)
        return ExtractOptions.of({"tasks": str(tmp_path / folder / "tasks.json")}).identity()

    known = identity("a", '{"k": {"url": "a.example"}}')
    assert identity("b", '{"k": {"url": "a.example"}}') == known
    assert identity("b", '{"k": {"url": "b.example"}}') != known
    assert str(known["tasks"]).startswith("tasks.json (")


@pytest.mark.parametrize("options", [ExploreOptions, ExtractOptions, MapOptions])
def test_bad_entries_of_a_list_are_counted_and_a_list_of_them_alone_is_refused(tmp_path, options):
    listed = tmp_path / "urls.txt"
    listed.write_text("not a url\nhttps://a.example/\nftp://b.example\n")
    given = options.of({"urls": str(listed)})
    assert given.urls == ("https://a.example/",)
    assert "2 of 3 entries cannot be fetched, and each gets a line" in given.list_fault
    assert "as line 1: url='not a url'" in given.list_fault
    listed.write_text("not a url\n")
    with pytest.raises(ConfigError, match=r"urls\.txt: line 1: url='not a url'"):
        options.of({"urls": str(listed)})
    listed.write_text("# nothing\n")
    with pytest.raises(ConfigError, match="there is nothing in it to fetch"):
        options.of({"urls": str(listed)})


def test_start_urls_come_from_the_same_kinds_of_files_as_lists(tmp_path):
    listed = tmp_path / "urls.csv"
    listed.write_text("name,url\nx,https://a.example/\n")
    assert ExploreOptions.of({"urls": str(listed)}).urls == ("https://a.example/",)


def test_of_a_long_list_one_url_of_each_host_is_kept_and_the_rest_is_read_when_it_is_wanted(tmp_path: Path):
    listed = tmp_path / "urls.txt"
    listed.write_text("".join(f"https://{n % 3}.example/{n}\n" for n in range(30)))
    options = ExtractOptions.of({"urls": str(listed)})
    assert options.urls == ("https://0.example/0", "https://1.example/1", "https://2.example/2")
    assert len(list(options.listed)) == 30


def test_a_map_has_arguments_of_its_own():
    options = MapOptions.of(
        {"url": "https://a.example", "max_urls": "7", "match": "/p/", "subdomains": "1", "depth": "2"}
    )
    assert (options.max_urls, options.match, options.subdomains, options.depth) == (7, "/p/", True, 2)
    assert options.identity() == {**options.identity(), "max_urls": 7, "match": "/p/", "subdomains": True}
    assert MapOptions.of({"url": "https://a.example"}).max_urls == 30_000


def test_a_subclass_has_arguments_of_its_own_that_are_no_slips():
    class ShopOptions(ExploreOptions):
        own: ClassVar[frozenset[str]] = frozenset({"urls_of"})

    options = ShopOptions.of({"url": "https://a.example", "urls_of": "x", "colour": "red"})
    assert options.urls == ("https://a.example/",)
    with pytest.raises(ConfigError, match="did you mean max_pages"):
        ShopOptions.of({"url": "https://a.example", "max_page": "5"})


@pytest.mark.parametrize("options", [ExploreOptions, ExtractOptions, MapOptions])
def test_every_argument_has_a_description_for_help_texts(options):
    assert all(one.description for one in options.arguments().values())
    assert ("url" in options.arguments()) is (options is not ExtractOptions)


def test_values_of_python_are_taken_as_they_are():
    options = ExploreOptions.of({"url": "https://a.example", "max_pages": 7, "depth": 0, "refresh": True})
    assert (options.max_pages, options.depth, options.refresh) == (7, 0, True)
