#!/usr/bin/env bash
# Installs playwright-core, which drives a browser without a screen, and axe-core, which checks accessibility, in DIR:
#
#     tools/install-browser.sh DIR  ->  DIR/node_modules/playwright-core, axe-core
#
# The browser itself is the Debian package chromium: playwright-core does not contain one, and must not download one.
set -Eeuo pipefail

version=1.65.1
axe=4.14.1

[ $# = 1 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)

fail() { echo "install-browser.sh: $*" >&2; exit 1; }
trap 'fail "stopped in line $LINENO; run it again to start over."' ERR

package=$dir/node_modules/playwright-core
there() {
  grep -qs "\"version\": \"$version\"" "$package/package.json" &&
    grep -qs "\"version\": \"$axe\"" "$dir/node_modules/axe-core/package.json"
}

command -v npm >/dev/null || fail "needs npm (the package npm, or Node.js from elsewhere)."

rm -rf "$dir/node_modules"
npm install --prefix "$dir" --ignore-scripts --no-save --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel=error \
  "playwright-core@$version" "axe-core@$axe"
there || fail "npm brought no playwright-core $version, or no axe-core $axe."
echo "playwright-core $version and axe-core $axe are in $dir"
