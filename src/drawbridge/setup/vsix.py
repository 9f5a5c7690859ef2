"""Packs a VS Code extension's folder into one ``.vsix`` file, without network access, Node.js or any package.

A ``.vsix`` is a zip: the extension's files under ``extension/``, a manifest that the installer reads, and the content
types that the Open Packaging Conventions require. Its files are stored without compression and with one fixed time, so
that the same folder always gives the same bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from drawbridge.core.errors import NotWritable, UnusableFile

LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can contain."""

REQUIRED = ("name", "publisher", "version", "engines")

CONTENT_TYPES = {".vsixmanifest": "text/xml", ".json": "application/json", ".js": "application/javascript"}
CONTENT_TYPES |= {".md": "text/markdown", ".svg": "image/svg+xml", ".txt": "text/plain"}


def pack(extension_dir: Path, target: Path) -> None:
    """Writes ``target`` atomically. Missing directories above it are created.

    Raises ``UnusableFile`` if ``extension_dir`` does not contain an extension, and ``NotWritable`` if ``target`` can't
    be written.
    """
    package = manifest(extension_dir)
    content = {"extension.vsixmanifest": _manifest(package).encode(), "[Content_Types].xml": _content_types().encode()}
    for file in files(extension_dir):
        content[f"extension/{file.relative_to(extension_dir).as_posix()}"] = file.read_bytes()
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(temporary, "w") as archive:
            for name, data in content.items():
                _add(archive, name, data)
        temporary.replace(target)
    except OSError as error:
        raise NotWritable(f"{target} can't be written: {(error.strerror or 'unknown reason').lower()}.") from None
    finally:
        with contextlib.suppress(OSError):  # the temporary file was renamed to the target
            temporary.unlink()


def manifest(extension_dir: Path) -> dict[str, Any]:
    """The contents of the extension's ``package.json``. Raises ``UnusableFile`` if ``extension_dir`` does not contain an
    extension."""
    path = extension_dir / "package.json"
    try:
        package = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnusableFile(f"{path} can't be read: {(error.strerror or 'unknown reason').lower()}.") from None
    except ValueError as error:
        raise UnusableFile(f"{path} is not valid JSON: {error}.") from None
    missing = [name for name in REQUIRED if name not in package] if isinstance(package, dict) else list(REQUIRED)
    if missing:
        raise UnusableFile(f"{path} is not an extension's manifest: it lacks {', '.join(missing)}.")
    return dict(package)


def files(folder: Path) -> Iterator[Path]:
    """Yields all files, except hidden ones and those in hidden directories, always in the same order."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, LONG_AGO)
    entry.create_system = 3  # Unix, so that the bytes are the same on every system
    entry.external_attr = 0o100644 << 16
    archive.writestr(entry, data)


def _content_types() -> str:
    types = (f'<Default Extension={quoteattr(suffix)} ContentType="{kind}"/>' for suffix, kind in CONTENT_TYPES.items())
    namespace = "http://schemas.openxmlformats.org/package/2006/content-types"
    return f'<?xml version="1.0" encoding="utf-8"?>\n<Types xmlns="{namespace}">{"".join(types)}</Types>\n'


def _manifest(package: dict[str, Any]) -> str:
    name, version, publisher = (quoteattr(str(package[key])) for key in ("name", "version", "publisher"))
    properties = {"Engine": package["engines"]["vscode"], "ExtensionKind": ",".join(package.get("extensionKind", []))}
    listed = "\n      ".join(
        f'<Property Id="Microsoft.VisualStudio.Code.{key}" Value={quoteattr(str(value))}/>'
        for key, value in properties.items()
        if value
    )
    return f"""<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id={name} Version={version} Publisher={publisher}/>
    <DisplayName>{escape(str(package.get("displayName", package["name"])))}</DisplayName>
    <Description xml:space="preserve">{escape(str(package.get("description", "")))}</Description>
    <Categories>{escape(",".join(package.get("categories", [])))}</Categories>
    <Properties>
      {listed}
    </Properties>
  </Metadata>
  <Installation>
    <InstallationTarget Id="Microsoft.VisualStudio.Code"/>
  </Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true"/>
  </Assets>
</PackageManifest>
"""
