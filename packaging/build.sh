#!/usr/bin/env bash
# Builds the binary that is shipped, and every package from it, each tried.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${BINARY:-}" ]; then
  # Kafka needs OpenSSL and librdkafka compiled: it is in the packages for x86_64, docs/fleet.md says so.
  features=()
  [ "$(uname -m)" != x86_64 ] || features=(--features kafka)
  cargo build --profile dist --locked "${features[@]}"
fi
for package in wheel npm deb; do
  "packaging/$package.sh"
done
# The image holds the static one, and so no C library. It is another link: last, as it takes the place of the other.
packaging/static.sh
BINARY=$(ls -t target/packages/spanscore-*-linux-* | head -1) packaging/oci.sh
ls -l target/packages
