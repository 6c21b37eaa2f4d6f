#!/usr/bin/env bash
# A Debian package: the binary, its manual pages and completions, the unit, a config and a user.
source "$(dirname "$0")/common.sh"
step deb
arch=$(dpkg --print-architecture)
tree="$work/tree"
install -D -m 755 "$binary" "$tree/usr/bin/spanscore"
install -D -m 644 "$root/deploy/systemd/spanscore.service" "$tree/usr/lib/systemd/system/spanscore.service"
install -D -m 644 "$root/config/collector.yaml" "$tree/etc/spanscore/config.yaml"
cat >> "$tree/etc/spanscore/config.yaml" <<'CONFIG'

# The folder that the unit gives the service: what was acknowledged, and the store of runs, outlive a restart.
data_dir: /var/lib/spanscore
CONFIG
install -D -m 644 "$root/README.md" "$tree/usr/share/doc/spanscore/README.md"
"$binary" man --output "$tree/usr/share/man/man1"
gzip -9n "$tree"/usr/share/man/man1/*.1
mkdir -p "$tree/usr/share/bash-completion/completions" "$tree/usr/share/zsh/vendor-completions" \
  "$tree/usr/share/fish/vendor_completions.d" "$tree/DEBIAN"
"$binary" completions bash > "$tree/usr/share/bash-completion/completions/spanscore"
"$binary" completions zsh > "$tree/usr/share/zsh/vendor-completions/_spanscore"
"$binary" completions fish > "$tree/usr/share/fish/vendor_completions.d/spanscore.fish"
cat > "$tree/DEBIAN/control" <<CONTROL
Package: spanscore
Version: $version
Architecture: $arch
Maintainer: spanscore <spanscore@localhost>
Depends: ${glibc:+libc6 (>= $glibc), libgcc-s1, }adduser, ca-certificates
Section: net
Priority: optional
Installed-Size: $(du -sk "$tree" | cut -f1)
Description: OpenTelemetry collector that scores what AI agents do with their tools
 Receives OTLP, finds the tool calls of agents, judges each trace and sends
 the scores back as OpenTelemetry.
CONTROL
echo /etc/spanscore/config.yaml > "$tree/DEBIAN/conffiles"
cat > "$tree/DEBIAN/postinst" <<'SCRIPT'
#!/bin/sh
set -e
if [ "$1" = configure ] && ! getent passwd spanscore > /dev/null; then
  adduser --system --group --no-create-home --home /var/lib/spanscore spanscore
fi
[ ! -d /run/systemd/system ] || systemctl daemon-reload
SCRIPT
chmod 755 "$tree/DEBIAN/postinst"
package="$out/spanscore_${version}_$arch.deb"
# What is only tried need not be small: the best compression takes minutes for a binary of tests.
dpkg-deb ${DIST:+-Zgzip -z1} --root-owner-group --build "$tree" "$package" > /dev/null
dpkg-deb --info "$package" | grep -E 'Package|Version|Architecture|Depends'
dpkg-deb --extract "$package" "$work/unpacked"
"$work/unpacked/usr/bin/spanscore" check --config "$work/unpacked/etc/spanscore/config.yaml" > /dev/null
zcat "$work/unpacked/usr/share/man/man1/spanscore-run.1.gz" | grep -q OTEL_EXPORTER_OTLP_ENDPOINT
bash -n "$work/unpacked/usr/share/bash-completion/completions/spanscore"
"$work/unpacked/usr/bin/spanscore" --version
