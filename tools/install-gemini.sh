#!/usr/bin/env bash
# Installs Gemini CLI into DIR, in the version that the tests use. NODE (tools/install-node.sh) runs it:
#
#     tools/install-gemini.sh DIR NODE  ->  DIR/gemini
#
# No install scripts are run: they only build native helpers that Gemini CLI can do without (a terminal for its shell
# tool, a keyring).
set -Eeuo pipefail

version=0.61.0

[ $# = 2 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
[ -x "$2" ] || { echo "install-gemini.sh: $2 can't be run; get it with tools/install-node.sh." >&2; exit 1; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
node=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")

fail() { echo "install-gemini.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

answer() ( # the version that DIR/gemini reports, run with an empty home directory
  HOME=$(mktemp -d)
  trap 'rm -rf "$HOME"' EXIT
  export HOME GEMINI_CLI_NO_RELAUNCH=true
  "$dir/gemini" --version 2>/dev/null
)

command -v npm >/dev/null || fail "needs npm (the package npm, or Node.js from elsewhere)."

rm -rf "$dir/node_modules" "$dir/gemini"
npm install --prefix "$dir" --ignore-scripts --no-save --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel=error \
  "@google/gemini-cli@$version"
cat >"$dir/gemini" <<LAUNCHER
#!/bin/sh
exec "$node" "$dir/node_modules/@google/gemini-cli/bundle/gemini.js" "\$@"
LAUNCHER
chmod +x "$dir/gemini"
[[ $(answer) == "$version" ]] || fail "gemini $version is there but does not run here: try $dir/gemini --version"
echo "gemini $version is in $dir"
