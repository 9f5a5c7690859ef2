#!/usr/bin/env bash
# Installs Codex, in the version that the tests know, into DIR:
#
#     tools/install-codex.sh DIR  ->  DIR/codex
#
# npm has the program itself as a package for each platform; Node.js is not needed to run it.
set -Eeuo pipefail

version=0.169.0

[ $# = 1 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)

fail() { echo "install-codex.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

command -v npm >/dev/null || fail "needs npm (the package npm, or Node.js from elsewhere)."

case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) platform=linux-x64 ;;
  Linux-aarch64) platform=linux-arm64 ;;
  Darwin-x86_64) platform=darwin-x64 ;;
  Darwin-arm64) platform=darwin-arm64 ;;
  *) fail "there is no Codex for $(uname -s) on $(uname -m)." ;;
esac

rm -rf "$dir/node_modules" "$dir/codex"
npm install --prefix "$dir" --ignore-scripts --no-save --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel=error \
  "codex-program@npm:@openai/codex@$version-$platform"
programs=("$dir"/node_modules/codex-program/vendor/*/bin/codex)
ln -s "${programs[0]}" "$dir/codex"
[[ $("$dir/codex" --version) == "codex-cli $version" ]] || fail "codex $version is there but does not run here: try $dir/codex --version"
echo "codex $version is in $dir"
