#!/usr/bin/env bash
# Stands between cargo and the compiler (`RUSTC_WRAPPER`): has the program and the targets count the
# edges that they run through, for libFuzzer. What they depend on is compiled as ever.
set -euo pipefail
rustc=$1
shift
for argument in "$@"; do
  if [ "${last:-}" = --crate-name ] && { [[ "$argument" == spanscore* ]] || [ -f "${CARGO_MANIFEST_DIR:-.}/fuzz_targets/$argument.rs" ]; }; then
    exec "$rustc" "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
      -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
      -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing
  fi
  last=$argument
done
exec "$rustc" "$@"
