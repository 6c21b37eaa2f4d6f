"""Ways into a topic and out of it: gateways, exporters, limits, partitioners, sign-in."""

import json
import os
import time
from collections import Counter

from broker import Broker, HERE
from fleet import Fleet, alone, load, sent, wait_for_all, wait_until
from gateway import Process, until

TLS = HERE.parent / "fixtures/tls"
CALLS = 6


def text(key, value):
    return {"key": key, "value": {"stringValue": value}}


def span(trace, number, padding=0):
    """The root of a trace, or one of its calls."""
    kind = [text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", "search"),
            text("gen_ai.tool.call.id", f"call-{number}"),
            text("gen_ai.tool.call.arguments", "{}"),
            text("gen_ai.tool.call.result", "found" + os.urandom(padding // 2).hex())]
    if number == 0:
        kind = [text("gen_ai.operation.name", "invoke_agent"),
                text("gen_ai.output.messages", json.dumps([{
                    "role": "assistant", "parts": [{"type": "text", "content": "done"}]}]))]
    now = time.time_ns()
    found = {"traceId": trace, "spanId": f"{number + 1:016x}", "name": f"span {number}",
             "startTimeUnixNano": str(now + number), "endTimeUnixNano": str(now + 1000 + number),
             "attributes": kind}
    return found if number == 0 else {**found, "parentSpanId": f"{1:016x}"}


def request(*spans):
    resource = {"attributes": [text("service.name", "senders")]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}


def gateway_to(arguments, broker, topic, **settings):
    kafka = {"brokers": [broker.address], "topic": topic, **settings}
    process = Process(arguments.binary, "gateway", {"kafka": kafka})
    until(process.is_ready, f"readiness: {process.text()}")
    return process


def post(gateway, body):
    """Sends until it is taken, as senders do."""
    until(lambda: gateway.post("traces", body) == (200, {}), "the gateway takes a request")


def new_trace():
    return os.urandom(16).hex()


def calls_of(fleet):
    """Numbers of calls that the evaluator of their count passed or failed, by trace."""
    found = {}
    for it in fleet.evaluations():
        if it["evaluator"] == "tool_call_count/calls":
            found.setdefault(it["trace_id"], {})[it["evaluation_id"]] = it["label"]
    return found


def whole_way(arguments, broker, folder):
    """OTLP to a gateway, over the topic to a scorer, evaluations to another topic."""
    topic = f"whole-{new_trace()[:8]}"
    broker.create(topic, 4)
    broker.create(f"{topic}-out", 4)
    gateway = gateway_to(arguments, broker, topic)
    kafka = {"brokers": [broker.address], "traces": {"topics": [topic]}, "logs": {"topics": []},
             "group_id": topic, "initial_offset": "earliest"}
    scorer = Process(arguments.binary, "serve", {
        "kafka": kafka, "evaluators": {"tool_error": None, "tool_efficiency": None},
        "exporters": {"kafka": {"brokers": [broker.address], "topic": f"{topic}-out",
                                "encoding": "json"}},
        "traces": {"quiet_period": "500ms"}, "store": False,
    })
    traces = [new_trace() for _ in range(50)]
    for trace in traces:
        spans = [span(trace, number) for number in range(CALLS + 1)]
        post(gateway, request(*spans))
    records = broker.records(f"{topic}-out", 2 * len(traces))
    found = Counter(key for key, value in records if json.loads(value)["trace_id"] == key)
    gateway.stop()
    scorer.stop()
    print(f"whole way: {len(records)} records of evaluations under {len(found)} keys")
    return found == Counter({trace: 2 for trace in traces})


def beyond_limits(arguments, broker, folder):
    """A trace larger than a message may be, one span that is, and a topic that takes less."""
    fleet, _ = alone(arguments, broker, "limits")
    gateway = gateway_to(arguments, broker, fleet.topic)
    large, single = new_trace(), new_trace()
    spans = [span(large, number, 400_000) for number in range(CALLS + 1)]
    taken = gateway.post("traces", request(*spans))
    told = gateway.post("traces", request(span(single, 1, 1_500_000)))[1]
    messages = gateway.metric("spanscore_gateway_messages_total")
    is_whole = wait_until(lambda: list(calls_of(fleet).get(large, {}).values()) == ["pass"])
    broker.configure(fleet.topic, ("--add-config", "max.message.bytes=100000"))
    small = gateway.post("traces", request(span(new_trace(), 1, 300_000), span(new_trace(), 1)))[1]
    refused = gateway.metric("spanscore_gateway_rejected_items_total", reason="too_large")
    gateway.stop()
    fleet.stop()
    told, small = (it.get("partialSuccess", {}).get("rejectedSpans") for it in (told, small))
    print(f"beyond limits: a trace of 2.4 MB is {messages:.0f} messages and judged whole: {is_whole}; "
          f"spans told as too large: {told} by the producer, {small} by the topic; counted: {refused:.0f}")
    return taken == (200, {}) and is_whole and messages > 2 and (told, small, refused) == ("1", "1", 2)


def partitioners(arguments, broker, folder):
    """Two gateways that hash keys alike, then differently, with halves of each trace."""
    shown = {}
    for second in ("murmur2", "fnv1a"):
        topic = f"hash-{second}-{new_trace()[:8]}"
        broker.create(topic, 12)
        fleet = Fleet(arguments.binary, broker.folder, broker, topic)
        fleet.add()
        fleet.add()
        has_parts = lambda: all((it.metric("spanscore_receiver_kafka_partitions") or 0) == 6
                                for it in fleet.members)
        wait_until(has_parts)
        gateways = [gateway_to(arguments, broker, topic),
                    gateway_to(arguments, broker, topic, producer={"partitioner": second})]
        traces = [new_trace() for _ in range(100)]
        for trace in traces:
            halves = [range(0, 4), range(4, CALLS + 1)]
            for gateway, numbers in zip(gateways, halves):
                spans = [span(trace, number) for number in numbers]
                post(gateway, request(*spans))
        wait_until(lambda: set(traces) <= set(calls_of(fleet)))
        time.sleep(12)
        idle = sum(it.metric("spanscore_assemble_judged_traces_total", 'completion="idle"')
                   for it in fleet.members)
        parts = Counter(len(found) for found in calls_of(fleet).values())
        whole = sum("pass" in found.values() for found in calls_of(fleet).values())
        for process in (*gateways, fleet):
            process.stop()
        shown[second] = (whole, parts[2], idle)
        print(f"partitioners murmur2 and {second}: {whole} of {len(traces)} traces whole, "
              f"{parts[2]} with two verdicts, {idle:.0f} judged as idle")
    return shown["murmur2"][0] == 100 and shown["fnv1a"][1] > 20


def secured(arguments, _, folder):
    """TLS with sign-in by each mechanism, right and wrong."""
    keys = folder / "broker.pem"
    keys.write_text((TLS / "server.key").read_text() + (TLS / "server.pem").read_text())
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    lines = "\n".join([
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f'listener.name.secure.plain.sasl.jaas.config={plain} required user_scorer="secret";',
        *(f"listener.name.secure.scram-sha-{bits}.sasl.jaas.config={scram} required;"
          for bits in (256, 512)),
        "listener.name.secure.ssl.keystore.type=PEM",
        f"listener.name.secure.ssl.keystore.location={keys}",
    ])
    users = [f"SCRAM-SHA-{bits}=[name=scorer,password=secret]" for bits in (256, 512)]
    broker = Broker(folder / "secured", lines, users)
    results = []
    try:
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            for password, is_right in (("secret", True), ("wrong", False)):
                results.append(signs_in(arguments, broker, mechanism, password) == is_right)
    finally:
        broker.kill()
    print(f"secured: {sum(results)} of 6 sign-ins over TLS ended as they should")
    return all(results)


def signs_in(arguments, broker, mechanism, password):
    """True if a scorer that signs in so judges what is sent."""
    sasl = f"{{mechanism: {mechanism}, username: scorer, password: {password}}}"
    fleet, out = alone(arguments, broker, "secured",
                       more=f"    tls: {{ca_file: {TLS / 'ca.pem'}}}\n    auth: {{sasl: {sasl}}}",
                       address=broker.secure)
    member = fleet.members[0]
    if password == "wrong":
        is_refused = wait_until(lambda: member.process.poll() is not None)
        told = member.log.read_text()
        return not (is_refused and "check their addresses, `tls` and `auth`" in told)
    load(broker, fleet.topic, 20, 1, out).wait()
    missing = wait_for_all(fleet, out, 60)
    fleet.stop()
    return not missing


ALL = [whole_way, beyond_limits, partitioners, secured]
