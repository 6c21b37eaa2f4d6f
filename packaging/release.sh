#!/usr/bin/env bash
# Publishes what lies in dist/. Each registry is a variable; a package whose registry is not named stays where it is. It only
# prints the commands unless PUBLISH=yes.
#
#   TAG             the tag of this release: v and the version of Cargo.toml
#   PYPI_URL        upload address for the wheel (twine reads TWINE_USERNAME and TWINE_PASSWORD)
#   NPM_REGISTRY    registry for the npm package
#   IMAGE           repository of the image, with its host
#   FILES           command that takes the paths of the deb, the static binary, checksums, bill and provenance
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
refuse() { echo "release: $*" >&2; exit 1; }
[ "${TAG:-}" = "v$version" ] || refuse "TAG is '${TAG:-}', the version of Cargo.toml asks for v$version"
[ -f dist/SHA256SUMS ] || refuse "dist/ has no SHA256SUMS: run packaging/build.sh first"
(cd dist && sha256sum --check --quiet SHA256SUMS) || refuse "dist/ differs from its checksums: build it anew"
built=$(python3 -c 'import json; print(json.load(open("dist/provenance.json"))["predicate"]["buildDefinition"]["externalParameters"]["commit"])')
[ "$built" = "$(git rev-parse HEAD)" ] || refuse "dist/ was built from ${built:0:12}, this is $(git rev-parse --short=12 HEAD)"
publish() {
  printf '%q ' "$@"; echo
  [ "${PUBLISH:-}" != yes ] || "$@"
}
[ -z "${PYPI_URL:-}" ] || publish python3 -m twine upload --non-interactive --repository-url "$PYPI_URL" dist/*.whl
[ -z "${NPM_REGISTRY:-}" ] || publish npm publish --registry "$NPM_REGISTRY" "./dist/spanscore-$version.tgz"
if [ -n "${IMAGE:-}" ]; then
  publish skopeo copy "oci:dist/spanscore-$version.oci:$version" "docker://$IMAGE:$version"
fi
[ -z "${FILES:-}" ] || publish $FILES dist/*.deb dist/spanscore-*-linux-* dist/SHA256SUMS dist/spanscore.cdx.json dist/provenance.json
[ "${PUBLISH:-}" = yes ] || echo "nothing was published: PUBLISH=yes does"
