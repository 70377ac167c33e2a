"""Starts a Cassandra, runs a command with its address in the environment, and stops it.

Usage: scripts/with_cassandra.py COMMAND ARGUMENTS...

The variable `CASSANDRA_ADDRESS` of the command's environment is the address, as `host:port`. If the
variable is set already, no Cassandra is started. The exit status is that of the command.
"""

from __future__ import annotations

import os
import subprocess
import sys

from turbocql.testing import Cassandra


def main() -> int:
    command = sys.argv[1:]
    if os.environ.get("CASSANDRA_ADDRESS"):
        return subprocess.run(command).returncode
    # The server is busy for many minutes, so that it pays off to optimize it.
    with Cassandra(jvm_options=["-XX:TieredStopAtLevel=4"]) as cluster:
        environment = os.environ | {"CASSANDRA_ADDRESS": cluster.contact_points[0]}
        return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
