#!/usr/bin/env python3
"""Rotates the certificate of a spanscore and the tokens of its senders while SDKs of three languages
export: no export may fail.

    rotate.py PATH-TO-SPANSCORE [ROUNDS]

In each round: a new certificate (by a link that is changed, as Kubernetes does), a new token below
the old one, each sender has exported with the new one, the old one goes, and the config is read
again. Prints a line for each check and ends with `N passed, N failed`; exits 1 if any failed.
"""

import json
import os
import re
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
AGENTS = os.path.join(HERE, "agents")
SENDERS = {
    # name: the program, and the protocol that it speaks
    "python": ([sys.executable, os.path.join(AGENTS, "rotation", "sender.py")], "grpc"),
    "javascript": (["node", os.path.join(AGENTS, "vercel", "rotation.mjs")], "http"),
    "go": ([os.path.join("{folder}", "go.program")], "grpc"),
}
# A sender beside a busy machine's other work takes this long to begin, at most.
BEGIN_SECONDS = 120
CONFIG = """
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{grpc}", tls: {{cert_file: {folder}/tls/tls.crt, key_file: {folder}/tls/tls.key, reload_interval: 1s}}}}
      http: {{endpoint: "127.0.0.1:{http}", tls: {{cert_file: {folder}/tls/tls.crt, key_file: {folder}/tls/tls.key, reload_interval: 1s}}}}
    auth:
      reload_interval: 1s
      clients: {{python: {{file: {folder}/python}}, javascript: {{file: {folder}/javascript}}, go: {{file: {folder}/go}}}}
telemetry:
  metrics: {{endpoint: "127.0.0.1:{metrics}"}}
  health: {{endpoint: null}}
evaluators: {{tool_error: }}
exporters: {{prometheus: }}
"""
passed, failed = 0, 0


def check(what, good, found=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok  " if good else "FAIL", what, "" if good else found, flush=True)


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Authority:
    """A certificate authority in a folder, and the server's certificates by it."""

    def __init__(self, folder):
        self.folder, self.serial = folder, 0
        self.certificate = os.path.join(folder, "ca.crt")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", os.path.join(folder, "ca.key"), "-out", self.certificate,
                "-subj", "/CN=rotation", "-days", "2",
                "-addext", "keyUsage=critical,keyCertSign", "-addext", "basicConstraints=critical,CA:true")

    def rotate(self):
        """Puts a new pair in the place of the old one, both at once; its serial number."""
        self.serial += 1
        own = os.path.join(self.folder, f"tls-{self.serial}")
        os.mkdir(own)
        key, request = os.path.join(own, "tls.key"), os.path.join(own, "request")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                "-out", request, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", os.path.join(self.folder, "ca.key"),
                "-set_serial", str(self.serial), "-days", "1", "-copy_extensions", "copy",
                "-out", os.path.join(own, "tls.crt"))
        link = os.path.join(self.folder, "link")
        os.symlink(own, link)
        os.replace(link, os.path.join(self.folder, "tls"))
        return self.serial

    def shown(self, port):
        """The serial number of the certificate that a new connection is shown."""
        context = ssl.create_default_context(cafile=self.certificate)
        with socket.create_connection(("localhost", port), 5) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as connection:
                return int(connection.getpeercert()["serialNumber"], 16)

    def lets_in(self, port, token):
        """Whether a request with a token is taken."""
        context = ssl.create_default_context(cafile=self.certificate)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/x-protobuf"}
        request = urllib.request.Request(f"https://localhost:{port}/v1/traces", b"", headers)
        try:
            return urllib.request.urlopen(request, context=context, timeout=10).status == 200
        except urllib.error.HTTPError as error:
            return error.code != 401


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def write(path, lines):
    """Writes a file in one step."""
    with open(f"{path}.new", "w") as file:
        file.write("".join(f"{line}\n" for line in lines))
    os.replace(f"{path}.new", path)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def metrics(port):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()


def total(page, name):
    rows = re.findall(rf"^{name}{{?.*? (\d+)$", page, re.M)
    return sum(map(int, rows))


