"""One request to one Neovim, as bytes: the part of msgpack-RPC that the guard needs, with JSON inside. Does no I/O.

``nvim_get_mode`` goes first, since Neovim answers it even while it waits at a prompt; then ``nvim_exec_lua``, which it
answers as soon as it can. The Lua is in ``lua/``. docs/internals/protocols/guard.md describes the methods.
"""

from drawbridge.guard import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GET_MODE = b"\x94\x00\x01\xadnvim_get_mode\x90"
EXEC_LUA = b"\x94\x00\x02\xadnvim_exec_lua\x92"
MODE_ID, LUA_ID = 1, 2
RESPONSE = 1
MESSAGE = b"\x93\x94"
"""The possible first bytes of a message: a list of three or four elements."""

DEEPEST = 32

# Neovim compiles the Lua once, and later requests of the same kind find it there. `...` is the key, the method and its
# params.
FIND = "local run = (_G.__drawbridge_code or {})[(...)] if run then return run(select(2, ...)) end"
KEEP = """local key, code = (...), _G.__drawbridge_code
if not code or vim.tbl_count(code) > 20 then code = {} end
_G.__drawbridge_code = code
code[key] = function(...)
%s
end
return code[key](select(2, ...))"""


def request(key: str, method: str, params: str) -> bytes:
    """A request that calls the code that Neovim stored as ``key``; ``params`` is JSON. If Neovim does not have the
    code, ``AnswerReader.lacks`` becomes true.
    """
    return GET_MODE + _lua(FIND, key, method, params)


def full_request(code: str, key: str, method: str, params: str) -> bytes:
    """The same request, but with the Lua, which Neovim then stores as ``key``. It is sent after ``request`` if Neovim
    lacks the code."""
    return _lua(KEEP % code, key, method, params)


def _lua(code: str, key: str, method: str, params: str) -> bytes:
    return EXEC_LUA + _string(code) + b"\x93" + _string(key) + _string(method) + _string(params)


def _string(text: str) -> bytes:
    data = text.encode()
    return b"\xdb" + len(data).to_bytes(4, "big") + data


class AnswerReader:
    """Reads the answer on one connection. ``answer`` is set once it is complete. ``blocked``: whether Neovim waits at a
    prompt, None until Neovim has reported it. ``lacks``: whether Neovim does not have the Lua yet, so that
    ``full_request`` has to be sent.
    """

    __slots__ = ("_data", "answer", "blocked", "lacks")

    def __init__(self) -> None:
        self._data = b""
        self.answer: Any = None
        self.blocked: bool | None = None
        self.lacks = False

    def receive(self, data: bytes) -> bool:
        """Returns whether the answer is complete. Raises ``ValueError`` for invalid data, and if Neovim reports an
        error.
        """
        self._data += data
        at = 0
        try:
            while True:
                if self._data[at] not in MESSAGE:
                    raise ValueError("not a msgpack-RPC message")
                message, at = decode(self._data, at)
                if self._handle(message):
                    return True
        except IndexError:
            self._data = self._data[at:]
            return False

    def _handle(self, message: "list[Any]") -> bool:
        if message[0] != RESPONSE:
            return False  # a broadcast notification
        if len(message) != 4:
            raise ValueError("not a msgpack-RPC message")
        _, number, error, result = message
        if number == MODE_ID:
            self.blocked = isinstance(result, dict) and result.get("blocking") is True
            return False
        if number == LUA_ID and error is None and result is None and not self.lacks:
            self.lacks = True
            return False
        if number != LUA_ID or error is not None or not isinstance(result, str):
            raise ValueError(f"Neovim failed: {str(error)[:300]}")
        self.answer = json_text.parse(result.encode())
        return True


def decode(data: bytes, at: int, depth: int = 0) -> "tuple[Any, int]":
    """One msgpack value and the position after it. Raises ``IndexError`` for missing data, ``ValueError`` for invalid data."""
    kind = data[at]
    at += 1
    if kind < 0x80:
        return kind, at
    if kind >= 0xE0:
        return kind - 0x100, at
    if kind < 0x90:
        return _map(data, at, kind & 0x0F, depth)
    if kind < 0xA0:
        return _array(data, at, kind & 0x0F, depth)
    if kind < 0xC0:
        return _text(data, at, kind & 0x1F)
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at
    if kind not in _SIZES:
        raise ValueError("not valid msgpack")
    width, what = _SIZES[kind]
    number = int.from_bytes(_bytes(data, at, width), "big", signed=what == "signed")
    at += width
    if what == "text":
        return _text(data, at, number)
    if what == "array":
        return _array(data, at, number, depth)
    if what == "map":
        return _map(data, at, number, depth)
    if what == "skip":
        _bytes(data, at, number + 1)
        return None, at + number + 1
    if what == "skipped":
        return None, at
    return number, at


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}

# For each kind, the size of its number in bytes, and the meaning of the number. Floats and extension values are
# skipped.
_SIZES = {
    0xC4: (1, "text"), 0xC5: (2, "text"), 0xC6: (4, "text"), 0xD9: (1, "text"), 0xDA: (2, "text"), 0xDB: (4, "text"),
    0xC7: (1, "skip"), 0xC8: (2, "skip"), 0xC9: (4, "skip"), 0xCA: (4, "skipped"), 0xCB: (8, "skipped"),
    0xCC: (1, "number"), 0xCD: (2, "number"), 0xCE: (4, "number"), 0xCF: (8, "number"),
    0xD0: (1, "signed"), 0xD1: (2, "signed"), 0xD2: (4, "signed"), 0xD3: (8, "signed"),
    0xD4: (2, "skipped"), 0xD5: (3, "skipped"), 0xD6: (5, "skipped"), 0xD7: (9, "skipped"), 0xD8: (17, "skipped"),
    0xDC: (2, "array"), 0xDD: (4, "array"), 0xDE: (2, "map"), 0xDF: (4, "map"),
}  # fmt: skip


def _bytes(data: bytes, at: int, count: int) -> bytes:
    if at + count > len(data):
        raise IndexError
    return data[at : at + count]


def _text(data: bytes, at: int, count: int) -> "tuple[str, int]":
    return _bytes(data, at, count).decode(errors="surrogateescape"), at + count


def _array(data: bytes, at: int, count: int, depth: int) -> "tuple[list[Any], int]":
    if depth > DEEPEST:
        raise ValueError("nested too deeply")
    items = []
    for _ in range(count):
        item, at = decode(data, at, depth + 1)
        items.append(item)
    return items, at


def _map(data: bytes, at: int, count: int, depth: int) -> "tuple[dict[Any, Any], int]":
    items, at = _array(data, at, 2 * count, depth)
    try:
        return dict(zip(items[::2], items[1::2], strict=True)), at
    except TypeError:
        raise ValueError("a map has a key of a type that is not supported") from None
