"""A real broker of Kafka, from Maven: formatted, started, killed, started again.

    tests/kafka/broker.py FOLDER TOPIC:PARTITIONS...

Alone it prints its address once the topics are there, and runs until it is told to stop.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
VERSION = os.environ.get("KAFKA_VERSION", "4.1.0")
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def libraries(folder):
    """The jars of Kafka, fetched once."""
    jars = folder / "libs"
    if not jars.exists():
        command = ["mvn", "-q", "-f", str(HERE / "pom.xml"), f"-Dkafka.version={VERSION}",
                   "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        subprocess.run(command, check=True)
    return jars


class Broker:
    """One broker that is its own controller."""

    def __init__(self, folder, config="", users=(), proxy=None):
        """With more lines of its config, users that sign in by SCRAM, `MECHANISM=[...]`, and a proxy
        before the second listener."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.classpath = f"{libraries(HERE.parents[1] / 'target/kafka')}/*"
        port, secure, controller = free_port(), free_port(), free_port()
        self.address, self.secure = f"127.0.0.1:{port}", f"127.0.0.1:{secure}"
        protocol = "SASL_SSL" if users else "PLAINTEXT"
        if proxy:
            proxy.broker = self.secure
        advertised = proxy.address if proxy else self.secure
        shutil.rmtree(folder / "data", ignore_errors=True)
        self.config = folder / "server.properties"
        self.config.write_text(f"""
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SECURE://{advertised}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:{protocol}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=200
auto.create.topics.enable=false
{config}
""")
        scram = [word for user in users for word in ("--add-scram", user)]
        self.run("kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, *scram,
                 "-c", str(self.config))
        self.process = None
        self.start()

    def java(self, *arguments, heap="512m"):
        return ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-cp", self.classpath,
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", *arguments]

    def run(self, *arguments):
        done = subprocess.run(self.java(*arguments), check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        return done.stdout

    def start(self):
        log = open(self.folder / "broker.log", "a")
        self.process = subprocess.Popen(self.java("kafka.Kafka", str(self.config)), stdout=log,
                                        stderr=log)
        host, port = self.address.split(":")
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    return
            time.sleep(0.1)
        raise RuntimeError("the broker does not listen")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def create(self, topic, partitions, **settings):
        more = [word for key, value in settings.items()
                for word in ("--config", f"{key.replace('_', '.')}={value}")]
        self.run("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.address,
                 "--create", "--topic", topic, "--partitions", str(partitions), *more)

    def configure(self, topic, change):
        """Changes the config of a topic: `("--add-config", "a=b")`."""
        self.run("kafka.admin.ConfigCommand", "--bootstrap-server", self.address, "--alter",
                 "--entity-type", "topics", "--entity-name", topic, *change)

    def records(self, topic, count):
        """Keys and values of the first records of a topic, as text."""
        shown = self.run("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server",
                         self.address, "--topic", topic, "--from-beginning", "--max-messages",
                         str(count), "--timeout-ms", "60000", "--property", "print.key=true")
        return [line.split("\t", 1) for line in shown.splitlines() if "\t" in line]

    def lag(self, group):
        """Records of the group's topics behind its committed positions, and partitions seen."""
        shown = self.run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
                         "--bootstrap-server", self.address, "--describe", "--group", group)
        rows = [re.split(r"\s+", line) for line in shown.splitlines() if line.startswith(group)]
        return sum(int(row[5]) for row in rows if row[5].isdigit()), len(rows)


def main():
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    broker = Broker(folder)
    try:
        for topic in sys.argv[2:]:
            name, partitions = topic.rsplit(":", 1)
            broker.create(name, int(partitions))
        print(broker.address, flush=True)
        signal.pause()
    finally:
        broker.kill()


if __name__ == "__main__":
    main()
