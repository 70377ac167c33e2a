"""The files that a node reads when it starts: cassandra.yaml and logback.xml."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .addresses import CQL_PORT, STORAGE_PORT
from .tls import Certificates

__all__ = ["Location", "cassandra_yaml", "locations", "write_config"]

# The server logs to standard output, which `guard.py` redirects to the node's log file. So the file
# also contains the messages of a JVM that cannot start, or that crashes.
_LOGBACK = """\
<configuration>
  <appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level [%thread] %date{ISO8601} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="STDOUT"/></root>
</configuration>
"""


def cassandra_yaml(
    *,
    name: str,
    address: str,
    seed: str,
    data: Path,
    authentication: bool,
    certificates: Certificates | None,
) -> dict[str, Any]:
    """The settings of one node, as the top level of its cassandra.yaml."""
    settings: dict[str, Any] = {
        "cluster_name": name,
        "num_tokens": 16,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": f"{seed}:{STORAGE_PORT}"}],
            }
        ],
        "listen_address": address,
        "rpc_address": address,
        "storage_port": STORAGE_PORT,
        "native_transport_port": CQL_PORT,
        "start_native_transport": True,
        # All nodes start empty, so a new node need not stream data from the others.
        "auto_bootstrap": False,
        "data_file_directories": [str(data / "data")],
        "commitlog_directory": str(data / "commitlog"),
        "hints_directory": str(data / "hints"),
        "cdc_raw_directory": str(data / "cdc_raw"),
        "saved_caches_directory": str(data / "saved_caches"),
        "commitlog_sync": "periodic",
        "commitlog_sync_period": "10000ms",
        "auto_snapshot": False,
        "memtable_allocation_type": "heap_buffers",
        "concurrent_reads": 8,
        "concurrent_writes": 8,
        # The timeouts are long, because a machine that runs three nodes and a test may be slow.
        "read_request_timeout": "10s",
        "range_request_timeout": "20s",
        "write_request_timeout": "10s",
        "counter_write_request_timeout": "10s",
        "request_timeout": "20s",
        "user_defined_functions_enabled": True,
        "materialized_views_enabled": True,
        "authenticator": "PasswordAuthenticator" if authentication else "AllowAllAuthenticator",
        "authorizer": "CassandraAuthorizer" if authentication else "AllowAllAuthorizer",
    }
    if certificates is not None:
        settings["client_encryption_options"] = {
            "enabled": True,
            "optional": False,
            "require_client_auth": certificates.client_required,
            # This class reads PEM files, so no Java key store is needed.
            "ssl_context_factory": {
                "class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory"
            },
            "keystore": str(certificates.server_pem),
            "truststore": str(certificates.ca),
        }
    return settings


class Location(NamedTuple):
    """The datacenter and the rack of a node."""

    datacenter: str
    rack: str


def locations(racks: Sequence[str | tuple[str, str]], nodes: int) -> list[Location]:
    """Returns the location of each of a cluster's `nodes` nodes, from the option `racks`.

    Raises: `TypeError` if `racks` or an entry is of another type than annotated; `ValueError`
        unless there is one entry for each node, and for names that the server cannot read.
    """
    if isinstance(racks, str) or not isinstance(racks, Sequence):
        raise TypeError(f"racks: expected the racks of {nodes} nodes, got {racks!r}")
    read = [
        Location("datacenter1", entry) if isinstance(entry, str) else Location(*_pair(entry))
        for entry in racks
    ]
    if len(read) != nodes:
        raise ValueError(f"racks: expected the racks of {nodes} nodes, got {racks!r}")
    for name in (name for location in read for name in location):
        if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
            raise ValueError(f"racks: expected letters, digits and any of _.-, got {name!r}")
    return read


def _pair(entry: Any) -> tuple[str, str]:
    if isinstance(entry, tuple) and [type(name) for name in entry] == [str, str]:
        return entry[0], entry[1]
    raise TypeError(f"racks: expected a rack or (datacenter, rack) for each node, got {entry!r}")


def write_config(
    conf: Path, settings: Mapping[str, Any], replaced: Mapping[str, Any], location: Location | None
) -> None:
    """Writes cassandra.yaml, logback.xml and, if there is a `location`, the file that contains it.

    The entries of `replaced` replace entries of `settings`. JSON is valid YAML, so no YAML library
    is needed.
    """
    conf.mkdir(parents=True, exist_ok=True)
    settings = {**settings, **replaced}
    if location is not None:
        settings["endpoint_snitch"] = "GossipingPropertyFileSnitch"
        text = f"dc={location.datacenter}\nrack={location.rack}\n"
        (conf / "cassandra-rackdc.properties").write_text(text, encoding="utf-8")
    (conf / "cassandra.yaml").write_text(json.dumps(settings, indent=2), encoding="utf-8")
    (conf / "logback.xml").write_text(_LOGBACK, encoding="utf-8")
