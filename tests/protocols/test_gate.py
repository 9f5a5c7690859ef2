"""Which requests the gate accepts, and in which order it checks them."""

from __future__ import annotations

import pytest

from drawbridge.protocols.gate import BAD_TOKEN, FOREIGN_HOST, FOREIGN_ORIGIN, Gate, Head

TOKEN = "0123456789abcdef0123456789abcdef"
GATE = Gate(TOKEN, "x-token")


def head(*headers: tuple[str, str]) -> Head:
    return Head("GET", "/", headers)


def asked(*, host: str | None = "127.0.0.1", origin: str | None = None, token: str | None = TOKEN) -> Head:
    given = [("host", host), ("origin", origin), ("x-token", token)]
    return head(*[(name, value) for name, value in given if value is not None])


def test_a_local_request_with_the_token_is_accepted() -> None:
    assert GATE.check(asked()) is None


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "127.0.0.1:65535", "localhost:1", "[::1]", "[::1]:80"]
)
def test_every_loopback_name_is_accepted(host: str) -> None:
    assert GATE.check(asked(host=host)) is None


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "evil.example:12345",
        "localhost.evil.example",
        "evil.example#localhost",
        "127.0.0.1.nip.io",
        "127.0.0.2",
        "0.0.0.0",
        "[::]",
        "::1",
        "localhost:",
        "localhost:port",
        "localhost:1:2",
        "user@localhost",
        "localhost.",
        "127.0.0.1, evil.example",
    ],
)
def test_any_other_host_name_is_refused(host: str | None) -> None:
    assert GATE.check(asked(host=host)) is FOREIGN_HOST


def test_two_host_headers_are_refused() -> None:
    assert GATE.check(head(("host", "localhost"), ("host", "localhost"), ("x-token", TOKEN))) is FOREIGN_HOST


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1", "null", ""])
def test_a_web_page_is_refused_even_with_the_token(origin: str) -> None:
    assert GATE.check(asked(origin=origin)) is FOREIGN_ORIGIN


@pytest.mark.parametrize(
    "token", [None, "", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), f"Bearer {TOKEN}", "\udcff" * 32, "ü" * 32]
)
def test_a_token_that_is_not_exactly_right_is_refused(token: str | None) -> None:
    assert GATE.check(asked(token=token)) is BAD_TOKEN


def test_a_token_sent_twice_is_refused_even_if_one_is_right() -> None:
    assert GATE.check(head(("host", "localhost"), ("x-token", "wrong"), ("x-token", TOKEN))) is BAD_TOKEN
    assert GATE.check(head(("host", "localhost"), ("x-token", TOKEN), ("x-token", TOKEN))) is BAD_TOKEN


def test_origin_host_and_token_are_checked_in_this_order() -> None:
    assert GATE.check(asked(origin="https://evil.example", host="evil.example", token=None)) is FOREIGN_ORIGIN
    assert GATE.check(asked(host="evil.example", token=None)) is FOREIGN_HOST


def test_with_a_scheme_the_bare_token_is_not_enough() -> None:
    gate = Gate(TOKEN, "authorization", scheme="Bearer")
    assert gate.check(head(("host", "localhost"), ("authorization", f"Bearer {TOKEN}"))) is None
    assert gate.check(head(("host", "localhost"), ("authorization", TOKEN))) is BAD_TOKEN


def test_a_gate_without_a_token_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="token"):
        Gate("", "x-token")


def test_a_refusal_does_not_contain_the_token() -> None:
    for refusal in (BAD_TOKEN, FOREIGN_HOST, FOREIGN_ORIGIN):
        assert TOKEN not in refusal.reason
