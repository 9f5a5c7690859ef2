#!/usr/bin/env bash
# Installs the MCP conformance suite into DIR, in the version that the tests use. NODE (tools/install-node.sh) runs it:
#
#     tools/install-mcp-conformance.sh DIR NODE  ->  DIR/conformance
set -Eeuo pipefail

version=0.1.16

[ $# = 2 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
[ -x "$2" ] || { echo "install-mcp-conformance.sh: $2 can't be run; get it with tools/install-node.sh." >&2; exit 1; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
node=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")

fail() { echo "install-mcp-conformance.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

answer() { "$dir/conformance" --version 2>/dev/null; }

command -v npm >/dev/null || fail "needs npm (the package npm, or Node.js from elsewhere)."

rm -rf "$dir/node_modules" "$dir/conformance"
npm install --prefix "$dir" --ignore-scripts --no-save --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel=error \
  "@modelcontextprotocol/conformance@$version"
cat >"$dir/conformance" <<LAUNCHER
#!/bin/sh
exec "$node" "$dir/node_modules/@modelcontextprotocol/conformance/dist/index.js" "\$@"
LAUNCHER
chmod +x "$dir/conformance"
[[ $(answer) == "$version" ]] || fail "conformance $version is there but does not run here: try $dir/conformance --version"
echo "conformance $version is in $dir"
