#!/usr/bin/env bash
# Installs ws, a common WebSocket library for Node.js, into DIR. The benchmarks compare Drawbridge's server with it:
#
#     tools/install-ws.sh DIR  ->  DIR/node_modules/ws
set -Eeuo pipefail

version=8.23.0

[ $# = 1 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)

fail() { echo "install-ws.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

command -v npm >/dev/null || fail "needs npm (the package npm, or Node.js from elsewhere)."

rm -rf "$dir/node_modules"
npm install --prefix "$dir" --ignore-scripts --no-save --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel=error "ws@$version"
grep -q "\"version\": \"$version\"" "$dir/node_modules/ws/package.json" || fail "ws $version did not arrive."
echo "ws $version is in $dir"
