#!/usr/bin/env bash
# Publishes what packaging/build.sh left in dist/. Each registry is a variable; a package whose registry is not named stays where
# it is. It only prints the commands unless PUBLISH=yes; then credentials are tried before the first upload.
#
#   TAG             the tag of this release: v and the version of Cargo.toml (where it only prints, that is the default)
#   PYPI_URL        upload address for the wheel (twine reads TWINE_USERNAME and TWINE_PASSWORD)
#   NPM_REGISTRY    registry for the npm package; with NODE_AUTH_TOKEN by that, else as npm is logged in
#   IMAGE           repository of the image, with its host; with IMAGE_USERNAME and IMAGE_PASSWORD by those, else as skopeo is
#   FILES           command that takes the paths of the deb, the static binary, checksums, bill and provenance
set -euo pipefail
cd "$(dirname "$0")/.."
# DIST is for what is tried: `.ci/run` packs the binary of the tests there.
dist=${DIST:-dist}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
refuse() { echo "release: $*" >&2; exit 1; }
[ "${PUBLISH:-}" = yes ] || TAG=${TAG:-v$version}
[ "${TAG:-}" = "v$version" ] || refuse "TAG is '${TAG:-}', the version of Cargo.toml asks for v$version"
[ -f "$dist/SHA256SUMS" ] || refuse "$dist/ has no SHA256SUMS: run packaging/build.sh first"
(cd "$dist" && sha256sum --check --quiet SHA256SUMS) || refuse "$dist/ differs from its checksums: build it anew"
told() {
  python3 - "$dist/provenance.json" "$1" <<'PYTHON'
import json, sys
print(json.load(open(sys.argv[1]))["predicate"]["buildDefinition"]["externalParameters"].get(sys.argv[2]))
PYTHON
}
built=$(told commit)
[ "$built" = "$(git rev-parse HEAD)" ] || refuse "$dist/ was built from ${built:0:12}, this is $(git rev-parse --short=12 HEAD)"
how="profile $(told profile), changes beside the commit: $(told isDirty)"
if [ "${PUBLISH:-}" = yes ]; then
  [ "$how" = "profile dist, changes beside the commit: False" ] || refuse "$dist/ is not to be published ($how): run packaging/build.sh"
fi

# Credentials of this run alone, gone when it ends.
keys=$(mktemp -d)
trap 'rm -rf "$keys"' EXIT
if [ "${PUBLISH:-}" = yes ]; then
  if [ -n "${PYPI_URL:-}" ]; then
    python3 -m twine --version > /dev/null || refuse "twine is not installed: pip install twine"
    [ -n "${TWINE_PASSWORD:-}" ] || [ -f ~/.pypirc ] || refuse "no credentials for $PYPI_URL: set TWINE_USERNAME and TWINE_PASSWORD"
  fi
  if [ -n "${NPM_REGISTRY:-}" ]; then
    if [ -n "${NODE_AUTH_TOKEN:-}" ]; then
      address=${NPM_REGISTRY#*:}
      printf '%s/:_authToken=${NODE_AUTH_TOKEN}\n' "${address%/}" > "$keys/npmrc"
      export NPM_CONFIG_USERCONFIG="$keys/npmrc"
    fi
    npm whoami --registry "$NPM_REGISTRY" > /dev/null || refuse "no credentials for $NPM_REGISTRY: set NODE_AUTH_TOKEN, or npm login"
  fi
  if [ -n "${IMAGE:-}" ]; then
    if [ -n "${IMAGE_PASSWORD:-}" ]; then
      export REGISTRY_AUTH_FILE="$keys/auth.json"
      skopeo login --username "${IMAGE_USERNAME:-}" --password-stdin "${IMAGE%%/*}" <<< "$IMAGE_PASSWORD" > /dev/null ||
        refuse "${IMAGE%%/*} does not take IMAGE_USERNAME and IMAGE_PASSWORD"
    fi
    skopeo login --get-login "${IMAGE%%/*}" > /dev/null || refuse "no credentials for $IMAGE: set IMAGE_USERNAME and IMAGE_PASSWORD"
  fi
  [ -z "${FILES:-}" ] || command -v "${FILES%% *}" > /dev/null || refuse "FILES names ${FILES%% *}, which is not installed"
fi

publish() {
  printf '%q ' "$@"; echo
  [ "${PUBLISH:-}" != yes ] || "$@"
}
[ -z "${PYPI_URL:-}" ] || publish python3 -m twine upload --non-interactive --repository-url "$PYPI_URL" "$dist"/*.whl
[ -z "${NPM_REGISTRY:-}" ] || publish npm publish --registry "$NPM_REGISTRY" "$(realpath "$dist/spanscore-$version.tgz")"
if [ -n "${IMAGE:-}" ]; then
  publish skopeo copy "oci:$dist/spanscore-$version.oci:$version" "docker://$IMAGE:$version"
fi
[ -z "${FILES:-}" ] || publish $FILES "$dist"/*.deb "$dist"/spanscore-*-linux-* "$dist"/SHA256SUMS "$dist"/spanscore.cdx.json "$dist"/provenance.json
[ "${PUBLISH:-}" = yes ] || echo "nothing was published: PUBLISH=yes does ($how)"
