#!/usr/bin/env bash
# Puts Claude Code's command line, the version that the tests know, into DIR:
#
#     tools/install-claude.sh DIR  ->  DIR/claude
#
# The program is one native binary in a package for each platform, of which npm picks the fitting one. Its install
# script would only copy that binary, and newer npm clients run no such scripts: so none is run, and DIR/claude is a link.
set -Eeuo pipefail

version=2.1.332

[ $# = 1 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)

fail() { echo "install-claude.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

answer() ( # what DIR/claude says of itself, with a home of its own
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
