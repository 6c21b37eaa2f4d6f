#!/bin/bash
# A fleet on one machine: a broker of Kafka, a gateway, and three scorers of which one is killed.
#
#     examples/fleet/run.sh BINARY [FOLDER]
#
# BINARY has the feature `kafka`; Java 17, Maven, Python, curl and jq are needed. Ends with 1 if a trace was not judged.
set -euo pipefail

binary=$(realpath "$1")
mkdir -p "${2:-target/fleet}"
folder=$(realpath "${2:-target/fleet}")
root=$(realpath "$(dirname "$0")/../..")
traces=100

rm -f "$folder"/*.jsonl "$folder"/*.log
trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT

# Tries a command until it succeeds, for a minute and a half.
until_done() {
    for _ in $(seq 300); do
        if "$@"; then return; fi
        sleep 0.3
    done
    echo "not within 90 s: $*; see the logs in $folder" >&2
    exit 1
}

is_ready() { curl --silent --fail --output /dev/null "http://127.0.0.1:1449$1/readyz"; }

metric() {
    curl --silent "http://127.0.0.1:1448$1/metrics" | awk -v name="$2" '$1 ~ "^" name { sum += $2 } END { print sum + 0 }'
}

# Sends traces of an agent under the ids 1, 2, 3 and so on, as a client of the gateway.
send() {
    local client=$1 recording=$2 file="$folder/$1.sent.jsonl"
    jq --compact-output --arg service "$client" --argjson count "$traces" '
        range(1; $count + 1) as $number
        | (("0" * 32) + ($number | tostring))[-32:] as $id
        | .resourceSpans[].scopeSpans[].spans[].traceId = $id
        | (.resourceSpans[].resource.attributes[] | select(.key == "service.name") | .value.stringValue) = $service
    ' "$root/examples/traces/$recording.json" > "$file"
    "$binary" send --endpoint http://127.0.0.1:14318 --header "authorization=Bearer $client-secret" --rate 20/s "$file" \
        > "$folder/$client.log"
}

# The kill may have cut a line.
records() { awk 1 "$folder"/scorer-$1.jsonl 2> /dev/null | jq --compact-output --raw-input 'fromjson?'; }
verdicts() { records '*' | jq --compact-output '[.service_name, .evaluator, .label, .trace_id]' | sort -u; }
is_judged() { [ "$(verdicts | wc -l)" -ge $((4 * traces)) ]; }
has_partitions() { [ "$(metric "$1" spanscore_receiver_kafka_partitions)" -eq "$2" ]; }

python3 "$root/tests/kafka/broker.py" "$folder" otlp_spans:12 > "$folder/address.log" &
until_done grep --quiet --extended-regexp '[0-9]:[0-9]+' "$folder/address.log"
# Maven may have coloured the line.
BROKER=$(grep --only-matching --extended-regexp '[0-9.]+:[0-9]+' "$folder/address.log")
export BROKER

"$binary" gateway --config "$root/examples/fleet/gateway.yaml" 2> "$folder/gateway.log" &
scorers=()
for number in 1 2 3; do
    NUMBER=$number OUT="$folder/scorer-$number.jsonl" \
        "$binary" --config "$root/examples/fleet/scorer.yaml" 2> "$folder/scorer-$number.log" &
    scorers+=($!)
done
for number in 0 1 2 3; do until_done is_ready "$number"; done
for number in 1 2 3; do until_done has_partitions "$number" 4; done
echo "three scorers have 4 of 12 partitions each"

send shop refund_agent &
sending=($!)
send bank weather_agent &
sending+=($!)
sleep 2
kill -KILL "${scorers[1]}"
wait "${scorers[1]}" 2> /dev/null || true
wait "${sending[@]}"
echo "two clients sent $traces traces each, under the same ids; scorer 2 was killed meanwhile"
for number in 1 3; do until_done has_partitions "$number" 6; done
echo "scorers 1 and 3 have 6 partitions each"

until_done is_judged
for number in 1 2 3; do
    echo "scorer $number judged $(records "$number" | jq '.service_name + .trace_id' | sort -u | wc -l) traces"
done
verdicts | jq --raw-output '.[:3] | join(" ")' | sort | uniq --count
