#!/usr/bin/env bash
# Installs the programs that `make check` runs over JavaScript, TypeScript, CSS and Lua (TypeScript, Biome, StyLua) into
# DIR, in the versions of tools/checkers/package.json:
#
#     tools/install-checkers.sh DIR  ->  DIR/node_modules/.bin/tsc, …
set -Eeuo pipefail

[ $# = 1 ] || { sed -n '2,5p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)

fail() { echo "install-checkers.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

command -v npm >/dev/null || fail "needs npm (the package npm, or Node.js from elsewhere)."

rm -rf "$dir/node_modules"
cp "$here/checkers/package.json" "$dir/package.json"
npm install --prefix "$dir" --ignore-scripts --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel=error
echo "the checkers are in $dir"
