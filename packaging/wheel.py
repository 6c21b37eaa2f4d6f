"""Packs a binary as a wheel that installs it as a script (binary distribution format, PEP 427)."""

import base64
import hashlib
import platform
import re
import sys
import zipfile
from pathlib import Path

SUMMARY = "An OpenTelemetry collector that scores what AI agents do with their tools."


def platform_tags(binary: bytes) -> list[str]:
    """The oldest C library that the binary runs with; a static one runs with any."""
    machine = platform.machine()
    if sys.platform == "darwin":
        return [f"macosx_11_0_{machine}"]
    needed = [tuple(map(int, found)) for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", binary)]
    if not needed:
        return [f"manylinux_2_17_{machine}", f"musllinux_1_1_{machine}"]
    major, minor = max(needed)
    return [f"manylinux_{major}_{minor}_{machine}"]


def main() -> None:
    binary_path, version, readme, out = sys.argv[1:5]
    binary = Path(binary_path).read_bytes()
    tags = [f"py3-none-{tag}" for tag in platform_tags(binary)]
    info = f"spanscore-{version}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: spanscore\nVersion: {version}\nSummary: {SUMMARY}\n"
        "License: Apache-2.0\nRequires-Python: >=3.8\n"
        "Description-Content-Type: text/markdown\n\n" + Path(readme).read_text()
    )
    wheel = "Wheel-Version: 1.0\nGenerator: spanscore\nRoot-Is-Purelib: false\n"
    wheel += "".join(f"Tag: {tag}\n" for tag in tags)
    files = {
        f"spanscore-{version}.data/scripts/spanscore": binary,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": wheel.encode(),
    }
    platforms = ".".join(tag.split("-", 2)[2] for tag in tags)
    path = Path(out) / f"spanscore-{version}-py3-none-{platforms}.whl"
    record = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            # The same bytes from the same binary: no time of day in it.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            record += f"{name},sha256={digest.decode()},{len(content)}\n"
        entry = zipfile.ZipInfo(f"{info}/RECORD", (1980, 1, 1, 0, 0, 0))
        archive.writestr(entry, record + f"{info}/RECORD,,\n")
    print(path)


main()
