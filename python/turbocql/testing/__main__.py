"""Starts a Cassandra from the command line, prints how to connect, and ends it on Ctrl-C.

python -m turbocql.testing --nodes 3 --auth
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from urllib.parse import quote

from .cluster import Cassandra
from .errors import CassandraError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    cluster = Cassandra(
        options.nodes,
        tls=options.tls,
        require_client_certificate=options.require_client_certificate,
        authentication=options.auth,
        heap_mb=options.heap_mb,
        keep_logs=options.keep_logs,
    )
    # SIGTERM and a closed terminal (SIGHUP) end the program like Ctrl-C. SIGINT needs a handler
    # too, because shell scripts start background processes with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup sets SIG_IGN
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        print(f"starting Cassandra on {options.nodes} node(s) ...", flush=True)
        with cluster:
            print(_how_to_connect(cluster), flush=True)
            while all(node.is_running for node in cluster.nodes):
                threading.Event().wait(1.0)
            ended = [node.address for node in cluster.nodes if not node.is_running]
            print(f"the process of {', '.join(ended)} has ended", file=sys.stderr)
            return 1
    except KeyboardInterrupt:
        print("\nended", flush=True)
    except CassandraError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m turbocql.testing",
        description="Starts Apache Cassandra on loopback addresses of its own, until Ctrl-C.",
    )
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 2, 3), help="default: 1")
    parser.add_argument("--tls", action="store_true", help="encrypt client connections")
    parser.add_argument(
        "--require-client-certificate",
        action="store_true",
        help="with --tls: accept only clients with a certificate of the same authority",
    )
    parser.add_argument("--auth", action="store_true", help="require a user and a password")
    parser.add_argument("--heap-mb", type=int, help="heap of each node, in MiB")
    parser.add_argument("--keep-logs", action="store_true", help="do not remove the logs")
    return parser


def _how_to_connect(cluster: Cassandra) -> str:
    address = cluster.contact_points[0]
    settings, tls = {}, {}
    lines = [f"contact points: {', '.join(cluster.contact_points)}"]
    if cluster.user:
        lines.append(f"user, password: {cluster.user}, {cluster.password}")
        settings = {"user": cluster.user, "password": str(cluster.password)}
    if cluster.ca_certificate:
        lines.append(f"CA certificate: {cluster.ca_certificate}")
        lines.append(f"client pair:    {cluster.client_certificate}, {cluster.client_key}")
        pair = {"certificate": cluster.client_certificate, "key": cluster.client_key}
        tls = {name: str(path) for name, path in {"ca": cluster.ca_certificate, **pair}.items()}
    lines += [f"log:            {node.log}" for node in cluster.nodes]
    # The lines are not indented, so that they can be pasted into a shell and into Python.
    arguments = [f'"{address}"', *_settings(settings, "=")]
    arguments += [f"tls=turbocql.Tls({', '.join(_settings(tls, '='))})"] if tls else []
    lines += ["", "import turbocql", f"session = turbocql.connect({', '.join(arguments)})", ""]
    if tls:
        lines += [
            "turbocql shell --config FILE --profile testing, with this FILE:",
            *("[testing]", f'contact_points = ["{address}"]', *_settings(settings, " = ")),
            *("[testing.tls]", *_settings(tls, " = ")),
        ]
    else:
        access = ":".join(quote(text, safe="") for text in settings.values())
        url = f"{access}@{address}" if access else address
        lines += [
            f"turbocql shell --url cql://{url}",
            f"export TURBOCQL_URL=cql://{url}  # for all commands",
        ]
    return "\n".join([*lines, "", "Ctrl-C ends it."])


def _settings(values: dict[str, str], equals: str) -> list[str]:
    """Returns an assignment for each value, in a form that both Python and TOML can read."""
    return [f"{name}{equals}{json.dumps(value)}" for name, value in values.items()]


if __name__ == "__main__":
    sys.exit(main())
