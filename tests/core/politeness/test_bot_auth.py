"""Signed requests: what a server and a second implementation of RFC 9421 make of them."""

import base64
import json
import os
import stat
import time
import traceback
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from http_message_signatures import InvalidSignature

from llmcrawler.core.politeness.bot_auth import (
    DIRECTORY_NAME,
    BotKey,
    RequestSigner,
    authority_of,
    check_agent,
    directory_headers,
    directory_of,
    read_key_file,
    resolve_signer,
    signature_fields,
    write_key_file,
)
from llmcrawler.core.urls import Scope
from llmcrawler.crawl.context import CrawlContext
from llmcrawler.crawl.credentials import Credentials
from llmcrawler.errors import ConfigError
from tests.servers.verifying_site import verifier_of, verify_request

# RFC 9421, appendix B.1.4: known to everybody
TEST_KEY = BotKey(
    Ed25519PrivateKey.from_private_bytes(base64.urlsafe_b64decode("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU="))
)
# The vectors of draft-ietf-webbotauth-httpsig-protocol, of the same key
KEYID = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
PUBLIC_X = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"
DIRECTORY = f'{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{KEYID}","x":"{PUBLIC_X}","use":"sig"}}]}}'
DIRECTORY_ANSWER = {
    "Content-Digest": "sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:",
    "Signature-Input": (
        'binding=("@authority";req "content-digest");created=1735689600;expires=4889289600'
        f';keyid="{KEYID}";tag="http-message-signatures-directory"'
    ),
    "Signature": "binding=:l6P8R67tm3kujAxbHWio7ll01qrEZ0dKD/WWlGhNYEmTnFZM8Wt0VQ9zqGfvo7T/UMkBxsigzChM1Gpz7gOVBg==:",
}
AGENT = "https://bot.example/.well-known/http-message-signatures-directory"
NOW = 1_800_000_000
URL = "https://shop.example/lamps/1?colour=red"


@pytest.fixture
def key():
    return BotKey.generate()


def signer_at(key, seconds=NOW, **more):
    return RequestSigner(key, AGENT, clock=lambda: seconds + 0.9, **more)


@pytest.mark.parametrize("as_string", [False, True])
@pytest.mark.parametrize(
    "url",
    [
        URL,
        "https://SHOP.example:443",
        "http://shop.example:8080/a;b=c/%C3%A9?x=//y",
        "http://[::1]:80//two",
        "http://127.0.0.1:8080/a?x=//y",
    ],
)
def test_a_second_implementation_agrees(key, as_string, url):
    server = verifier_of(directory_of([BotKey.generate(), key]))
    signed = RequestSigner(key, AGENT, as_string).headers("POST", url)
    found = verify_request(server, "POST", url, signed, AGENT)
    assert found.parameters["keyid"] == key.thumbprint
    for method, other in (("POST", url.replace("://", "://evil-")), ("GET", url), ("POST", "https://shop.example/1")):
        with pytest.raises(InvalidSignature):
            verify_request(server, method, other, signed, AGENT)


def test_the_fields_have_the_form_of_the_draft(key):
    signed = signer_at(key, nonce=lambda: "n0nce").headers("GET", URL)
    assert signed["Signature-Agent"] == f'sig1="{AGENT}"'
    assert signed["Signature-Input"] == (
        'sig1=("@method" "@authority" "@path" "signature-agent";key="sig1")'
        f';created={NOW};expires={NOW + 60};keyid="{key.thumbprint}";alg="ed25519";nonce="n0nce";tag="web-bot-auth"'
    )
    assert len(base64.b64decode(signed["Signature"].removeprefix("sig1=:").removesuffix(":"))) == 64


def test_each_request_is_signed_anew(key):
    signer = signer_at(key)
    assert signer.headers("GET", URL)["Signature"] != signer.headers("GET", URL)["Signature"]


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://Example.COM/", "example.com"),
        ("https://example.com:443/", "example.com"),
        ("http://example.com:443/", "example.com:443"),
        ("http://user:password@example.com:80/", "example.com"),
        ("http://[2001:DB8::1]:8080/", "[2001:db8::1]:8080"),
        ("data:text/plain,a", ""),
    ],
)
def test_an_authority_has_one_spelling(url, authority):
    assert authority_of(url) == authority


