"""Tests the recipe for Kubernetes and clouds: its settings and its worker."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import turbocql

from .support import EXAMPLES, Server

FOLDER = EXAMPLES / "kubernetes"


def documents() -> dict[str, Any]:
    """Returns the documents of deployment.yaml, by kind."""
    text = (FOLDER / "deployment.yaml").read_text(encoding="utf-8")
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def pod() -> Any:
    return documents()["Deployment"]["spec"]["template"]["spec"]


def settings(monkeypatch: pytest.MonkeyPatch, secret: Path) -> Any:
    """Imports settings.py with the environment variables of the pod and the files of its secret."""
    for name, text in documents()["ConfigMap"]["data"].items():
        assert isinstance(text, str), name
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("CASSANDRA_SECRET", str(secret))
    for name, text in (("username", "notes\n"), ("password", "first\n"), ("ca.crt", "PEM")):
        (secret / name).write_text(text)
    spec = importlib.util.spec_from_file_location("pod_settings", FOLDER / "settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_pod_reads_its_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = settings(monkeypatch, tmp_path)
    config = module.config()
    assert config.contact_points == (
        "cassandra-0.cassandra.db.svc:9042",
        "cassandra-1.cassandra.db.svc:9042",
    )
    assert (config.keyspace, config.timeout_s, config.wait_s) == ("app", 5.0, 60.0)
    assert config.balancing.datacenter == "dc1"
    assert config.tls.ca == tmp_path / "ca.crt"
    assert config.credentials() == ("notes", "first")
    (tmp_path / "password").write_text("second\n")
    assert config.credentials() == ("notes", "second")
    assert "second" not in repr(config)


def test_the_pod_mounts_what_the_settings_read() -> None:
    (container,) = pod()["containers"]
    (mount,) = container["volumeMounts"]
    assert f'"{mount["mountPath"]}"' in (FOLDER / "settings.py").read_text(encoding="utf-8")
    assert [volume["name"] for volume in pod()["volumes"]] == [mount["name"]]
    name = documents()["ConfigMap"]["metadata"]["name"]
    assert container["envFrom"] == [{"configMapRef": {"name": name}}]
    service = (EXAMPLES / "with_fastapi" / "app.py").read_text(encoding="utf-8")
    assert [variable["name"] for variable in container["env"]] == re.findall(
        r'os\.environ\["(\w+)"\]', service
    )


def test_the_probes_are_those_of_the_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service = (EXAMPLES / "with_fastapi" / "app.py").read_text(encoding="utf-8")
    (container,) = pod()["containers"]
    probes = {name: container[name] for name in container if name.endswith("Probe")}
    assert set(probes) == {"startupProbe", "livenessProbe", "readinessProbe"}
    for probe in probes.values():
        assert f'@app.get("{probe["httpGet"]["path"]}"' in service
    (timeout_s,) = re.findall(r"timeout_s=(\d+)", service)
    assert probes["readinessProbe"]["timeoutSeconds"] > int(timeout_s)
    start = probes["startupProbe"]
    wait_s = settings(monkeypatch, tmp_path).config().wait_s
    assert start["periodSeconds"] * start["failureThreshold"] > wait_s
    stop = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    graceful = int(container["command"][container["command"].index("--host") + 3])
    assert pod()["terminationGracePeriodSeconds"] > stop + graceful + 10


@pytest.mark.parametrize(
    ("profile", "datacenter"), [("scylladb-cloud", "AWS_EU_WEST_1"), ("behind-nat", "dc1")]
)
def test_profiles_of_clouds_are_settings(
    profile: str, datacenter: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = settings(monkeypatch, tmp_path)
    monkeypatch.chdir(FOLDER)
    config = module.cloud_config(profile)
    assert isinstance(config, turbocql.Config)
    assert config.balancing.datacenter == datacenter
    assert config.credentials is not None
    assert config.credentials() == ("notes", "first")
    assert len(config.contact_points) >= 2
    assert len(config.addresses) == (2 if profile == "behind-nat" else 0)


def test_a_worker_ends_at_sigterm(server: Server, session: turbocql.Session) -> None:
    session.execute("CREATE TABLE heartbeats (pod text, at timestamp, PRIMARY KEY (pod, at))")
    running = server("kubernetes", "worker", HOSTNAME="notes-7d9f")
    select = "SELECT count(*) FROM heartbeats WHERE pod = 'notes-7d9f'"
    running.wait_for(lambda: session.execute(select).scalar())
    assert running.terminate() == 0, running.log()
    assert running.log() == "closed: True\n"
