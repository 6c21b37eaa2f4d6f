#!/usr/bin/env bash
# Builds the binary that is shipped, every package from it, each tried, and what tells of them:
# checksums, a bill of materials, a statement of provenance. All of it lies in dist/. PROFILE=dev tries all of this sooner, and
# BINARY packs a static one that is there; neither is published.
set -euo pipefail
cd "$(dirname "$0")/.."
# Kafka needs OpenSSL and librdkafka compiled: it is in the packages for x86_64, docs/kafka.md says so.
features=()
[ "$(uname -m)" != x86_64 ] || features=(--features kafka)
# attest.py refuses it too, but only after all the rest is made.
if [ "${ALLOW_DIRTY:-}" != yes ] && [ -n "$(git status --porcelain)" ]; then
  echo "the work tree differs from its commit: commit or remove what git status lists; ALLOW_DIRTY=yes makes packages that are not published" >&2
  exit 1
fi
# Nobody knows how a binary that is given was built, and so it is not published.
profile=unknown
if [ -z "${BINARY:-}" ]; then
  export PROFILE=${PROFILE:-dist}
  profile=$PROFILE
  cargo build --profile "$profile" --locked "${features[@]}"
  built=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/spanscore
elif [[ $(realpath "$BINARY") == "$PWD"/dist/* ]]; then
  echo "$BINARY lies in dist/, which is emptied first: copy it" >&2
  exit 1
elif [ ! -x "$BINARY" ]; then
  echo "no binary at $BINARY" >&2
  exit 1
elif ! { ldd "$BINARY" 2>&1 || true; } | grep -qE 'statically linked|not a dynamic'; then
  echo "$BINARY is not static, as the image and the static package must be: packaging/static.sh makes one, and the script of each package packs any" >&2
  exit 1
fi
unset DIST
rm -rf dist
for package in wheel npm deb; do
  BINARY=${BINARY:-$built} "packaging/$package.sh"
done
# The image holds the static one, and so no C library. It is another link: last, as it takes the place of the other.
packaging/static.sh
BINARY=$(ls -t dist/spanscore-*-linux-* | head -1) packaging/oci.sh
python3 packaging/attest.py --profile "$profile" "${features[@]}"
packaging/clean_root.sh
(cd dist && sha256sum --check --quiet SHA256SUMS && du -ah --max-depth=1)
