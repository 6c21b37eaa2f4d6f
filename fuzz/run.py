#!/usr/bin/env python3
"""Builds the targets with the stable compiler, and runs each for some time under libFuzzer.

    python3 fuzz/run.py [--seconds 60] [--runs N] [--goal] [--jobs 2] [--folder target/fuzz] [TARGET ...]

What it finds is in `FOLDER/NAME/findings`, what reached something new in `FOLDER/NAME/corpus`; a run
goes on with that. `FOLDER/NAME/executions` has a line for each run: the commit and its executions.
With `--goal` each target runs, ten minutes at a time, until all its runs together have reached its
goal: ten million executions, one million of whole stages. Prints a line for each run: executions,
those of all runs, edges, and what was found; ends with 1 where anything was. An input that takes
more than 120 s, or 2 GiB, is a finding too.
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

# Executions of all runs together.
GOAL, GOALS = 10_000_000, {"stages": 1_000_000, "judged": 1_000_000, "contents": 1_000_000}

# Seconds of one of the runs that reach a goal: what was counted is lost with a run that is broken off.
GOAL_SECONDS = 600

# Longest input in bytes: as much as the grammar of a target needs.
LONGEST, LONGEST_OF = 4096, {"expressions": 256, "patterns": 256, "contents": 512, "config": 2048, "dialects": 2048}


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


def commit():
    """The commit that is fuzzed, with a `+` where files differ from it."""
    git = lambda *words: subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=True).stdout
    changed = git("status", "--porcelain", "--untracked-files=no").strip()
    return git("rev-parse", "--short=12", "HEAD").strip() + ("+" if changed else "")


def total(folder, name):
    """Executions of all runs of a target."""
    path = folder / name / "executions"
    lines = path.read_text().splitlines() if path.exists() else []
    return sum(int(line.split()[1]) for line in lines)


def fuzz(binaries, folder, name, seconds, runs, of_commit):
    """Executions, how many a second, edges and findings of one run of a target."""
    own = folder / name
    corpus, findings = own / "corpus", own / "findings"
    for each in (corpus, findings):
        each.mkdir(parents=True, exist_ok=True)
    seeds = HERE / "seeds" / name
    # Inputs that take long are chosen less often.
    command = [binaries / name, corpus, seeds, f"-max_total_time={seconds}", f"-runs={runs}", "-timeout=120", "-report_slow_units=60",
               "-rss_limit_mb=2048", f"-max_len={LONGEST_OF.get(name, LONGEST)}", "-entropic_scale_per_exec_time=1",
               f"-artifact_prefix={findings}/", "-print_final_stats=1", "-verbosity=1"]
    with (own / "log").open("w", errors="replace") as log:
        ended = subprocess.run([str(part) for part in command], stdout=log, stderr=log, timeout=seconds + 300)
    said = (own / "log").read_text(errors="replace")
    counts = re.findall(r"stat::number_of_executed_units: (\d+)|^#(\d+)", said, re.M)
    edges = re.findall(r"cov: (\d+)", said)
    number = max((int(one or other) for one, other in counts), default=0)
    rate = re.findall(r"stat::average_exec_per_sec:\s+(\d+)", said)
    with (own / "executions").open("a") as file:
        file.write(f"{of_commit} {number}\n")
    found = sorted(path.name for path in findings.iterdir())
    return number, int(rate[-1]) if rate else 0, int(edges[-1]) if edges else 0, found or ([f"exit {ended.returncode}"] if ended.returncode else [])


def show(folder, name, number, rate, edges, found):
    print(f"{name:12} {number:>12,} executions  {rate:>7,} a second  {total(folder, name):>12,} in all  {edges:>6,} edges  "
          f"{' '.join(found) or 'nothing found'}", flush=True)


def run(binaries, folder, name, options, of_commit):
    """One run of a target, or as many as its goal takes; whether anything was found."""
    if not options.goal:
        ran = fuzz(binaries, folder, name, options.seconds, options.runs, of_commit)
        show(folder, name, *ran)
        return bool(ran[-1])
    while (rest := GOALS.get(name, GOAL) - total(folder, name)) > 0:
        ran = fuzz(binaries, folder, name, GOAL_SECONDS, rest, of_commit)
        show(folder, name, *ran)
        if ran[-1] or not ran[0]:
            return True
    print(f"{name:12} {total(folder, name):>12,} in all: its goal is reached", flush=True)
    return False


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=int, default=60, help="of each target")
    options.add_argument("--runs", type=int, default=-1, help="of each target; ends before the time where it had so many")
    options.add_argument("--goal", action="store_true", help="each target until all its runs have had their executions")
    options.add_argument("--jobs", type=int, default=2, help="targets at once")
    options.add_argument("--folder", type=pathlib.Path, default=HERE.parent / "target" / "fuzz")
    options.add_argument("targets", nargs="*", choices=[*TARGETS, []])
    options = options.parse_args()
    folder = options.folder.resolve()
    binaries, of_commit = build(folder), commit()
    has_found = False
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        names = options.targets or TARGETS
        runs = [pool.submit(run, binaries, folder, name, options, of_commit) for name in names]
        for ended in concurrent.futures.as_completed(runs):
            has_found |= ended.result()
    print(f"{sum(total(folder, name) for name in TARGETS):,} executions in all", flush=True)
    raise SystemExit(1 if has_found else 0)


if __name__ == "__main__":
    main()
