#!/usr/bin/env bash
# Installs the Claude Code CLI into DIR, in the version that the tests use:
#
#     tools/install-claude.sh DIR  ->  DIR/claude
#
# The program is a native binary, with a package for each platform; npm chooses the package. The install script would
# only copy that binary, and newer versions of npm run no install scripts, so DIR/claude is a link to the binary.
set -Eeuo pipefail

version=2.1.332

[ $# = 1 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)

fail() { echo "install-claude.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

answer() ( # the version that DIR/claude reports, run with an empty home directory
  HOME=$(mktemp -d)
  trap 'rm -rf "$HOME"' EXIT
  export HOME CLAUDE_CONFIG_DIR="$HOME/.claude" DISABLE_AUTOUPDATER=1
  "$dir/claude" --version 2>/dev/null
)

command -v npm >/dev/null || fail "needs npm (the package npm, or Node.js from elsewhere)."

rm -rf "$dir/node_modules" "$dir/claude"
npm install --prefix "$dir" --ignore-scripts --no-save --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel=error \
  "@anthropic-ai/claude-code@$version"
for binary in "$dir"/node_modules/@anthropic-ai/claude-code-*/claude; do
  [ -x "$binary" ] || fail "npm brought no binary of claude $version for this platform."
  ln -sfn "${binary#"$dir"/}" "$dir/claude"
  [[ $(answer) != "$version"* ]] || { echo "claude $version is in $dir"; exit 0; }
done
rm -f "$dir/claude"
fail "claude $version is there but does not run here: try $binary --version"
