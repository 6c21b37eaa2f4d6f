#!/usr/bin/env bash
# A static binary: with musl where its standard library and a compiler for it are installed
# (`rustup target add`, Debian's `musl-tools`) and MUSL=1, else with glibc and `crt-static`, which is no
# more than another link of what is built anyway. The latter resolves names by `/etc/hosts` and DNS, which are in
# glibc itself since 2.34, and loads no other modules: names of LDAP or mDNS are not found. PROFILE
# (default: dist) is how it is built; BINARY, a static one that is there, is only tried. It lies in DIST.
set -euo pipefail
cd "$(dirname "$0")/.."
machine=$(uname -m)
profile=${PROFILE:-dist}
features=()
[ "$machine" != x86_64 ] || features=(--features kafka)
target=$machine-unknown-linux-gnu
built=${CARGO_TARGET_DIR:-target}
# Cargo's folder of the profile `dev` has another name.
folder=${profile/#dev/debug}
if [ -n "${BINARY:-}" ]; then
  binary=$BINARY
  target=$("$binary" --version | grep -oE '[a-z0-9_]+-unknown-linux-[a-z]+')
elif [ -n "${MUSL:-}" ] && [ -d "$(rustc --print sysroot)/lib/rustlib/$machine-unknown-linux-musl" ] && command -v musl-gcc > /dev/null; then
  target=$machine-unknown-linux-musl
  cargo build --profile "$profile" --locked --target "$target" --bin spanscore
  binary="$built/$target/$folder/spanscore"
else
  cargo rustc --profile "$profile" --locked "${features[@]}" --bin spanscore -- -C target-feature=+crt-static
  binary="$built/$folder/spanscore"
fi
{ ldd "$binary" 2>&1 || true; } | grep -qE 'statically linked|not a dynamic' || { echo "not static" >&2; exit 1; }
out=${DIST:-dist}
mkdir -p "$out"
package="$out/spanscore-$target"
install -m 755 "$binary" "$package"
strip "$package"
"$package" --version
if [ -z "${BINARY:-}" ] && [ -n "${features[*]}" ] && [ "$target" = "$machine-unknown-linux-gnu" ]; then
  "$package" gateway --check
fi
"$package" score --fail-on never examples/traces | tail -1
# A root with nothing else in it: a name is found in its `/etc/hosts`, and a plain address needs no authorities.
root=$(mktemp -d)
collector=
trap '[ -z "$collector" ] || kill "$collector"; rm -rf "$root"' EXIT
mkdir -p "$root/etc" "$root/tmp"
install -m 755 "$package" "$root/spanscore"
echo "127.0.0.1 collector.test" > "$root/etc/hosts"
enter=(unshare --user --map-root-user --root "$root")
if "${enter[@]}" /spanscore --version > /dev/null 2>&1; then
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  began=$(date +%s%N)
  "${enter[@]}" /spanscore serve --set "receivers.otlp.protocols={http: {endpoint: '127.0.0.1:$port'}}" \
    --set telemetry.metrics.endpoint=null --set telemetry.health.endpoint=null > "$root/tmp/log" 2>&1 &
  collector=$!
  until (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do
    kill -0 "$collector" 2> /dev/null || { collector=; cat "$root/tmp/log" >&2; exit 1; }
    sleep 0.005
  done
  printf 'listens after %d ms\n' $((($(date +%s%N) - began) / 1000000))
  "${enter[@]}" /spanscore send --sample --endpoint "http://collector.test:$port"
else
  echo "namespaces are not allowed here: not tried in an empty root" >&2
fi
ls -l "$package"
