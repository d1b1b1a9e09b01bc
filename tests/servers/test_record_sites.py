"""The sites say what their truth says."""

import re
from collections import Counter
from html import unescape

import pytest
from lxml import html as lxml_html

from tests.servers.record_sites import REDESIGNED, SITES, make_site

DESIGNS = [(name, False) for name in SITES] + [(name, True) for name in REDESIGNED]


def fold(text):
    return " ".join(text.split())


def texts_of(page):
    """All text nodes, element texts and attributes of a page."""
    root = lxml_html.document_fromstring(page.html)
    found = {fold(unescape(str(value))) for element in root.iter() for value in element.attrib.values()}
    found |= {fold(script.text or "") for script in root.iter("script")}
    for element in root.iter(lxml_html.etree.Element):
        found.add(fold("".join(map(str, element.itertext()))))
        found |= {fold(node) for node in (element.text, *(child.tail for child in element)) if node}
    return found


def scalars(value):
    if isinstance(value, list):
        return [inner for one in value for inner in scalars(one)]
    if isinstance(value, dict):
        return [inner for one in value.values() for inner in scalars(one)]
    return [] if value is None else [value]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "redesign"), DESIGNS)
def test_the_truth_is_on_the_page(name, redesign):
    for page in make_site(name, redesign=redesign).records:
        texts = texts_of(page)
        for field, value in page.fields.items():
            for one in scalars(value):
                for part in getattr(one, "parts", ()) or (one,):
                    whole = re.compile(rf"(?<!\w){re.escape(fold(part))}(?!\w)")
                    assert any(whole.search(text) for text in texts), (page.path, field, part)


@pytest.mark.parametrize("name", REDESIGNED)
def test_a_redesign_has_the_same_data_at_the_same_paths_in_other_html(name):
    before, after = make_site(name), make_site(name, redesign=True)
    assert before.truth() == after.truth()
    assert not {page.html for page in before.records} & {page.html for page in after.records}


@pytest.mark.parametrize(("name", "redesign"), DESIGNS)
def test_links_lead_to_all_pages_and_every_page_differs(name, redesign):
    pages = {page.path: page.html for page in make_site(name, redesign=redesign).pages}
    todo, seen = ["/"], {"/"}
    while todo:
        for link in re.findall(r'href="([^"#]+)', pages[todo.pop()]):
            path = unescape(link)
            if path in pages and path not in seen:
                seen.add(path)
                todo.append(path)
    assert seen == set(pages)
    assert len(set(pages.values())) == len(pages)


@pytest.mark.parametrize("name", SITES)
def test_there_are_enough_pages_and_some_lack_some_fields(name):
    site = make_site(name)
    assert 30 <= len(site.records) <= 60
    filled = Counter(field for page in site.records for field, value in page.fields.items() if value)
    assert all(count >= 5 for count in filled.values())
    if name not in ("forum", "cards"):
        assert min(filled.values()) < len(site.records)
