"""The settings of ``drawbridge attach`` and ``drawbridge review``."""

# No `from __future__ import annotations`: it would turn the annotations, which `settings.of` reads, into strings.

from typing import Annotated, NamedTuple

from drawbridge.settings import Spec


class AttachSettings(NamedTuple):
    """The address of the server, and how to trust it. The defaults are for the server on this machine."""

    url: Annotated[str | None, Spec("the server's address (default: the server on this machine)", metavar="URL")] = None
    token_file: Annotated[
        str | None, Spec("the file that contains the token (default: that server's)", metavar="FILE")
    ] = None
    ca: Annotated[str | None, Spec("the certificate to trust (default: that server's)", metavar="FILE")] = None
    fingerprint: Annotated[
        str | None,
        Spec("the SHA-256 fingerprint of the certificate to trust, as serve prints it", metavar="SHA256"),
    ] = None
