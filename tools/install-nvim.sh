#!/usr/bin/env bash
# Installs the Neovim of another Debian suite into DIR. The system's own Neovim is not changed:
#
#     tools/install-nvim.sh DIR SUITE        (trixie: 0.10, forky: 0.12 or newer)  ->  DIR/nvim
#
# apt downloads Neovim and all its libraries, including glibc, into DIR. They are unpacked there, and the program is
# made to load these libraries, so that a newer Neovim runs on an older Debian. apt's configuration names the archive.
set -Eeuo pipefail

[ $# = 2 ] || { sed -n '2,5p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd) suite=$2

fail() { echo "install-nvim.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

for program in apt-get dpkg-deb patchelf; do
  command -v "$program" >/dev/null || fail "needs $program (a Debian, with the package patchelf installed)."
done

# The archive that this machine's own sources name, whatever their format; "debian-security" and others don't fit.
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | sort -u | head -n 1 || true)
[ -n "$archive" ] || fail "apt's sources name no Debian archive to take the suite $suite from."

apt=$dir/apt root=$dir/root
rm -rf "$apt" "$root"
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$root"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
signed=$([ -e "$keyring" ] && echo "[signed-by=$keyring] " || true)
echo "deb $signed$archive $suite main" >"$apt/sources.list"
: >"$apt/status" # nothing counts as installed, so every library is downloaded

private_apt() { # signatures are checked, but not the date: a mirror that is out of date is good enough for the tests
  apt-get -qq \
    -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$apt/lists" -o Dir::State::Status="$apt/status" -o Dir::Cache="$apt/cache" \
    -o APT::Sandbox::User=root -o APT::Install-Recommends=false -o Acquire::Retries=3 -o Acquire::Languages=none \
    -o Acquire::Check-Valid-Until=false \
    "$@"
}
private_apt update
private_apt install --yes --download-only neovim >/dev/null
for package in "$apt"/cache/archives/*.deb; do
  dpkg-deb --extract "$package" "$root"
done
rm -rf "$apt"

program=$root/usr/bin/nvim
loader=$(find "$root" -type f -name 'ld-linux*.so.*' -print -quit)
[ -n "$loader" ] || fail "the suite $suite brought no dynamic loader; nothing to run $program with."
patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$(dirname "$loader")" "$program"

cat >"$dir/nvim.new" <<SCRIPT
#!/bin/sh
VIMRUNTIME='$root/usr/share/nvim/runtime' exec '$program' "\$@"
SCRIPT
chmod +x "$dir/nvim.new"
"$dir/nvim.new" --version >/dev/null || fail "the Neovim of $suite does not run here; see above."
mv "$dir/nvim.new" "$dir/nvim" # last, so that an incomplete installation is never found
echo "$("$dir/nvim" --version | head -n 1) is in $dir"
