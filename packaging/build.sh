#!/usr/bin/env bash
# Builds the binary that is shipped, and every package from it, each tried.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${BINARY:-}" ]; then
  cargo build --profile dist --locked
fi
for package in wheel npm deb oci; do
  "packaging/$package.sh"
done
ls -l target/packages
