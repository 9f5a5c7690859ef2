"""The sockets of this user's editors and agent servers.

Sockets are found by a search, not by computing their names. Every socket of this user that may belong to an editor
receives the request, whatever directory the editor was started in, since only the file that an agent wants to change
matters. Names, as seen on Linux (Neovim 0.7.2 to 0.12.4) and in docs/internals/protocols/guard.md::

    /tmp/<64 hex>-<pid>.sock                     drawbridge nvim
    /tmp/<64 hex>-vscode-<pid>.sock              the VS Code extension
    $XDG_RUNTIME_DIR/nvim.<pid>.<n>              Neovim itself (0.8 and newer)
    $TMPDIR/nvim.<user>/<6 letters>/nvim.<pid>.<n>   the same without a runtime directory
    $TMPDIR/nvim<6 letters>/0                    Neovim 0.7
    <word>.<pid>.<n>, <word>.<user>/…            the same if $NVIM_APPNAME is that word (0.10 and newer)
    $NVIM                                        the Neovim in whose terminal the agent runs

For the agent server's private socket see ``servers``.
"""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NEOVIM = "neovim"
VSCODE = "vscode"

HASH_LENGTH = 64
HEX = "0123456789abcdef"
SOCKET = 0o140000
DIRECTORY = 0o040000
FILE_TYPE = 0o170000

WAITING = ".waiting"
"""The extension of a file next to the server's socket, which is named after a session that the server stored text
for. Hooks of other sessions do not wait for an answer."""


def sockets(places: "tuple[str, ...] | None", environ: "Mapping[bytes, bytes]") -> "list[tuple[str, str]]":
    """The path and kind (``NEOVIM`` or ``VSCODE``) of each of the user's editor sockets.

    ``places``: the directories to search instead of the usual ones; ``$NVIM`` is always included.
    """
    me = posix.geteuid()
    found = {}
    for path in _candidates(places, environ, me):
        if path not in found and is_own_socket(path, me):
            found[path] = VSCODE if "-vscode-" in path.rpartition("/")[2] else NEOVIM
    return list(found.items())


def usual_places(environ: "Mapping[bytes, bytes]", me: int) -> "tuple[str, ...]":
    """The directories that are searched for editor sockets unless the user has set others. ``me``: the user's ID."""
    named = (_text(environ, name).rstrip("/") for name in (b"TMPDIR", b"XDG_RUNTIME_DIR"))
    return tuple(dict.fromkeys(["/tmp", *filter(None, named), f"/run/user/{me}"]))


def servers(environ: "Mapping[bytes, bytes]") -> "list[str]":
    """Sockets of this user's agent servers, newest first (``transport.private_socket`` defines their names).

    Empty if the directory is not this user's, or is open to other users.
    """
    place = server_directory(environ)
    names = sorted((name for name in _names(place) if name.endswith(".sock")), reverse=True)
    if not names:
        return []
    me = posix.geteuid()
    try:
        status = posix.lstat(place)
    except OSError:
        return []
    if status.st_uid != me or status.st_mode & 0o077 or status.st_mode & FILE_TYPE != DIRECTORY:
        return []
    return [path for path in (f"{place}/{name}" for name in names) if is_own_socket(path, me)]


def server_directory(environ: "Mapping[bytes, bytes]") -> str:
    """The directory with the sockets of this user's agent servers. It may not exist."""
    state = _text(environ, b"XDG_STATE_HOME")
    if not state.startswith("/"):
        state = _text(environ, b"HOME") + "/.local/state"
    return f"{state}/drawbridge/serve"


def is_own_socket(path: str, me: int) -> bool:
    """Whether ``path`` is a socket that belongs to user ``me``. Any user may put one into a shared directory."""
    try:
        status = posix.lstat(path)
    except (OSError, ValueError):
        return False
    return status.st_uid == me and status.st_mode & FILE_TYPE == SOCKET


def pid_in(name: str) -> int:
    """The process id in a name like ``<64 hex>-<pid>.sock`` or ``<64 hex>-vscode-<pid>.sock``; 0 for other names."""
    if len(name) < HASH_LENGTH + 7 or name[HASH_LENGTH] != "-" or not name.endswith(".sock"):
        return 0
    if name[:HASH_LENGTH].strip(HEX):
        return 0
    digits = name[HASH_LENGTH + 1 : -5].removeprefix("vscode-")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0  # it must fit in pid_t


def _candidates(places: "tuple[str, ...] | None", environ: "Mapping[bytes, bytes]", me: int) -> "Iterator[str]":
    neovim = _text(environ, b"NVIM")
    if neovim.startswith("/"):
        yield neovim
    if places is None:
        places = usual_places(environ, me)
    user = _text(environ, b"LOGNAME") or _text(environ, b"USER") or "nobody"
    for place in places:
        for name in _names(place):
            if pid_in(name) or _is_runtime_name(name):
                yield f"{place}/{name}"
            elif (name.startswith("nvim.") and "nvim." not in name[5:]) or name.endswith(f".{user}"):
                yield from _in_user_directory(f"{place}/{name}")
            elif name.startswith("nvim") and len(name) == 10:
                yield f"{place}/{name}/0"


def _text(environ: "Mapping[bytes, bytes]", name: bytes) -> str:
    return environ.get(name, b"").decode(errors="surrogateescape")


def _in_user_directory(place: str) -> "Iterator[str]":
    for inner in _names(place):
        for name in _names(f"{place}/{inner}"):
            if _is_runtime_name(name):
                yield f"{place}/{inner}/{name}"


def _is_runtime_name(name: str) -> bool:
    """Whether ``name`` has the form that Neovim chooses for its sockets. A name that does not begin with "nvim." counts
    only if its process is a Neovim, since other programs use names of the same form.
    """
    word, *numbers = name.rsplit(".", 2)
    if len(numbers) != 2 or not all(number.isascii() and number.isdigit() for number in numbers):
        return False
    return word == "nvim" or b"nvim" in _program(numbers[0])


def _program(pid: str) -> bytes:
    """The start of the process name; empty if the process has ended or the system does not show it."""
    try:
        file = posix.open(f"/proc/{pid}/comm", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return posix.read(file, 64)
    except OSError:
        return b""
    finally:
        posix.close(file)


def _names(place: str) -> "list[str]":
    try:
        return posix.listdir(place)
    except (OSError, ValueError):
        return []
