"""Finds the Java that runs the server, and makes the command line of a node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import MissingPrerequisite

__all__ = ["Java", "NodeOptions", "command", "find_java"]

SUPPORTED = (17, 11)
_INSTALL = (
    "install OpenJDK 17 (Debian and Ubuntu: apt-get install openjdk-17-jre-headless) "
    "and put java on PATH, or set JAVA_HOME to it"
)

# The packages that the file jvm17-server.options opens. This file is in Cassandra's tarball, but
# not in the jars, so the packages are listed here.
_OPENED_JAVA_BASE = (
    "java.io java.lang java.lang.module java.lang.ref java.lang.reflect java.math java.net "
    "java.nio java.nio.charset java.nio.file.spi java.text java.time java.util "
    "java.util.concurrent java.util.concurrent.atomic jdk.internal.loader jdk.internal.math "
    "jdk.internal.module jdk.internal.ref jdk.internal.reflect jdk.internal.util.jar "
    "sun.nio.ch sun.nio.fs sun.util.locale"
)
_OPENED_ELSEWHERE = (
    "java.management/javax.management "
    "java.rmi/sun.rmi.registry java.rmi/sun.rmi.server java.rmi/sun.rmi.transport.tcp "
    "java.sql/java.sql "
    "jdk.management/com.sun.management.internal "
    "jdk.management.jfr/jdk.management.jfr "
    "jdk.unsupported/sun.misc"
)


@dataclass(frozen=True)
class Java:
    """A Java installation: the program itself and its feature version, 17 for 17.0.15."""

    program: Path
    version: int


@dataclass(frozen=True)
class NodeOptions:
    """The inputs for the command line of one node."""

    lib: Path
    conf: Path
    data: Path
    scratch: Path
    heap_mb: int
    nodes: int
    ring_delay_ms: int
    extra: Sequence[str]


def find_java() -> Java:
    """Finds the Java in JAVA_HOME, else on PATH.

    Raises: `MissingPrerequisite` if there is none, or if Cassandra does not run on it.
    """
    java_path = _on_java_home() or shutil.which("java")
    if not java_path:
        raise MissingPrerequisite(f"Cassandra needs Java and none was found: {_INSTALL}.")
    # `java` on PATH may be a script that starts the real `java`. So Java is asked for its home.
    version_output = subprocess.run(
        [java_path, "-XshowSettings:properties", "-version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    properties = dict(
        re.findall(r"^\s+(java\.\S+) = (.*?)\s*$", version_output.stderr, re.MULTILINE)
    )
    version = properties.get("java.specification.version", "")
    feature = int(version.removeprefix("1.")) if re.fullmatch(r"[\d.]*\d", version) else 0
    if feature not in SUPPORTED:
        problem = f"version {feature}" if feature else "not a working Java"
        raise MissingPrerequisite(
            f"Cassandra 5.0 runs on Java 17 or 11, and {java_path} is {problem}: {_INSTALL}."
        )
    program = Path(properties.get("java.home", "")) / "bin" / "java"
    return Java(program if program.is_file() else Path(java_path), feature)


def _on_java_home() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home) / "bin" / "java")) if home else None


def command(java: Java, options: NodeOptions) -> list[str]:
    """The command line that runs one node in the foreground."""
    opened = [f"java.base/{package}" for package in _OPENED_JAVA_BASE.split()]
    opened += _OPENED_ELSEWHERE.split()
    properties = {
        "cassandra.config": (options.conf / "cassandra.yaml").as_uri(),
        "logback.configurationFile": str(options.conf / "logback.xml"),
        "cassandra.storagedir": str(options.data),
        "cassandra.logdir": str(options.data),
        "cassandra-foreground": "yes",
        "cassandra.skip_wait_for_gossip_to_settle": "0",
        "cassandra.ring_delay_ms": str(options.ring_delay_ms),
        # While a node cannot create the role `cassandra` yet, it waits this long between attempts.
        # With 0, it would try without a pause.
        "cassandra.superuser_setup_delay_ms": "50",
        "cassandra.shutdown_announce_in_ms": "200",
        "cassandra.auth_bcrypt_gensalt_log2_rounds": "4",
        # These keyspaces get replicas on every node, so that a read of system_traces at consistency
        # ALL needs all of the nodes. system_auth has one replica at first. With more replicas, the
        # first node could not write the role `cassandra` at QUORUM while it is alone.
        "cassandra.system_distributed.default_rf": str(options.nodes),
        "cassandra.system_traces.default_rf": str(options.nodes),
        # The JVM unpacks native libraries in this folder. A killed node must leave no files
        # elsewhere.
        "java.io.tmpdir": str(options.scratch),
        "jna.tmpdir": str(options.scratch),
        "jdk.attach.allowAttachSelf": "true",
        "java.awt.headless": "true",
        "file.encoding": "UTF-8",
    }
    return [
        str(java.program),
        f"-Xms{options.heap_mb}m",
        f"-Xmx{options.heap_mb}m",
        "-Xss512k",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        # Only the C1 compiler: with C2, a start takes twice as much processor time.
        "-XX:TieredStopAtLevel=1",
        *(part for name in opened for part in ("--add-opens", f"{name}=ALL-UNNAMED")),
        *(part for name in opened for part in ("--add-exports", f"{name}=ALL-UNNAMED")),
        *(f"-D{name}={value}" for name, value in properties.items()),
        *options.extra,
        "-cp",
        f"{options.conf}{os.pathsep}{options.lib}{os.sep}*",
        "org.apache.cassandra.service.CassandraDaemon",
    ]
