"""Checks what stands in this folder: `python3 deploy/check.py [BINARY]`.

With the tools themselves where they are installed (helm, promtool, systemd-analyze), else by own
rules: documents parse, every metric that a rule or a panel names is one that the binary shows or
docs/operations.md lists, configs inside manifests are right (`spanscore check`), scripts of CI
templates do what they say with the binary.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/spanscore").resolve()
HERE = ROOT / "deploy"
PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def must(ok, what):
    if not ok:
        raise SystemExit(f"wrong: {what}")


def check_config(config, place):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(config)
        file.flush()
        checked = run(BINARY, "check", "--config", file.name)
        must(checked.returncode == 0, f"{place}: {checked.stderr}")


def check_gateway_config(config, place):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(config)
        file.flush()
        checked = run(BINARY, "gateway", "--check", "--config", file.name)
        must(checked.returncode == 0, f"{place}: {checked.stderr}")


def known_metrics():
    names = set(re.findall(r"spanscore_[a-z_]+", (ROOT / "docs/operations.md").read_text()))
    for page in ("output", "kafka"):
        names |= set(re.findall(r"spanscore_[a-z_]+", (ROOT / f"docs/{page}.md").read_text()))
    return names | {f"{name}_{part}" for name in names for part in ("sum", "count", "bucket")}


def check_metrics(expressions, place):
    known = known_metrics() | PROCESS
    for expression in expressions:
        bare = re.sub(r'"[^"]*"|\{\{.*?\}\}', "", expression)
        bare = re.sub(r"spanscore:[a-z0-9_:]+", "", bare)
        for name in re.findall(r"\b(?:spanscore|process)_[a-z_]+\b", bare):
            must(name in known, f"{place}: no metric {name}")


def check_prometheus():
    rules = yaml.safe_load((HERE / "prometheus/rules.yaml").read_text())
    all_rules = [rule for group in rules["groups"] for rule in group["rules"]]
    must(all(("alert" in r) != ("record" in r) for r in all_rules), "a rule alerts or records")
    check_metrics([rule["expr"] for rule in all_rules], "prometheus/rules.yaml")
    fleet = yaml.safe_load((HERE / "prometheus/fleet.yaml").read_text())
    sums = [rule for group in fleet["groups"] for rule in group["rules"]]
    must(all("record" in rule and "instance" not in rule["expr"] for rule in sums), "a fleet is summed")
    check_metrics([rule["expr"] for rule in sums], "prometheus/fleet.yaml")
    if shutil.which("promtool"):
        for what in (("check", "rules", "rules.yaml", "fleet.yaml"), ("test", "rules", "rules_test.yaml")):
            checked = run("promtool", *what, cwd=HERE / "prometheus")
            must(checked.returncode == 0, checked.stdout + checked.stderr)
    tests = yaml.safe_load((HERE / "prometheus/rules_test.yaml").read_text())["tests"]
    told = {case["alertname"] for test in tests for case in test.get("alert_rule_test", []) if case.get("exp_alerts")}
    alerts = {rule["alert"] for rule in all_rules if "alert" in rule}
    must(told == alerts, f"each alert is told by a test of rules_test.yaml: {told ^ alerts}")
    return f"{len(tests)} tests by promtool" if shutil.which("promtool") else "own rules"


def check_grafana():
    board = json.loads((HERE / "grafana/spanscore.json").read_text())
    targets = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    check_metrics(targets, "grafana/spanscore.json")
    must(len({panel["id"] for panel in board["panels"]}) == len(board["panels"]), "ids of panels")
    return f"{len(board['panels'])} panels"


def check_systemd():
    unit = (HERE / "systemd/spanscore.service").read_text()
    must("ExecReload=" in unit, "a reload is told by a hangup")
    if not shutil.which("systemd-analyze"):
        return "not checked: no systemd-analyze"
    with tempfile.TemporaryDirectory() as folder:
        # The unit as it would be, with this binary and this user.
        path = Path(folder) / "spanscore.service"
        text = unit.replace("/usr/bin/spanscore", str(BINARY))
        path.write_text(re.sub(r"^(User|Group)=.*\n", "", text, flags=re.M))
        checked = run("systemd-analyze", "verify", "--man=no", path)
        said = [line for line in checked.stderr.splitlines() if "spanscore" in line]
        must(checked.returncode == 0 and not said, checked.stderr)
    return "systemd-analyze"


def check_helm():
    chart = HERE / "helm/spanscore"
    values = yaml.safe_load((chart / "values.yaml").read_text())
    check_config(yaml.safe_dump(values["config"]), "helm values")
    check_gateway_config(yaml.safe_dump(values["gateway"]["config"]), "helm values of the gateway")
    if not shutil.which("helm"):
        return "values only: no helm"
    must(run("helm", "lint", "--strict", chart).returncode == 0, "helm lint")
    for mode in ("deployment", "statefulset"):
        made = run("helm", "template", "x", chart, "--set", f"mode={mode}")
        must(made.returncode == 0, made.stderr)
        documents = [doc for doc in yaml.safe_load_all(made.stdout) if doc]
        kinds = [doc["kind"] for doc in documents]
        workload = {"deployment": "Deployment", "statefulset": "StatefulSet"}[mode]
        must(workload in kinds and "NetworkPolicy" in kinds, kinds)
        config = next(doc for doc in documents if doc["kind"] == "ConfigMap")["data"]["config.yaml"]
        check_config(config, f"helm {mode}")
        pod = next(doc for doc in documents if doc["kind"] == workload)["spec"]["template"]["spec"]
        mounts = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        must(("data" in mounts) == (mode == "statefulset"), mounts)
        check_scraped(documents)
    check_fleet(chart)
    must(run("helm", "template", "x", chart, "--set", "replicas=2").returncode != 0, "two replicas")
    must("replica" in run("helm", "template", "x", chart, "--set", "replica=2").stderr, "unknown values are refused")
    for key in ("securityContext", "containers", "volumes", "automountServiceAccountToken", "terminationGracePeriodSeconds"):
        must(run("helm", "template", "x", chart, "--set-json", f"pod.{key}=1").returncode != 0, f"pod.{key} is doubled")
    as_it_is = checksum(chart)
    must(checksum(chart, "config.evaluators.tool_error.threshold=1") == as_it_is, "taken while it runs")
    must(checksum(chart, "config.traces.timeout=9s") == as_it_is, "taken while it runs")
    must(checksum(chart, "config.durability=disk") != as_it_is, "rolls the pods")
    return f"helm, {check_values(chart, values)} values"


def check_fleet(chart):
    settings = ("mode=fleet", "replicas=3", "fleet.keda.enabled=true", "serviceMonitor.enabled=true")
    made = run("helm", "template", "x", chart, *(f"--set={setting}" for setting in settings))
    must(made.returncode == 0, made.stderr)
    documents = [doc for doc in yaml.safe_load_all(made.stdout) if doc]
    check_scraped(documents)
    kinds = sorted(doc["kind"] for doc in documents)
    must({"Deployment", "StatefulSet", "PodDisruptionBudget", "ScaledObject"} <= set(kinds), kinds)
    service = next(doc for doc in documents if doc["kind"] == "Service")
    must(service["spec"]["selector"]["app.kubernetes.io/name"] == "spanscore-gateway", "agents reach the gateway")
    replicas = next(doc for doc in documents if doc["kind"] == "StatefulSet")["spec"]
    must("replicas" not in replicas, "the number of replicas is KEDA's")
    config = next(doc["data"]["config.yaml"] for doc in documents if "config.yaml" in doc.get("data", {}))
    check_config(config.replace("${env:POD_NAME}", "x-0"), "helm fleet")
    scaled = next(doc for doc in documents if doc["kind"] == "ScaledObject")["spec"]
    check_metrics([trigger["metadata"]["query"] for trigger in scaled["triggers"]], "helm ScaledObject")


def check_scraped(documents):
    """The ServiceMonitor takes every service with metrics: each pod belongs to one."""
    services = [doc["spec"] for doc in documents if doc["kind"] == "Service"]
    scraped = [json.dumps(spec["selector"]) for spec in services if any(port["name"] == "metrics" for port in spec["ports"])]
    must(scraped and len(set(scraped)) == len(scraped), f"pods are scraped twice: {scraped}")


def check_values(chart, values):
    """Each value, changed, changes what is made in some mode."""
    base = {"serviceMonitor": {"enabled": True}, "fleet": {"keda": {"enabled": True}}}
    leaves = [path for path in paths(values) if path != ("mode",)]
    with tempfile.TemporaryDirectory() as folder:
        def made(mode, path=None):
            changed = json.loads(json.dumps(merged(values, base)))
            at = changed
            for key in (path or ())[:-1]:
                at = at[key]
            if path:
                at[path[-1]] = other(at[path[-1]])
            file = Path(folder) / "values.json"
            file.write_text(json.dumps(changed | {"mode": mode}))
            return run("helm", "template", "x", chart, "--values", file).stdout
        modes = {mode: made(mode) for mode in ("deployment", "statefulset", "fleet")}
        for path in leaves:
            must(any(made(mode, path) not in (text, "") for mode, text in modes.items()), f"{path} does nothing")
    return len(leaves)


def merged(values, more):
    both = {key: merged(values[key], more[key]) for key in more if isinstance(more[key], dict)}
    return values | more | both


def paths(values, before=()):
    """Paths to the values of a chart; configs, labels and such are one each."""
    whole = {"config", "receivers", "resources", "agents", "prometheus"}
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in whole:
            yield from paths(value, (*before, key))
        else:
            yield (*before, key)


def other(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return [*value, {"name": "another"}]
    if isinstance(value, dict):
        return value | {"another": "one"}
    return {"IfNotPresent": "Always"}.get(value, value + "1")


def checksum(chart, *settings):
    """Of the pods' config: they are rolled where it changes."""
    made = run("helm", "template", "x", chart, *(f"--set={setting}" for setting in settings))
    must(made.returncode == 0, made.stderr)
    pod = next(doc for doc in yaml.safe_load_all(made.stdout) if doc and doc["kind"] == "Deployment")["spec"]["template"]
    must("--watch" in pod["spec"]["containers"][0]["args"], "its config is read again")
    return pod["metadata"]["annotations"]["checksum/config"]