@pytest.mark.parametrize(
    ("url", "is_signed"),
    [
        ("https://shop.example/lamps", True),
        ("http://WWW.shop.example:80/robots.txt", True),
        ("https://moved.example/", True),
        ("https://shop.example:8443/", False),
        ("https://cdn.shop.example/lib.js", False),
        ("https://shop.example.evil.test/", False),
        ("https://evil.test/?https://shop.example/", False),
        ("https://shop.example@evil.test/", False),
        ("data:text/plain,https://shop.example/", False),
    ],
)
def test_hosts_outside_of_the_crawl_get_no_signature(key, url, is_signed):
    scope = Scope(["https://shop.example/"])
    scope.widen("https://moved.example/")
    crawl: Any = SimpleNamespace(
        signer=signer_at(key), admission=SimpleNamespace(scope=scope), credentials=Credentials({}, (), ())
    )
    assert bool(CrawlContext.headers_when_sent(crawl, "GET", url)) is is_signed
    crawl.signer = None
    assert not CrawlContext.headers_when_sent(crawl, "GET", url)


# -- the directory ------------------------------------------------------------------------------------------------


def test_a_directory_has_the_public_part_alone(key):
    other = BotKey.generate()
    listed = json.loads(directory_of([key, other]))["keys"]
    assert [one["kid"] for one in listed] == [key.thumbprint, other.thumbprint]
    assert {frozenset(one) for one in listed} == {frozenset(("kty", "crv", "kid", "x", "use"))}
    assert directory_of([TEST_KEY]).decode() == DIRECTORY + "\n"
    assert TEST_KEY.thumbprint == KEYID


def test_the_signed_directory_of_the_draft_is_made_again():
    covered = {'"@authority";req': "signature-agent.test", '"content-digest"': DIRECTORY_ANSWER["Content-Digest"]}
    tag = "http-message-signatures-directory"
    made = signature_fields(TEST_KEY, "binding", covered, created=1735689600, expires=4889289600, tag=tag)
    assert {"Content-Digest": DIRECTORY_ANSWER["Content-Digest"], **made} == DIRECTORY_ANSWER


def test_the_headers_of_a_directory_are_signed_by_each_of_its_keys(key):
    keys, now = [key, BotKey.generate()], int(time.time())
    headers = directory_headers(keys, "bot.example", created=now, days=90)
    assert headers["Content-Type"] == f"application/{DIRECTORY_NAME}+json"
    server = verifier_of(directory_of(keys))
    asked = SimpleNamespace(method="GET", url=AGENT, headers={})
    answer = SimpleNamespace(status_code=200, headers=headers, request=asked)
    found = server.verify(answer, expect_tag=DIRECTORY_NAME)
    assert [one.parameters["keyid"] for one in found] == [one.thumbprint for one in keys]
    assert {one.parameters["expires"] for one in found} == {now + 90 * 86_400}
    asked.url = AGENT.replace("bot.", "evil.")
    with pytest.raises(InvalidSignature):
        server.verify(answer, expect_tag=DIRECTORY_NAME)


# -- files and settings -------------------------------------------------------------------------------------------


def pem_of(private, encryption=None):
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())


def kept(tmp_path, text, mode=0o600):
    file = tmp_path / "bot.pem"
    file.write_bytes(text)
    file.chmod(mode)
    return file


def test_a_key_file_is_its_owners_alone_and_is_never_overwritten(tmp_path, key):
    file = tmp_path / "bot.pem"
    before = os.umask(0)
    try:
        write_key_file(file, key)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_key_file(file).thumbprint == key.thumbprint
    with pytest.raises(FileExistsError):
        write_key_file(file, BotKey.generate())
    assert read_key_file(file).thumbprint == key.thumbprint


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o777])
def test_a_key_that_others_can_read_is_refused(tmp_path, key, mode):
    with pytest.raises(ConfigError, match=r"BOT_AUTH_KEY: .*bot\.pem: other users can read .*: chmod 600 .*bot\.pem"):
        resolve_signer(str(kept(tmp_path, key.pem, mode)), "", AGENT)


