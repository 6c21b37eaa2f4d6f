#!/usr/bin/env bash
# A wheel with the binary, tried in a clean virtual environment with an instrumented agent.
source "$(dirname "$0")/common.sh"
step wheel
wheel=$(python3 "$root/packaging/wheel.py" "$binary" "$version" "$root/README.md" "$out")
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
"$work/venv/bin/spanscore" --version
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
  opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
started=$(date +%s.%N)
code=0
PATH="$work/venv/bin:$PATH" spanscore run --wait 0.2 -- python "$root/examples/agents/python_agent.py" \
  > "$work/said" || code=$?
cat "$work/said"
[ "$code" = 2 ] || { echo "the gate should have shut (2), not $code" >&2; exit 1; }
grep -q '1 of 2 tool calls succeeded' "$work/said"
printf 'first score after %.1f s: %s\n' "$(echo "$(date +%s.%N) - $started" | bc)" "$wheel"
