"""The settings of ``drawbridge attach`` and ``drawbridge review``."""

# No `from __future__ import annotations`: it would turn the annotations, which `settings.of` reads, into strings.

from typing import Annotated, NamedTuple

from drawbridge.settings import Spec


class AttachSettings(NamedTuple):
    """The address of the server, and how to trust it. The defaults are for the server on this machine."""

    url: Annotated[str | None, Spec("the server's address (default: the server on this machine)", metavar="URL")] = None
    token_file: Annotated[
        str | None,
        Spec(
            "the file that contains the token (default: the token file of the server on this machine)", metavar="FILE"
        ),
    ] = None
    ca: Annotated[
        str | None,
        Spec(
            "the certificate to trust (default: that of the server on this machine; for other servers, the certificates "
            "that this machine trusts)",
            metavar="FILE",
        ),
    ] = None
    fingerprint: Annotated[
        str | None,
        Spec("the SHA-256 fingerprint of the certificate to trust, as serve prints it", metavar="SHA256"),
    ] = None
