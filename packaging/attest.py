#!/usr/bin/env python3
"""Writes what tells of the packages in dist/, or in the folder DIST, beside them.

    attest.py --profile dist [--features kafka]

`SHA256SUMS` has every file; `spanscore.cdx.json` is a bill of materials (CycloneDX 1.6) of the crates that are built in, by
`cargo metadata` and Cargo.lock; `provenance.json` is an in-toto statement with the predicate of SLSA provenance 1.0: which
source, by which command, made files of these checksums. It is not signed. The bill's time is that of the commit, so that the
same commit gives the same documents. A work tree that differs from its commit is refused; with ALLOW_DIRTY=yes the statement
says that it did, and `release.sh` publishes nothing of it.
"""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import tomllib
import uuid
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = Path(os.environ.get("DIST") or ROOT / "dist").resolve()
SUMS, BILL, PROVENANCE = "SHA256SUMS", "spanscore.cdx.json", "provenance.json"


def said(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def write(name, document):
    (DIST / name).write_text(json.dumps(document, indent=1) + "\n")


def built_in(features):
    """Packages that are linked into the program, those that only build it, and what each needs."""
    target = f"{platform.machine()}-unknown-linux-gnu"
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    metadata = json.loads(said(*command, *(["--features", features] if features else [])))
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    needs = lambda node, kinds: [
        dep["pkg"] for dep in node["deps"] if any(kind["kind"] in kinds for kind in dep["dep_kinds"])]
    linked, building = set(), set()
    waiting = [(metadata["resolve"]["root"], linked)]
    while waiting:
        package, role = waiting.pop()
        if package in linked or package in role:
            continue
        role.add(package)
        waiting += [(need, role) for need in needs(nodes[package], [None])]
        waiting += [(need, building) for need in needs(nodes[package], ["build"])]
    packages = {package["id"]: package for package in metadata["packages"]}
    building -= linked
    edges = {id: sorted(set(needs(nodes[id], [None, "build"]))) for id in linked | building}
    return packages, building, edges, metadata["resolve"]["root"]


def component(package, is_building, checksums):
    reference = f"pkg:cargo/{package['name']}@{package['version']}"
    found = {"type": "library", "bom-ref": reference, "name": package["name"], "version": package["version"], "purl": reference}
    if package["license"]:
        # The older spelling of OR.
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := checksums.get((package["name"], package["version"])):
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if is_building:
        found["scope"] = "excluded"
    return found


def bill(features, commit, time):
    packages, building, edges, root = built_in(features)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}
    made = {id: component(packages[id], id in building, checksums) for id in edges}
    reference = lambda id: made[id]["bom-ref"]
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'spanscore {commit} {features}')}",
        "metadata": {"timestamp": time, "component": {**made[root], "type": "application"}},
        "components": sorted((one for id, one in made.items() if id != root), key=lambda one: one["bom-ref"]),
        "dependencies": sorted(
            ({"ref": reference(id), "dependsOn": [reference(need) for need in needs]} for id, needs in edges.items()),
            key=lambda one: one["ref"]),
    }


def digests():
    """The checksum of every file of dist/, by its path there; images are folders."""
    files = sorted(path for path in DIST.rglob("*") if path.is_file() and path.name not in (SUMS, PROVENANCE))
    return {str(path.relative_to(DIST)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def provenance(sums, build):
    source = os.environ.get("SOURCE_URI", "urn:spanscore:source")
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sums.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:spanscore:packaging/build.sh",
                "externalParameters": {"source": source, **build},
                "internalParameters": {"rustc": said("rustc", "--version"), "machine": platform.machine()},
                "resolvedDependencies": [
                    {"uri": source, "digest": {"gitCommit": build["commit"]}},
                    {"uri": "Cargo.lock", "digest": {"sha256": hashlib.sha256((ROOT / "Cargo.lock").read_bytes()).hexdigest()}},
                ],
            },
            "runDetails": {
                "builder": {"id": os.environ.get("BUILDER_ID", "urn:spanscore:builder:local")},
                "metadata": {"invocationId": os.environ.get("INVOCATION_ID", build["commit"])},
            },
        },
    }


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--features", default="", help="those that the packages were built with")
    options.add_argument("--profile", required=True, help="that of cargo which they were built with, or unknown")
    given = options.parse_args()
    is_dirty = bool(said("git", "status", "--porcelain"))
    if is_dirty and os.environ.get("ALLOW_DIRTY") != "yes":
        raise SystemExit("attest: the work tree differs from its commit: commit or remove what `git status` lists")
    commit = said("git", "rev-parse", "HEAD")
    time = datetime.fromtimestamp(int(said("git", "log", "-1", "--format=%ct")), timezone.utc)
    write(BILL, bill(given.features, commit, time.strftime("%Y-%m-%dT%H:%M:%SZ")))
    sums = digests()
    build = {"commit": commit, "isDirty": is_dirty, "profile": given.profile, "features": given.features}
    write(PROVENANCE, provenance(sums, build))
    sums[PROVENANCE] = hashlib.sha256((DIST / PROVENANCE).read_bytes()).hexdigest()
    (DIST / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    print(f"{len(sums)} checksums, {len(json.loads((DIST / BILL).read_text())['components'])} crates")


main()
