"""The embedded servers: Mosquitto and Apache Kafka as child processes on loopback.

For the demo and the tests. Each keeps its data in a folder given to it and its port over
a restart, so that a test can kill one and bring it back. Mosquitto is a Debian package;
Kafka's jars come from Maven (`kafka/pom.xml`) into the user's cache folder, once, or
from `KAFKA_HOME`.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from ctl import children, errors, ports

KAFKA_VERSION: Final = "4.1.2"
POM: Final = Path(__file__).parent / "kafka" / "pom.xml"
READY_TIMEOUT_S: Final = 60.0

MOSQUITTO_CONF: Final = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence {persistence}
persistence_location {folder}/
autosave_interval 1
autosave_on_changes false
max_queued_messages 100000
max_inflight_messages 1000
max_packet_size 1048576
log_type error
log_type warning
log_type notice
"""

KAFKA_CONF: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
auto.create.topics.enable=false
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.cleaner.dedupe.buffer.size=8388608
"""

LOG4J_CONF: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


class Server:
    """A child process with a port and a folder; use as a context or start and stop it."""

    def __init__(self, name: str, folder: Path, port: int) -> None:
        self.port = port or ports.free()
        self.folder = folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.child = children.Child(name, self._argv(), self.folder)

    def _argv(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        """Start and wait until the port answers; raises `CtlError` with the log's end."""
        self.child.start()
        children.wait_until(
            self.child.name, self._answers, timeout_s=READY_TIMEOUT_S, children=[self.child]
        )

    def stop(self) -> None:
        """End it as an operator would; data and port are kept."""
        self.child.stop()

    def kill(self) -> None:
        """End it as a power cut would; data and port are kept."""
        self.child.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Mosquitto(Server):
    """An MQTT 5 broker for anyone on loopback; `persistence` keeps sessions over a restart."""

    def __init__(self, folder: Path, port: int = 0, *, persistence: bool = True) -> None:
        self._binary = find("mosquitto", "mosquitto")
        self._persistence = persistence
        super().__init__("mosquitto", folder, port)

    def _argv(self) -> list[str]:
        conf = self.folder / "mosquitto.conf"
        text = MOSQUITTO_CONF
        if os.geteuid() == 0:
            text += "user root\n"  # it would drop to a user that may not write here
        persistence = str(self._persistence).lower()
        conf.write_text(text.format(port=self.port, folder=self.folder, persistence=persistence))
        return [self._binary, "-c", str(conf)]


class Kafka(Server):
    """Apache Kafka in KRaft mode, broker and controller in one process."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self._java = find("java", "default-jre-headless")
        self._libs = kafka_libs()
        self._controller_port = ports.free()
        super().__init__("kafka", folder, port)

    @property
    def bootstrap(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self.port}"

    def _argv(self) -> list[str]:
        (self.folder / "log4j2.properties").write_text(LOG4J_CONF)
        (self.folder / "server.properties").write_text(
            KAFKA_CONF.format(port=self.port, controller=self._controller_port, folder=self.folder)
        )
        return self._jvm("-Xmx384m", "kafka.Kafka")

    def start(self) -> None:
        """Start it, on formatted storage."""
        if not (self.folder / "log").exists():
            cluster_id = uuid.uuid4().hex[:22]
            command = self._jvm(
                "-Xmx128m", "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c"
            )
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode != 0:
                raise errors.CtlError(f"Kafka's storage: {made.stdout}{made.stderr}")
        super().start()

    def _jvm(self, memory: str, main: str, *args: str) -> list[str]:
        log4j = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        tuning = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        properties = str(self.folder / "server.properties")
        classpath = f"{self._libs}/*"
        return [self._java, memory, *tuning, log4j, "-cp", classpath, main, *args, properties]


def find(command: str, package: str) -> str:
    """Where a program is; raises `Unavailable` with the package to install."""
    path = shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        line = f"sudo apt-get install -y --no-install-recommends {package}"
        raise errors.Unavailable(f"{command} is not on this machine; run: {line}")
    return path


def kafka_libs() -> Path:
    """The folder with Kafka's jars, fetched by Maven the first time."""
    home = os.environ.get("KAFKA_HOME")
    if home:
        libs = Path(home) / "libs"
        if not libs.is_dir():
            raise errors.Unavailable(f"KAFKA_HOME={home} has no folder libs")
        return libs
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    libs = cache / "windvane" / f"kafka-{KAFKA_VERSION}"
    if libs.is_dir():
        return libs
    libs.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=libs.parent) as scratch:
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        out = f"-DoutputDirectory={scratch}/lib"
        command = [find("mvn", "maven"), "-q", "-B", "-f", str(POM), *goal, out]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise errors.Unavailable(f"Kafka's jars by Maven: {made.stdout[-2000:]}")
        with contextlib.suppress(OSError):  # somebody else was faster
            os.rename(f"{scratch}/lib", libs)  # noqa: PTH104 - whole or not at all
    if not libs.is_dir():
        raise errors.Unavailable(f"Kafka's jars by Maven: cannot make {libs}")
    return libs


def versions() -> Mapping[str, str]:
    """The servers on this machine, by name; fetches Kafka's jars if need be."""
    help_text = subprocess.run(
        [find("mosquitto", "mosquitto"), "-h"], capture_output=True, text=True, check=False
    ).stdout
    mosquitto = re.search(r"version (\S+)", help_text)
    jar = next(kafka_libs().glob("kafka-clients-*.jar"), None)
    kafka = re.search(r"kafka-clients-(.+)\.jar", jar.name if jar else "")
    return {
        "Mosquitto": mosquitto[1] if mosquitto else "unknown",
        "Apache Kafka": kafka[1] if kafka else "unknown",
    }
