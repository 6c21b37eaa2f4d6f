#!/usr/bin/env bash
# A static binary: with musl where its standard library and a compiler for it are installed, else
# with glibc and `crt-static`. The latter resolves names through files and DNS of glibc's own, which
# loads no other modules: names of LDAP or mDNS are not found.
set -euo pipefail
cd "$(dirname "$0")/.."
machine=$(uname -m)
sysroot=$(rustc --print sysroot)
if [ -d "$sysroot/lib/rustlib/$machine-unknown-linux-musl" ] && command -v musl-gcc > /dev/null; then
  target=$machine-unknown-linux-musl
  cargo build --profile dist --locked --target "$target"
else
  target=$machine-unknown-linux-gnu
  RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile dist --locked --target "$target"
fi
binary="target/$target/dist/spanscore"
ldd "$binary" 2>&1 | grep -qE 'statically linked|not a dynamic' || { echo "not static" >&2; exit 1; }
"$binary" --version
"$binary" score --fail-on never examples/traces | tail -1
mkdir -p target/packages
install -m 755 "$binary" "target/packages/spanscore-$target"
ls -l "target/packages/spanscore-$target"