def start_sender(name, folder, ports):
    program, protocol = SENDERS[name]
    port = ports[protocol]
    certificate = os.path.join(folder, "ca.crt")
    environment = dict(os.environ, OTEL_EXPORTER_OTLP_ENDPOINT=f"https://localhost:{port}", STOP_FILE=os.path.join(folder, "stop"),
                       OTEL_EXPORTER_OTLP_CERTIFICATE=certificate, NODE_EXTRA_CA_CERTS=certificate,
                       OTEL_SERVICE_NAME=name, TOKEN_FILE=os.path.join(folder, f"{name}.sender"))
    program = [part.format(folder=folder) for part in program]
    return subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def have_used(folder, tokens):
    """Each sender has had an export answered with its newest token, and none is under way with an older one."""
    def used(name):
        try:
            return open(os.path.join(folder, f"{name}.sender.used")).read()
        except FileNotFoundError:
            return None
    return all(used(name) == own[-1] for name, own in tokens.items())


def rotate(authority, tokens, folder, collector, ports, number):
    """One round."""
    serial = authority.rotate()
    for name in SENDERS:
        tokens[name].append(secrets.token_hex(16))
        write(os.path.join(folder, name), tokens[name][-2:])
    known = lambda: all(authority.lets_in(ports["http"], own[-1]) for own in tokens.values())
    check(f"round {number}: the new tokens are known", wait_for(known))
    for name in SENDERS:
        write(os.path.join(folder, f"{name}.sender"), tokens[name][-1:])
    collector.send_signal(signal.SIGHUP)
    used = lambda: have_used(folder, tokens)
    check(f"round {number}: each sender exports with its new token", wait_for(used))
    for name in SENDERS:
        write(os.path.join(folder, name), tokens[name][-1:])
    shown = lambda: all(authority.shown(ports[it]) == serial for it in ("grpc", "http"))
    check(f"round {number}: new connections are shown the new certificate", wait_for(shown))
    gone = lambda: not any(authority.lets_in(ports["http"], own[-2]) for own in tokens.values())
    check(f"round {number}: the old tokens are not known", wait_for(gone))


def ended(name, sender):
    out, err = sender.communicate(timeout=60)
    if sender.returncode:
        return {"exported": 0, "failed": 1, "tokens": 0, "error": err[-2000:]}
    return json.loads(out.strip().splitlines()[-1]) | {"error": err[-500:]}


def main():
    binary = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    with tempfile.TemporaryDirectory() as folder:
        go = os.path.join(folder, "go.program")
        subprocess.run(["go", "build", "-C", os.path.join(AGENTS, "go"), "-o", go, "./rotation"], check=True)
        authority = Authority(folder)
        authority.rotate()
        tokens = {name: [secrets.token_hex(16)] for name in SENDERS}
        for name, own in tokens.items():
            write(os.path.join(folder, name), own)
            write(os.path.join(folder, f"{name}.sender"), own)
        grpc, http, scrape = free_ports(3)
        config = os.path.join(folder, "config.yaml")
        write(config, [CONFIG.format(grpc=grpc, http=http, metrics=scrape, folder=folder)])
        log = open(os.path.join(folder, "log"), "w+")
        collector = subprocess.Popen([binary, "serve", "--config", config], stdout=log, stderr=log)
        try:
            run(authority, tokens, folder, collector, {"grpc": grpc, "http": http, "metrics": scrape}, rounds)
        finally:
            collector.terminate()
            check("the collector ends with 0", collector.wait(30) == 0)
            log.seek(0)
            text = log.read()
            print(text[-3000:] if failed else "", end="")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


def run(authority, tokens, folder, collector, ports, rounds):
    def listens():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", ports["grpc"])) == 0
    check("the collector listens", wait_for(listens))
    senders = {name: start_sender(name, folder, ports) for name in SENDERS}
    check("senders send", wait_for(lambda: have_used(folder, tokens), BEGIN_SECONDS))
    for number in range(rounds):
        rotate(authority, tokens, folder, collector, ports, number + 1)
    write(os.path.join(folder, "stop"), [])
    counts = {name: ended(name, sender) for name, sender in senders.items()}
    page = metrics(ports["metrics"])
    for name, found in counts.items():
        what = f"{name}: {found['exported']} exports with {found['tokens']} tokens, none failed"
        check(what, found["failed"] == 0 and found["tokens"] == rounds + 1, str(found))
    sent = sum(found["exported"] for found in counts.values())
    accepted = total(page, "spanscore_receiver_accepted_spans_total")
    check(f"all {sent} spans were accepted", accepted == sent, str(accepted))
    taken = total(page, r'spanscore_config_reloads_total{outcome="taken"}')
    check(f"the config was read again {rounds} times", taken == rounds, str(taken))


if __name__ == "__main__":
    main()