WRONG_KEYS = {
    "text": lambda: b"n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU",
    "empty": lambda: b"",
    "no base64": lambda: b"-----BEGIN PRIVATE KEY-----\nn4Ni-HpISpVO\n-----END PRIVATE KEY-----\n",
    "bytes": lambda: b"\xff\x00-----BEGIN",
    "RSA": lambda: pem_of(generate_private_key(65537, 2048)),
    "a password": lambda: pem_of(Ed25519PrivateKey.generate(), BestAvailableEncryption(b"secret")),
}


@pytest.mark.parametrize("kind", WRONG_KEYS)
def test_what_is_no_key_is_refused_without_telling_it(tmp_path, kind):
    text = WRONG_KEYS[kind]()
    with pytest.raises(ConfigError, match=r"BOT_AUTH_KEY: .*not an Ed25519 private key in PEM") as caught:
        resolve_signer(str(kept(tmp_path, text)), "", AGENT)
    assert "n4Ni" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("key_setting", "agent", "says"),
    [
        (
            "no/such.pem",
            AGENT,
            "BOT_AUTH_KEY: its file cannot be read: No such file or directory: scrapy keys new FILE",
        ),
        ("/", AGENT, "BOT_AUTH_KEY: its file cannot be read: Is a directory"),
        ("~nobody-of-that-name/bot.pem", AGENT, "BOT_AUTH_KEY: "),
        ("bot.pem", "", "BOT_AUTH_KEY: without BOT_AUTH_AGENT"),
        ("", AGENT, f"BOT_AUTH_AGENT={AGENT}: there is no BOT_AUTH_KEY: scrapy keys new FILE"),
    ],
)
def test_half_of_a_name_is_refused(key_setting, agent, says):
    with pytest.raises(ConfigError, match=says):
        resolve_signer(key_setting, "", agent)


def test_a_key_itself_goes_into_the_environment_alone(key):
    pem = key.pem.decode()
    with pytest.raises(ConfigError, match=r"BOT_AUTH_KEY: .*environment variable") as caught:
        resolve_signer(pem, "", AGENT)
    assert pem.splitlines()[1] not in str(caught.value)
    for written in (pem, pem.replace("\n", "\\n")):
        signer = resolve_signer("", written, AGENT)
        assert signer is not None
        assert signer.key.thumbprint == key.thumbprint


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("end", ["", "\0"])
def test_a_key_in_another_form_is_not_shown(key, times, end):
    seed = base64.urlsafe_b64encode(key._private.private_bytes_raw()).decode() * times
    for given in ((seed + end, ""), ("", seed + end)):
        with pytest.raises(ConfigError, match="BOT_AUTH_KEY: ") as caught:
            resolve_signer(given[0], given[1], AGENT)
        shown = "".join(traceback.format_exception(caught.value))
        assert seed[:20] not in shown


def test_nothing_signs_by_default_and_a_path_may_stand_in_the_environment(tmp_path, key):
    assert resolve_signer("", "", "") is None
    signer = resolve_signer("", str(kept(tmp_path, key.pem)), AGENT, as_string=True)
    assert signer is not None
    assert (signer.agent, signer.as_string, signer.key.thumbprint) == (AGENT, True, key.thumbprint)


@pytest.mark.parametrize(
    ("agent", "sent"),
    [
        (AGENT, AGENT),
        ("https://Bot.Example:443/keys.json#there", "https://bot.example/keys.json"),
        ("https://bot.example", "https://bot.example"),
        ("https://bücher.example:8443/", "https://xn--bcher-kva.example:8443"),
        ('https://bot.example/a"b\\', "https://bot.example/a%22b/"),
        ("http://bot.example/keys.json", None),
        ("bot.example", None),
        ("https://", None),
        ('https://bot"example', None),
    ],
)
def test_an_agent_is_an_https_url(agent, sent):
    if sent is not None:
        assert check_agent(agent) == sent
        return
    with pytest.raises(
        ConfigError, match=r"BOT_AUTH_AGENT=.*: it is an https url, as https://bot\.example/\.well-known/"
    ):
        check_agent(agent)


def test_no_text_of_a_signer_tells_its_key(key):
    signer = signer_at(key)
    raw = key._private.private_bytes_raw()
    shown = f"{signer!r} {signer} {key!r} {vars(key)}"
    for secret in (raw.hex(), base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode(), repr(raw)):
        assert secret not in shown
