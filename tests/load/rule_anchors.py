"""Other tools on the labelled sets of `tests/fixtures/rules`: found and false alarms by class.

gitleaks, detect-secrets and the pattern recognisers of Presidio (no models) run with their defaults;
what is not installed is left out. `cargo bench --bench rules -- sets` prints the same for spanscore.

    go install github.com/zricethezav/gitleaks/v8@latest
    pip install detect-secrets presidio-analyzer phonenumbers
    python3 tests/load/rule_anchors.py
"""

import base64
import collections
import glob
import json
import os
import random
import re
import shutil
import string
import subprocess
import tempfile

SETS = os.path.join(os.path.dirname(__file__), "..", "fixtures", "rules")
LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
ALPHABETS = {
    "hex": "0123456789abcdef", "HEX": "0123456789ABCDEF", "hexh": "0123456789abcdefh",
    "d": DIGITS, "a36": LOWER + DIGITS, "A36": UPPER + DIGITS, "B32": UPPER + "234567",
    "b52": LOWER + UPPER, "b62": LOWER + UPPER + DIGITS, "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}


def filled(text, source):
    """Random characters where a text asks for them, as the Rust side writes them."""
    def made(match):
        what, _, count = match[1].partition(":")
        if what == "uuid":
            parts = [8, 4, 4, 4, 12]
            return "-".join("".join(source.choices("0123456789abcdef", k=n)) for n in parts)
        if what == "b64":
            return base64.b64encode(count.encode()).decode()
        if what not in ALPHABETS:
            return match[0]
        return "".join(source.choices(ALPHABETS[what], k=int(count)))
    return re.sub(r"\{\{([^ {}]+)\}\}", made, text)


def read(names):
    """The texts of some sets."""
    source, rows = random.Random(7), []
    for name in names:
        for path in sorted(glob.glob(f"{SETS}/{name}.jsonl")):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    row = json.loads(line)
                    row["text"] = filled(row["text"], source)
                    rows.append(row)
    return rows


def gitleaks(rows):
    """The texts in which gitleaks finds something."""
    tool = shutil.which("gitleaks")
    if not tool:
        return None
    with tempfile.TemporaryDirectory() as folder:
        for index, row in enumerate(rows):
            with open(f"{folder}/{index}.txt", "w", encoding="utf-8") as file:
                file.write(row["text"] + "\n")
        report = f"{folder}/report.json"
        command = [tool, "dir", folder, "--no-banner", "--report-path", report, "--exit-code", "0"]
        subprocess.run(command, check=True, capture_output=True)
        with open(report, encoding="utf-8") as file:
            found = json.load(file)
    return {int(os.path.basename(hit["File"]).split(".")[0]) for hit in found}


def detect_secrets(rows):
    """The texts in which detect-secrets finds something."""
    try:
        from detect_secrets.core.scan import scan_line
        from detect_secrets.settings import default_settings
    except ImportError:
        return None
    with default_settings():
        return {index for index, row in enumerate(rows)
                if any(next(iter(scan_line(line)), None) for line in row["text"].splitlines())}


def presidio(rows):
    """The texts in which a pattern recogniser of Presidio finds something."""
    try:
        import inspect
        from presidio_analyzer import EntityRecognizer, PatternRecognizer, predefined_recognizers
    except ImportError:
        return None
    recognisers = []
    for _, kind in inspect.getmembers(predefined_recognizers, inspect.isclass):
        is_phone = kind.__name__ == "PhoneRecognizer"
        if issubclass(kind, PatternRecognizer) or is_phone and issubclass(kind, EntityRecognizer):
            try:
                recognisers.append(kind())
            except Exception:  # noqa: BLE001 (some ask for more than there is)
                continue
    # Dates and links are no personal data; what is less sure than 0.4 is not shown by default.
    left_out = {"DATE_TIME", "URL"}
    found = set()
    for index, row in enumerate(rows):
        for one in recognisers:
            entities = [name for name in one.supported_entities if name not in left_out]
            hits = one.analyze(row["text"], entities, None) if entities else []
            if any(hit.score >= 0.4 for hit in hits or []):
                found.add(index)
                break
    return found


def table(title, rows, found):
    """Prints found and all by class."""
    classes = collections.defaultdict(lambda: [0, 0])
    for index, row in enumerate(rows):
        counts = classes[row["class"] if row["label"] else "benign"]
        counts[0] += index in found
        counts[1] += 1
    cells = ", ".join(f"{name} {hit} of {all_}" for name, (hit, all_) in sorted(classes.items()))
    print(f"{title}: {cells}")


def main():
    secrets, personal = read(["secrets", "fresh_secrets"]), read(["personal", "fresh_personal"])
    for title, rows, tool in (("gitleaks", secrets, gitleaks),
                              ("detect-secrets", secrets, detect_secrets),
                              ("Presidio", personal, presidio)):
        found = tool(rows)
        if found is None:
            print(f"{title}: not installed")
        else:
            table(title, rows, found)


main()
