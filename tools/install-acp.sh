#!/usr/bin/env bash
# Installs the ACP adapters of Claude Code and Codex into DIR, in the versions that the tests use. NODE runs them:
#
#     tools/install-acp.sh DIR NODE  ->  DIR/claude-agent-acp, DIR/codex-acp
#
# The agents' own programs are left out: CLAUDE_CODE_EXECUTABLE and CODEX_PATH name them.
set -Eeuo pipefail

claude=0.100.0
codex=2.6.0

[ $# = 2 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
[ -x "$2" ] || { echo "install-acp.sh: $2 can't be run; get it with tools/install-node.sh." >&2; exit 1; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
node=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")

fail() { echo "install-acp.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

command -v npm >/dev/null || fail "needs npm (the package npm, or Node.js from elsewhere)."

rm -rf "$dir/node_modules"
npm install --prefix "$dir" --omit=optional --ignore-scripts --no-save --no-package-lock --no-audit --no-fund \
  --no-update-notifier --loglevel=error \
  "@agentclientprotocol/claude-agent-acp@$claude" "@agentclientprotocol/codex-acp@$codex"
for name in claude-agent-acp codex-acp; do
  printf '#!/bin/sh\nexec %q %q "$@"\n' "$node" "$(readlink -f "$dir/node_modules/.bin/$name")" >"$dir/$name"
  chmod +x "$dir/$name"
done
echo "claude-agent-acp $claude and codex-acp $codex are in $dir"
