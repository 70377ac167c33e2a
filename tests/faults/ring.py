"""Moves the last node of a cluster to another address, removes the node, and adds it again.

The changes need Cassandra's tool `nodetool`, and restarts of the node.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

from turbocql.testing import Cassandra, jars, java
from turbocql.testing.addresses import CQL_PORT

__all__ = ["Ring"]

_DECOMMISSION_S = 90


class Ring:
    """The last node of a cluster of three nodes, which moves, leaves and joins again."""

    def __init__(self, cluster: Cassandra) -> None:
        self.node = cluster.nodes[2]
        block = self.node.address.rpartition(".")[0]
        # No other cluster uses this block of addresses, so both addresses are free. They differ,
        # because an added node needs an address that the other nodes have not seen before.
        self._moved_address, self._added_address = f"{block}.4", f"{block}.5"
        self._home = self.node.log.parent.parent / "nodes" / "3"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._management_port = free.getsockname()[1]

    @property
    def moved_contact_point(self) -> str:
        """The contact point of the node after `move`."""
        return f"{self._moved_address}:{CQL_PORT}"

    @property
    def added_contact_point(self) -> str:
        """The contact point of the node after `add`."""
        return f"{self._added_address}:{CQL_PORT}"

    def move(self) -> None:
        """Starts the stopped node at another address, and waits until it answers."""
        self._start_at(self._moved_address, f"-Dcassandra.jmx.local.port={self._management_port}")

    def decommission(self) -> None:
        """Makes the moved node leave the cluster."""
        options = java.NodeOptions(
            lib=jars.ensure_jars(),
            conf=self._home / "conf",
            data=self._home,
            scratch=self._home / "tmp",
            heap_mb=64,
            nodes=3,
            ring_delay_ms=0,
            extra=(f"-Duser.home={self._home}",),
        )
        command = java.command(java.find_java(), options)[:-1]
        tool = "org.apache.cassandra.tools.NodeTool", "-h", "127.0.0.1"
        port = "-p", str(self._management_port)
        done = subprocess.run(
            [*command, *tool, *port, "decommission", "--force"],
            capture_output=True,
            text=True,
            timeout=_DECOMMISSION_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def add(self) -> None:
        """Starts the node at a third address, without data, and waits until it answers."""
        self.node.kill()
        for path in self._home.iterdir():
            if path.name not in ("conf", "tmp"):
                _remove(path)
        self._start_at(self._added_address, "")

    def _start_at(self, address: str, options: str) -> None:
        path = self._home / "conf" / "cassandra.yaml"
        settings = json.loads(path.read_text(encoding="utf-8"))
        settings |= {"listen_address": address, "rpc_address": address}
        path.write_text(json.dumps(settings), encoding="utf-8")
        self.node.stand_behind(address)
        self.node.upstream_address = address
        before = os.environ.get("JAVA_TOOL_OPTIONS")
        os.environ["JAVA_TOOL_OPTIONS"] = options
        try:
            self.node.launch()
        finally:
            if before is None:
                del os.environ["JAVA_TOOL_OPTIONS"]
            else:
                os.environ["JAVA_TOOL_OPTIONS"] = before
        self.node.wait_until_answering()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
