"""Gathers real text from the documentation and the packages that a machine has, to measure rules on.

Nothing of it was written for a rule. Two files come out: `chunks.jsonl` (texts of 1.25 kB, the size
of a tool's result) and `long.jsonl` (texts of 100 kB), a JSON object a line with `source`, `lang`
and `text`. The same machine gives the same files: paths are taken in the order of their hashes.

    python3 tests/load/corpus.py /tmp/corpus [folder of packages ...]
"""

import collections
import glob
import gzip
import hashlib
import json
import os
import re
import struct
import sys

CHUNK, LONG = 1250, 100_000
CHUNKS_A_FILE, CHUNKS_A_GROUP, LONG_A_GROUP = 3, 330, 2
HOME = os.path.expanduser("~")
CODE = "code"


def plain_roff(text):
    """A manual page without its macros, as a reader of the terminal sees it."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("'", '.\\"')):
            continue
        if line.startswith("."):
            line = line.partition(" ")[2].replace('"', "")
        line = re.sub(r"\\f(\[[^]]*\]|\(..|.)|\\[&/,|^]|\\s[-+]?\d", "", line)
        line = line.replace("\\-", "-").replace("\\(aq", "'").replace("\\(bu", "*")
        lines.append(re.sub(r"\\[\[(]([a-z]{2})\]?", "", line).replace("\\e", "\\"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def catalogue(path):
    """The translations of a message catalogue, a line each."""
    with open(path, "rb") as file:
        data = file.read()
    order = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}.get(data[:4])
    if order is None:
        return ""
    count, _, table = struct.unpack(order + "3I", data[8:20])
    texts = []
    for index in range(1, count):
        length, start = struct.unpack(order + "2I", data[table + index * 8:table + index * 8 + 8])
        texts.append(data[start:start + length].decode("utf-8", "replace").replace("\0", "\n"))
    return "\n".join(texts)


def read(path):
    """The text of a file; empty if it is none."""
    if path.endswith(".mo"):
        return catalogue(path)
    opener = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            data = file.read(2_000_000)
        text = data.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError):
        return ""
    return plain_roff(text) if "/man/" in path else text


def groups():
    """(source, language, paths), in a fixed order."""
    def find(*patterns):
        return [path for pattern in patterns for path in glob.glob(pattern, recursive=True)]

    share, registry = "/usr/share", f"{HOME}/.cargo/registry/src/*/*"
    for folder in sorted(glob.glob(f"{share}/man/*")):
        lang = os.path.basename(folder)
        if lang.startswith("man"):
            yield "manual", f"en{lang[3:]}", find(f"{folder}/*.gz")
        else:
            yield "manual", lang, find(f"{folder}/man*/*.gz")
    for folder in sorted(glob.glob(f"{share}/locale/*/LC_MESSAGES")):
        yield "catalogue", folder.split("/")[4], find(f"{folder}/*.mo")
    yield "copyright", "en", find(f"{share}/doc/*/copyright")
    yield "changelog", "en", find(f"{share}/doc/*/changelog*", f"{registry}/CHANGELOG.md")
    yield "readme", "en", find(f"{share}/doc/*/README*", f"{registry}/README.md")
    yield "manual", "vim", find(f"{share}/vim/**/doc/*.txt")
    for ext in ("rs", "toml", "json", "md"):
        yield CODE, ext, find(f"{registry}/**/*.{ext}")
    modules = "/usr/lib/node_modules", f"{HOME}/node_modules", *sys.argv[2:]
    for ext in ("js", "json", "md", "ts"):
        yield CODE, f"npm-{ext}", find(*(f"{root}/**/*.{ext}" for root in modules))
    yield CODE, "py", find("/usr/lib/python3*/**/*.py")
    site = f"{HOME}/.pyenv/versions/*/lib/python3*"
    for ext in ("py", "txt", "rst", "md"):
        yield CODE, f"site-{ext}", find(f"{site}/**/*.{ext}")
    for ext in ("go", "md", "yaml"):
        yield CODE, f"go-{ext}", find(f"{HOME}/go/pkg/mod/**/*.{ext}", f"/usr/lib/go*/**/*.{ext}")
    for ext in ("html", "xml", "yml", "css", "svg", "po", "ini", "conf"):
        yield CODE, ext, find(f"{share}/**/*.{ext}", f"/etc/**/*.{ext}", f"{registry}/**/*.{ext}")
    yield CODE, "perl", find(f"{share}/perl/**/*.p[lmo]*")
    yield CODE, "sh", find("/etc/**/*.sh", f"{share}/**/*.sh", "/etc/init.d/*")
    yield CODE, "c", find("/usr/include/**/*.h")
    yield "log", "en", find("/var/log/**/*.log", "/var/log/dpkg.log*")


def pieces(text, size):
    """A text in parts of at most so many bytes, cut between characters."""
    data = text.encode()
    at = 0
    while at < len(data):
        part = data[at:at + size].decode("utf-8", "ignore")
        if not part:
            break
        at += len(part.encode())
        if len(part) > 200:
            yield part


def gather(source, lang, paths):
    """The chunks and the long texts of one group."""
    paths = sorted(paths, key=lambda path: hashlib.sha256(path.encode()).digest())
    chunks, long, joined = [], [], ""
    for path in paths:
        if len(chunks) >= CHUNKS_A_GROUP and len(long) >= LONG_A_GROUP:
            break
        text = read(path)
        if len(text) < 300:
            continue
        parts = list(pieces(text, CHUNK))
        step = max(1, len(parts) // CHUNKS_A_FILE)
        chunks += parts[::step][:CHUNKS_A_FILE]
        joined += text + "\n\n"
        if len(joined.encode()) >= LONG:
            long.append(next(pieces(joined, LONG)))
            joined = ""
    cap = CHUNKS_A_GROUP if source != "catalogue" else CHUNKS_A_GROUP // 6

    def rows(texts):
        return [{"source": source, "lang": lang, "text": text} for text in texts]
    return rows(chunks[:cap]), rows(long[:LONG_A_GROUP])


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else "/tmp/corpus"
    os.makedirs(out, exist_ok=True)
    chunks, long = [], []
    for source, lang, paths in groups():
        some, others = gather(source, lang, paths)
        chunks += some
        long += others
    for name, rows in (("chunks", chunks), ("long", long)):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        with open(f"{out}/{name}.jsonl", "w", encoding="utf-8") as file:
            file.write(lines)
        size = sum(len(row["text"].encode()) for row in rows)
        langs = collections.Counter(row["lang"] for row in rows)
        digest = hashlib.sha256(lines.encode()).hexdigest()[:16]
        print(f"{name}: {len(rows)} texts, {size} bytes, {len(langs)} languages, sha256 {digest}")
        kinds = collections.Counter(row["source"] for row in rows)
        print("  " + ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))


main()
