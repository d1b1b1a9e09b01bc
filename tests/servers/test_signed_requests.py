"""The vectors of RFC 9421 and of draft-ietf-webbotauth-httpsig-protocol: the verifier of the tests agrees with them."""

import pytest

from tests.servers.signed_requests import Message, Refused, check_signature, keys_of

KEYID = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
PUBLIC_X = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"
DIRECTORY = f'{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{KEYID}","x":"{PUBLIC_X}","use":"sig"}}]}}'
KEY = keys_of(DIRECTORY)[KEYID]
AGENT = "https://signature-agent.test"

# RFC 9421, appendix B.2 and B.2.6
RFC_REQUEST = {
    "Host": "example.com",
    "Date": "Tue, 20 Apr 2021 02:07:55 GMT",
    "Content-Type": "application/json",
    "Content-Digest": (
        "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"
    ),
    "Content-Length": "18",
    "Signature-Input": (
        'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length")'
        ';created=1618884473;keyid="test-key-ed25519"'
    ),
    "Signature": "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:",
}
# The draft's vectors, of either form of Signature-Agent
NONCE = "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA=="
DICTIONARY = {
    "Signature-Agent": f'agent2="{AGENT}"',
    "Signature-Input": (
        f'sig2=("@authority" "signature-agent";key="agent2");created=1735689600;keyid="{KEYID}";alg="ed25519"'
        f';expires=4889289600;nonce="{NONCE}";tag="web-bot-auth"'
    ),
    "Signature": "sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:",
}
STRING_NONCE = "e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg=="
STRING = {
    "Signature-Agent": f'"{AGENT}"',
    "Signature-Input": (
        f'sig2=("@authority" "signature-agent");created=1735689600;keyid="{KEYID}";alg="ed25519";expires=1735693200'
        f';nonce="{STRING_NONCE}";tag="web-bot-auth"'
    ),
    "Signature": "sig2=:jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==:",
}
DIRECTORY_ANSWER = {
    "Content-Digest": "sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:",
    "Signature-Input": (
        'binding=("@authority";req "content-digest");created=1735689600;expires=4889289600'
        f';keyid="{KEYID}";tag="http-message-signatures-directory"'
    ),
    "Signature": "binding=:l6P8R67tm3kujAxbHWio7ll01qrEZ0dKD/WWlGhNYEmTnFZM8Wt0VQ9zqGfvo7T/UMkBxsigzChM1Gpz7gOVBg==:",
}


def test_the_vector_of_the_rfc_verifies_and_nothing_else_does():
    message = Message("POST", "example.com", "/foo?param=Value&Pet=dog", RFC_REQUEST)
    assert check_signature(message, "sig-b26", KEY).number("created") == 1618884473
    for wrong in (
        Message("PUT", "example.com", "/foo?param=Value&Pet=dog", RFC_REQUEST),
        Message("POST", "example.org", "/foo?param=Value&Pet=dog", RFC_REQUEST),
        Message("POST", "example.com", "/bar", RFC_REQUEST),
        Message("POST", "example.com", "/foo", RFC_REQUEST | {"Content-Length": "19"}),
    ):
        with pytest.raises(Refused, match="wrong signature"):
            check_signature(wrong, "sig-b26", KEY)


@pytest.mark.parametrize("headers", [DICTIONARY, STRING], ids=["dictionary", "string"])
def test_the_signatures_of_the_draft_verify(headers):
    assert check_signature(Message("GET", "example.com", "/path/to/resource", headers), "sig2", KEY)
    with pytest.raises(Refused, match="wrong signature"):
        check_signature(Message("GET", "example.org", "/path/to/resource", headers), "sig2", KEY)


def test_the_signed_directory_of_the_draft_verifies():
    asked = Message("GET", "signature-agent.test", "/.well-known/http-message-signatures-directory", {})
    answer = Message("", "", "", DIRECTORY_ANSWER, asked)
    assert check_signature(answer, "binding", KEY).parameter("tag") == "http-message-signatures-directory"
