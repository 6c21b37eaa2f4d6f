# Sourced by the scripts beside it: where things are, and which binary is packed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# DIST is another folder for what is no release: one that is being tried.
out=$(realpath -m "${DIST:-$root/dist}")
binary=$(realpath "${BINARY:-$root/target/dist/spanscore}")
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --profile dist --locked, or set BINARY" >&2; exit 1; }
# What a package needs beside itself: the C library and the unwinder alone. OpenSSL, librdkafka, zlib and zstd are in it.
foreign=$({ ldd "$binary" 2> /dev/null || true; } | awk '{print $1}' |
  grep -vE '^(linux-vdso|libc|libm|libgcc_s|libpthread|libdl|librt)\.so|ld-linux|^statically|^not' || true)
[ -z "$foreign" ] || { echo "$binary is linked with what no package has: $foreign" >&2; exit 1; }
# The oldest C library that it runs with; nothing for a static one.
glibc=$({ grep -aoE 'GLIBC_[0-9]+\.[0-9]+' "$binary" || true; } | sort -uV | tail -1 | cut -d_ -f2)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)
mkdir -p "$out"
# A folder of this script's own, gone when it ends.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() { printf '== %s\n' "$*"; }
