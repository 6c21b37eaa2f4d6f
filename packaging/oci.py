"""Writes an OCI image layout (image-spec 1.1) with one layer, without a daemon.

The root is empty but for the binary, its config, the CA certificates, and folders for data and
temporary files. A binary that needs a C library brings it along: `ldd` says which files.
"""

import gzip
import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
USER = 10001
PORTS = (4317, 4318, 8888, 13133)
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def libraries(binary: str) -> list[str]:
    """Files of the C library that a binary is linked with; none for a static one."""
    said = subprocess.run(["ldd", binary], capture_output=True, text=True)
    if said.returncode != 0 or "statically linked" in said.stdout:
        return []
    return re.findall(r"(/\S+) \(0x", said.stdout)


def layer(files: list[tuple[str, bytes, int]], folders: list[tuple[str, int]]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        parents = {str(p) for name, *_ in files for p in Path(name).parents if str(p) != "."}
        for name, mode in sorted({(p, 0o755) for p in parents} | set(folders)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            if mode != 0o755:
                entry.uid = entry.gid = USER
            tar.addfile(entry)
        for name, content, mode in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return plain.getvalue()


def main() -> None:
    binary, config, version, out = sys.argv[1:5]
    files = [
        ("usr/bin/spanscore", Path(binary).read_bytes(), 0o755),
        ("etc/spanscore/config.yaml", Path(config).read_bytes(), 0o644),
        ("etc/ssl/certs/ca-certificates.crt", Path(CERTIFICATES).read_bytes(), 0o644),
        ("etc/passwd", f"spanscore:x:{USER}:{USER}::/:/\n".encode(), 0o644),
    ]
    for library in libraries(binary):
        files.append((library.lstrip("/"), Path(library).read_bytes(), 0o755))
    plain = layer(files, [("tmp", 0o1777), ("var/lib/spanscore", 0o750)])
    packed = gzip.compress(plain, mtime=0)
    folder = Path(out)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "blobs/sha256").mkdir(parents=True)

    def blob(content: bytes, kind: str) -> dict:
        digest = hashlib.sha256(content).hexdigest()
        (folder / "blobs/sha256" / digest).write_bytes(content)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    prefix = "application/vnd.oci.image"
    image = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {f"{port}/tcp": {} for port in PORTS},
            "Entrypoint": ["/usr/bin/spanscore"],
            "Cmd": ["serve", "--config", "/etc/spanscore/config.yaml"],
            "Labels": {
                "org.opencontainers.image.title": "spanscore",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
    }
    config_blob = blob(json.dumps(image).encode(), f"{prefix}.config.v1+json")
    layer_blob = blob(packed, f"{prefix}.layer.v1.tar+gzip")
    kind = f"{prefix}.manifest.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": kind, "config": config_blob, "layers": [layer_blob]}
    entry = blob(json.dumps(manifest).encode(), kind)
    entry["annotations"] = {"org.opencontainers.image.ref.name": version}
    index = {"schemaVersion": 2, "mediaType": f"{prefix}.index.v1+json", "manifests": [entry]}
    (folder / "index.json").write_text(json.dumps(index))
    # Docker's own index, as `docker save` writes it beside the other: `docker load` reads no more.
    paths = [f"blobs/sha256/{blob['digest'].split(':')[1]}" for blob in (config_blob, layer_blob)]
    docker = [{"Config": paths[0], "RepoTags": [f"spanscore:{version}"], "Layers": [paths[1]]}]
    (folder / "manifest.json").write_text(json.dumps(docker))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    print(folder, f"{len(packed) >> 20} MiB")


main()
