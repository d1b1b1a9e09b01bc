from __future__ import annotations

import pytest

from llmcrawler.core.llm.providers import PLACEHOLDER_KEY, ProviderChoice, own_prices, resolve_provider
from llmcrawler.errors import ConfigError

OPENAI = "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("settings", "environ", "expected"),
    [
        ({}, {}, ("none", "", "", "")),
        ({"LLM_PROVIDER": "none"}, {"OPENAI_API_KEY": "k"}, ("none", "", "", "")),
        ({}, {"OPENAI_API_KEY": "k"}, ("openai", OPENAI, "gpt-6-luna", "k")),
        ({"LLM_API_KEY": "own"}, {"OPENAI_API_KEY": "k"}, ("openai", OPENAI, "gpt-6-luna", "own")),
        ({"LLM_MODEL": "gpt-x"}, {"OPENAI_API_KEY": "k"}, ("openai", OPENAI, "gpt-x", "k")),
        ({"LLM_BASE_URL": "http://a:1/v1"}, {}, ("openai", "http://a:1/v1", "", PLACEHOLDER_KEY)),
        ({}, {"LLM_BASE_URL": "http://a:1/v1/"}, ("openai", "http://a:1/v1", "", PLACEHOLDER_KEY)),
        ({"LLM_BASE_URL": "http://a:11434"}, {}, ("openai", "http://a:11434/v1", "", PLACEHOLDER_KEY)),
        ({}, {"OPENAI_BASE_URL": "http://b/v1", "OPENAI_API_KEY": "k"}, ("openai", "http://b/v1", "", "k")),
        (
            {"LLM_BASE_URL": "http://a/v1"},
            {"OPENAI_BASE_URL": "http://b/v1", "LLM_MODEL": "m"},
            ("openai", "http://a/v1", "m", PLACEHOLDER_KEY),
        ),
        (
            {"LLM_PROVIDER": " OpenAI ", "LLM_API_KEY": "k", "LLM_BASE_URL": ""},
            {},
            ("openai", OPENAI, "gpt-6-luna", "k"),
        ),
    ],
)
def test_the_provider_follows_from_settings_and_environment(
    settings: dict[str, str], environ: dict[str, str], expected: tuple[str, str, str, str]
) -> None:
    choice = resolve_provider(settings, environ)
    assert (choice.kind, choice.base_url, choice.model, choice.api_key) == expected


def test_a_model_that_nobody_chose_is_known_as_such() -> None:
    assert not resolve_provider({}, {}).is_chosen
    assert resolve_provider({"LLM_PROVIDER": "none"}, {}).is_chosen
    assert resolve_provider({}, {"OPENAI_API_KEY": "k"}).is_chosen


def test_a_key_of_openai_is_not_sent_to_another_host() -> None:
    choice = resolve_provider({"LLM_BASE_URL": "http://localhost:11434/v1"}, {"OPENAI_API_KEY": "sk-secret"})
    assert choice.api_key == PLACEHOLDER_KEY


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"LLM_PROVIDER": "opnai"}, "LLM_PROVIDER is 'opnai'"),
        ({"LLM_PROVIDER": "openai"}, "LLM_API_KEY"),
        ({"LLM_BASE_URL": "localhost:11434"}, "LLM_BASE_URL is 'localhost:11434'"),
        ({"LLM_BASE_URL": "http://h:99999/v1"}, "LLM_BASE_URL is 'http://h:99999/v1'"),
        ({"LLM_BASE_URL": "ftp://h/v1"}, "LLM_BASE_URL is 'ftp://h/v1'"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(settings: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        resolve_provider(settings, {})


@pytest.mark.parametrize("key", ["sk-one\nsk-two", "sk-sécret", "sk secret"])
@pytest.mark.parametrize("name", ["LLM_API_KEY", "OPENAI_API_KEY"])
def test_a_key_that_was_copied_wrong_is_refused_but_not_shown(name: str, key: str) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        resolve_provider({name: key}, {})
    assert "sk" not in str(caught.value)


def test_prices_are_read_or_refused() -> None:
    assert own_prices({}, {}) == [None, None]
    assert own_prices({"LLM_PRICE_INPUT": 0}, {}) == [0, None]
    assert own_prices({}, {"LLM_PRICE_OUTPUT": "0.25"}) == [None, 0.25]
    for wrong in ("cheap", "-1", "inf", "nan"):
        with pytest.raises(ConfigError, match=f"LLM_PRICE_INPUT is '{wrong}'"):
            own_prices({"LLM_PRICE_INPUT": wrong}, {})


def test_a_choice_shows_no_key() -> None:
    assert "secret" not in repr(ProviderChoice("openai", "http://a/v1", "m", "secret"))
