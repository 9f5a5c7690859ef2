"""JSON with only the C part of the standard library's module, because ``import json`` takes as long as starting the
interpreter (measured).
"""

from _json import encode_basestring_ascii, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Options:
    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(name: str) -> "Any":
        raise ValueError(f"{name} is not JSON")


_scan = make_scanner(_Options)  # type: ignore[arg-type]  # typeshed declares the context as a scanner

WHITESPACE = " \t\r\n"


def parse(data: bytes) -> "Any":
    """The value of one JSON text in UTF-8. Raises ``ValueError`` if ``data`` is anything else or nested too deeply."""
    text = data.decode().strip(WHITESPACE)
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):  # SystemError: the scanner needs json's own error, which is not loaded (3.11)
        raise ValueError("invalid syntax") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if end != len(text):
        raise ValueError("more than one JSON text")
    return value


def dump(value: "Any") -> str:
    """``value`` as JSON in ASCII, which no pipe's encoding can change. Accepts tuples and what ``parse`` returns,
    except infinity.
    """
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ",".join(encode_basestring_ascii(key) + ":" + dump(item) for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(dump, value)) + "]"
    return repr(value)
