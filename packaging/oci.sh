#!/usr/bin/env bash
# An OCI image layout, its root unpacked and entered where that is allowed.
source "$(dirname "$0")/common.sh"
step oci
layout="$out/spanscore-$version.oci"
python3 "$root/packaging/oci.py" "$binary" "$root/packaging/container.yaml" "$version" "$layout"
mkdir "$work/root"
python3 - "$layout" "$work/root" <<'PYTHON'
import hashlib, json, sys, tarfile
from pathlib import Path
layout, root = Path(sys.argv[1]), sys.argv[2]
def blob(descriptor):
    kind, digest = descriptor["digest"].split(":")
    content = (layout / "blobs" / kind / digest).read_bytes()
    assert hashlib.sha256(content).hexdigest() == digest and len(content) == descriptor["size"]
    return content
index = json.loads((layout / "index.json").read_text())
manifest = json.loads(blob(index["manifests"][0]))
config = json.loads(blob(manifest["config"]))
assert config["config"]["User"] == "10001:10001", config
blob(manifest["layers"][0])
digest = manifest["layers"][0]["digest"].split(":")[1]
(docker,) = json.loads((layout / "manifest.json").read_text())
assert docker["Layers"] == [f"blobs/sha256/{digest}"] and json.loads((layout / docker["Config"]).read_text()) == config, docker
with tarfile.open(layout / "blobs" / "sha256" / digest) as tar:
    tar.extractall(root, filter="fully_trusted" if hasattr(tarfile, "fully_trusted_filter") else None)
PYTHON
enter=(unshare --user --map-root-user --root "$work/root")
if "${enter[@]}" /usr/bin/spanscore --version; then
  "${enter[@]}" /usr/bin/spanscore check --config /etc/spanscore/config.yaml | head -3
else
  echo "namespaces are not allowed here: the root was unpacked and not entered" >&2
fi
