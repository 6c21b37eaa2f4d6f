#!/usr/bin/env python3
"""Builds the targets with the stable compiler, and runs each for some time under libFuzzer.

    python3 fuzz/run.py [--seconds 60] [--runs N] [--jobs 2] [--folder target/fuzz] [TARGET ...]

What it finds is in `FOLDER/NAME/findings`, what reached something new in `FOLDER/NAME/corpus`; a run
goes on with that. Prints a line for each target: executions, edges, and what was found; ends with 1
where anything was. An input that takes more than 120 s, or 2 GiB, is a finding too.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
TARGETS = sorted(path.stem for path in (HERE / "fuzz_targets").glob("*.rs"))


def profile(folder):
    """A config of cargo with the program's own profile: what both depend on is then the same."""
    text = (HERE.parent / "Cargo.toml").read_text()
    tables = re.findall(r"^\[profile\.release(?:\.[^\]]*)?\]\n(?:(?!\[).*\n)*", text, re.M)
    path = folder / "profile.toml"
    path.write_text("".join(tables))
    return path


def build(folder):
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE.parent / "Cargo.lock", HERE / "Cargo.lock")
    environment = dict(
        os.environ, RUSTC_WRAPPER=str(HERE / "instrument.sh"), CARGO_TARGET_DIR=str(folder / "target"))
    # Edges are few enough without inlining across parts of the crate, and it builds in less time. Said
    # last: what stands in a file given with `--config` goes before the environment.
    units = "profile.release.codegen-units=16"
    command = ["cargo", "build", "--release", "--bins", "--config", str(profile(folder)), "--config", units]
    subprocess.run(command, cwd=HERE, env=environment, check=True)
    return folder / "target" / "release"


def fuzz(binaries, folder, name, seconds, runs):
    """Executions, how many a second, edges and findings of one target."""
    own = folder / name
    corpus, findings = own / "corpus", own / "findings"
    for each in (corpus, findings):
        each.mkdir(parents=True, exist_ok=True)
    seeds = HERE / "seeds" / name
    command = [binaries / name, corpus, seeds, f"-max_total_time={seconds}", f"-runs={runs}", "-timeout=120", "-report_slow_units=60", "-rss_limit_mb=2048",
               "-max_len=16384", f"-artifact_prefix={findings}/", "-print_final_stats=1", "-verbosity=1"]
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True, errors="replace",
                           timeout=seconds + 300)
    (own / "log").write_text(ended.stderr)
    counts = re.findall(r"stat::number_of_executed_units: (\d+)|^#(\d+)", ended.stderr, re.M)
    edges = re.findall(r"cov: (\d+)", ended.stderr)
    number = max((int(one or other) for one, other in counts), default=0)
    rate = re.findall(r"stat::average_exec_per_sec:\s+(\d+)", ended.stderr)
    found = sorted(path.name for path in findings.iterdir())
    return number, int(rate[-1]) if rate else 0, int(edges[-1]) if edges else 0, found or ([f"exit {ended.returncode}"] if ended.returncode else [])


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=int, default=60, help="of each target")
    options.add_argument("--runs", type=int, default=-1, help="of each target; ends before the time where it had so many")
    options.add_argument("--jobs", type=int, default=2, help="targets at once")
    options.add_argument("--folder", type=pathlib.Path, default=HERE.parent / "target" / "fuzz")
    options.add_argument("targets", nargs="*", choices=[*TARGETS, []])
    options = options.parse_args()
    folder = options.folder.resolve()
    binaries = build(folder)
    has_found = False
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        names = options.targets or TARGETS
        runs = {pool.submit(fuzz, binaries, folder, name, options.seconds, options.runs): name for name in names}
        for run in concurrent.futures.as_completed(runs):
            number, rate, edges, found = run.result()
            has_found |= bool(found)
            print(f"{runs[run]:12} {number:>12,} executions  {rate:>7,} a second  {edges:>6,} edges  {' '.join(found) or 'nothing found'}",
                  flush=True)
    raise SystemExit(1 if has_found else 0)


if __name__ == "__main__":
    main()
