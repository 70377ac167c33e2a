"""The settings of a pod: variables of a ConfigMap, and the files of a Secret."""

import os
from pathlib import Path

import turbocql

SECRET = Path(os.environ.get("CASSANDRA_SECRET", "/var/run/secrets/cassandra"))


def credentials() -> tuple[str, str]:
    """Returns user and password. Each new connection calls this, so it uses the newest Secret."""
    return (SECRET / "username").read_text().strip(), (SECRET / "password").read_text().strip()


def config() -> turbocql.Config:
    return turbocql.Config.from_env(
        credentials=credentials,
        tls=turbocql.Tls(ca=SECRET / "ca.crt"),
        balancing=turbocql.Balancing(datacenter=os.environ["CASSANDRA_DATACENTER"]),
    )


def cloud_config(profile: str) -> turbocql.Config:
    """Returns the settings of a cluster in the cloud, from a profile in clouds.toml."""
    return turbocql.Config.from_toml("clouds.toml", profile, credentials=credentials)
