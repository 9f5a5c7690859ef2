"""The ``.vsix`` that ``make vsix`` and ``drawbridge setup vscode`` pack. ``rig`` installs it in a real VS Code."""

from __future__ import annotations

import json
import shutil
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from drawbridge.core.errors import NotWritable, UnusableFile
from drawbridge.setup import vsix

from .rig import EXTENSION

ROOT = EXTENSION.parent.parent
PACKAGE = json.loads((EXTENSION / "package.json").read_text())


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    """A copy of the extension's directory."""
    return Path(shutil.copytree(EXTENSION, tmp_path / "extension"))


def test_the_package_contains_the_extension_and_its_manifest(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "drawbridge.vsix"
    vsix.pack(EXTENSION, target)
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        texts = {name: archive.read(name) for name in names}
    files = {f"extension/{file.relative_to(EXTENSION)}": file for file in EXTENSION.rglob("*") if file.is_file()}
    assert set(names) == {"extension.vsixmanifest", "[Content_Types].xml", *files}
    assert {name: texts[name] for name in files} == {name: file.read_bytes() for name, file in files.items()}
    manifest = ElementTree.fromstring(texts["extension.vsixmanifest"])
    identity = manifest.find("{*}Metadata/{*}Identity")
    assert identity is not None
    assert (identity.get("Publisher"), identity.get("Id"), identity.get("Version")) == (
        PACKAGE["publisher"],
        PACKAGE["name"],
        PACKAGE["version"],
    )
    for asset in manifest.findall("{*}Assets/{*}Asset"):
        assert asset.get("Path") in names
    types = ElementTree.fromstring(texts["[Content_Types].xml"])
    suffixes = {entry.get("Extension") for entry in types}
    assert {Path(name).suffix for name in names} - {".xml"} <= suffixes


def test_the_same_folder_is_packed_into_the_same_bytes(extension: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        vsix.pack(extension, tmp_path / name)
        for file in extension.iterdir():
            file.touch()
            file.chmod(0o755)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_hidden_files_are_not_packed(extension: Path, tmp_path: Path) -> None:
    (extension / ".git").mkdir()
    (extension / ".git" / "config").write_text("secret")
    (extension / ".env").write_text("secret")
    vsix.pack(extension, tmp_path / "it.vsix")
    assert b"secret" not in (tmp_path / "it.vsix").read_bytes()


def test_xml_characters_in_the_description_are_escaped(extension: Path, tmp_path: Path) -> None:
    described = PACKAGE | {"description": '<b>"&"</b>', "displayName": "A & B", "version": '1"0'}
    (extension / "package.json").write_text(json.dumps(described))
    vsix.pack(extension, tmp_path / "it.vsix")
    with zipfile.ZipFile(tmp_path / "it.vsix") as archive:
        manifest = ElementTree.fromstring(archive.read("extension.vsixmanifest"))
    assert manifest.findtext("{*}Metadata/{*}Description") == '<b>"&"</b>'


def without(key: str) -> Callable[[Path], object]:
    left = {name: value for name, value in PACKAGE.items() if name != key}
    return lambda path: path.write_text(json.dumps(left))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (Path.unlink, "no such file"),
        (lambda path: path.write_text("{"), "Expecting"),
        (lambda path: path.write_text("[]"), "lacks name"),
        (without("publisher"), "lacks publisher"),
    ],
    ids=["no manifest", "not JSON", "not an object", "no publisher"],
)
def test_a_folder_without_a_valid_extension_is_refused(
    extension: Path, tmp_path: Path, spoil: Callable[[Path], object], why: str
) -> None:
    spoil(extension / "package.json")
    target = tmp_path / "it.vsix"
    target.write_text("the last one")
    with pytest.raises(UnusableFile, match=why):
        vsix.pack(extension, target)
    assert target.read_text() == "the last one"


def test_an_output_path_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotWritable, match="can't be written"):
        vsix.pack(EXTENSION, tmp_path / "file" / "it.vsix")


def test_the_extension_has_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert PACKAGE["version"] == project["project"]["version"]
