#!/usr/bin/env bash
# The packages of dist/, installed in a Debian that has no compiler, no Rust and nothing of this repository but the recorded
# runs: `dpkg -i`, `pip install`, the static binary. The Debian is made by debootstrap, as root, and goes when the script ends.
# SUITE and MIRROR say which; by default they are those of this machine, or debootstrap's where apt names no plain address.
set -euo pipefail
dist=$(realpath "${DIST:-$(dirname "$0")/../dist}")
if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
  echo "not tried in a clean root: it needs root and debootstrap" >&2
  exit 0
fi
printf '== clean root\n'
suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Codename: $suite" | head -1)}
[[ $mirror == http* ]] || mirror=
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# A proxy and certificates that apt has here hold in there, too.
debootstrap --variant=minbase --include=adduser,ca-certificates,python3-venv "$suite" "$root" ${mirror:+"$mirror"} > "$root.log" 2>&1 ||
  { tail -5 "$root.log" >&2; exit 1; }
rm -f "$root.log"
mkdir "$root/packages"
cp "$dist"/*.deb "$dist"/*.whl "$dist"/spanscore-*-linux-* "$root/packages/"
cp -r "$(dirname "$0")/../examples/traces" "$root/traces"
inside() { chroot "$root" env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root "$@"; }
judged() {
  local said
  said=$(inside "$@" score --fail-on never /traces | tail -1)
  printf '%-40s %s\n' "$1" "$said"
  [[ $said == *" evaluations: "* ]]
}
# Each by itself: some shells look for the first name alone.
! inside sh -c 'for name in cc cargo rustc; do command -v "$name" && exit; done; exit 1' || { echo "the root is not clean" >&2; exit 1; }
inside sh -c 'dpkg -i /packages/*.deb' > /dev/null
judged /usr/bin/spanscore
inside spanscore check --config /etc/spanscore/config.yaml > /dev/null
inside getent passwd spanscore > /dev/null
inside python3 -m venv /root/venv
inside sh -c '/root/venv/bin/pip install --quiet --no-index /packages/*.whl'
judged /root/venv/bin/spanscore
judged "/packages/$(basename "$root"/packages/spanscore-*-linux-*)"
inside dpkg --purge spanscore > /dev/null
[ ! -e "$root/usr/bin/spanscore" ]