def check_operator():
    documents = list(yaml.safe_load_all((HERE / "operator/sidecar.yaml").read_text()))
    config = next(doc for doc in documents if doc["kind"] == "ConfigMap")["data"]["config.yaml"]
    check_config(config, "operator/sidecar.yaml")
    return f"{len(documents)} documents"


def check_ci():
    action = yaml.safe_load((HERE / "ci/github/action.yml").read_text())
    script = action["runs"]["steps"][1]["run"]
    must("${{" not in script, "inputs must not be part of the script")
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(BINARY, Path(folder) / "spanscore")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        base = kept | {"PATH": f"{folder}:{os.environ['PATH']}"}
        inputs = dict(COMMAND="", FILES="examples/traces/*.json", CONFIG="", BASELINE="", MIN_PASS_RATE="")
        summary = Path(folder) / "summary.md"
        environment = base | inputs | {"GITHUB_STEP_SUMMARY": str(summary)}
        scored = run("bash", "-e", "-c", script, cwd=ROOT, env=environment)
        must(scored.returncode == 2 and "::error title=tool_error" in scored.stdout, scored)
        must(summary.read_text().startswith("## spanscore: gate shut"), summary)
        environment["COMMAND"] = "spanscore send --sample"
        scored = run("bash", "-e", "-c", script, cwd=ROOT, env=environment)
        must(scored.returncode == 2 and "0.800" in scored.stdout, scored)
        job = yaml.safe_load((HERE / "ci/gitlab/spanscore.yml").read_text())[".spanscore"]
        environment = base | job["variables"] | {"SPANSCORE_COMMAND": "spanscore send --sample"}
        scored = run("sh", "-e", "-c", job["script"][1], cwd=folder, env=environment)
        must(scored.returncode == 2, scored)
        must("<testsuites" in (Path(folder) / "scores.xml").read_text(), "scores.xml")
    return "both templates run"


for check in (check_prometheus, check_grafana, check_systemd, check_helm, check_operator, check_ci):
    print(f"{check.__name__.removeprefix('check_'):<11} {check()}")
