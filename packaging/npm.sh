#!/usr/bin/env bash
# An npm package with the binary, tried from an empty folder.
source "$(dirname "$0")/common.sh"
step npm
arch=$(node -p process.arch)
system=$(node -p process.platform)
mkdir -p "$work/package/bin"
install -m 755 "$binary" "$work/package/bin/spanscore"
cp "$root/README.md" "$work/package/"
libc=
[ -z "$glibc" ] || libc=', "libc": ["glibc"]'
cat > "$work/package/package.json" <<JSON
{
  "name": "spanscore",
  "version": "$version",
  "description": "An OpenTelemetry collector that scores what AI agents do with their tools.",
  "license": "Apache-2.0",
  "bin": { "spanscore": "bin/spanscore" },
  "files": ["bin", "README.md"],
  "os": ["$system"],
  "cpu": ["$arch"]$libc
}
JSON
(cd "$work/package" && npm pack --silent --pack-destination "$out" > /dev/null)
mkdir "$work/user"
(cd "$work/user" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund "$out/spanscore-$version.tgz")
(cd "$work/user" && npx --no-install spanscore --version)
(cd "$work/user" && npx --no-install spanscore score --fail-on never "$root/examples/traces" | tail -1)
