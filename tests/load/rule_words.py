#!/usr/bin/env python3
"""Writes texts that are hard for the rules: each of nothing but the words of one detector.

    python3 tests/load/rule_words.py DIR && cargo bench --bench rules -- corpus DIR

The words are those of its expression and its literals, in a random order that is the same in every
run, so that its gate is open everywhere and its automaton meets all its beginnings at once. Each
detector is a source of its own, so that the benchmark tells its speed. Needs `pyyaml`.
"""

import json
import pathlib
import random
import re
import sys

import yaml

PACKS = pathlib.Path(__file__).resolve().parents[2] / "crates/detect/src/packs"
NOT_OF_RULES = {"failures", "iris", "judges", "refusal"}
LONG_BYTES = 100_000
CHUNK_BYTES = 1_250


def words(detector, expressions):
    pattern = detector.get("pattern") or detector.get("literal") or ""
    for _ in range(3):
        pattern = re.sub(r"\(\?&(\w+)\)", lambda name: expressions.get(name[1], ""), pattern)
    plain = re.sub(r"\\[pP]\{\w+\}|\\[a-zA-Z]", " ", pattern)
    found = re.findall(r"[^\W\d_]{2,}", plain) + (detector.get("needs") or [])
    return list(dict.fromkeys(found))


def text(vocabulary, seed):
    chance, out, size = random.Random(seed), [], 0
    while size < LONG_BYTES:
        word = chance.choice(vocabulary) + chance.choice([" "] * 8 + [", ", ". ", "\n", ": ", "-"])
        out.append(word)
        size += len(word.encode())
    return "".join(out)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for path in sorted(PACKS.glob("*.yaml")):
        if path.stem in NOT_OF_RULES:
            continue
        pack = yaml.safe_load(path.read_text(encoding="utf-8"))
        for place, detector in enumerate(pack.get("detectors") or []):
            vocabulary = words(detector, pack.get("expressions") or {})
            if vocabulary:
                lines.append((f"{path.stem}{place}", text(vocabulary, place)))
    for name, bytes_max in [("long", LONG_BYTES * 2), ("chunks", CHUNK_BYTES)]:
        with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for source, own in lines:
                entry = {"source": source, "lang": "none", "text": own[:bytes_max]}
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
    print(f"{len(lines)} texts")


main()
