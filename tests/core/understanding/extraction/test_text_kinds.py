"""What short texts are taken for."""

import pytest

from llmcrawler.core.understanding.extraction.text_kinds import text_kind


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("role", "Senior Data Engineer|Head of Marketing|Gärtnerin|Electricista|Chargée de communication"),
        ("person", "Marta Kowalska|Anna-Lena Weber|Dr. Jean Lefèvre|José García López"),
        ("place", "Berlin, Germany|Toulouse, France|Salamanca|Wuppertal"),
        ("company", "Hansen & Sons|Brandt GmbH|Groupe Lacroix SARL|Nordwind Technologies"),
        ("street", "12 rue des Lilas|Hauptstraße 7|41 Mill Road|Calle de Alcalá, 20"),
        ("duration", "45 min|2 Stunden|3 godziny"),
        ("money", "EUR 12,95|ab 12,90 €"),
        ("color", "Dunkelblau|burgundy"),
        ("material", "100% Baumwolle|acier inoxydable"),
        ("level", "facile|schwer|intermediate"),
    ],
)
def test_the_kinds_of_texts_are_told_in_several_languages(kind, texts):
    assert [(text_kind(text) or ("",))[0] for text in texts.split("|")] == [kind] * len(texts.split("|"))


@pytest.mark.parametrize(
    "text",
    [
        "Read more",
        "Contact",
        "Related products",
        "12,95 €",
        "4.5",
        "",
        "-",
        "\ufffd" * 40,
        "a" * 999,
    ],
)
def test_what_pages_say_besides_is_nothing_of_it(text):
    assert text_kind(text) is None


def test_what_a_button_says_is_no_name():
    assert (text_kind("In den Warenkorb") or ("other",))[0] not in {"person", "role", "place", "company", "street"}
