"""Checks that errors and settings show no secret, even one that is passed as the wrong setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.refusals import SECRET, chain, refused

import turbocql
from turbocql import Config, Tls
from turbocql.diagnose.__main__ import main
from turbocql.errors import ConfigError


@pytest.mark.parametrize("points", ["ann:hunter2@db1", ["db1", "cql://ann:hunter2@db1"]])
def test_a_url_among_contact_points_is_not_shown(points: Any) -> None:
    for make in (turbocql.connect, turbocql.aio.connect, Config):
        assert "from_url" in refused(lambda: make(contact_points=points))  # noqa: B023
    assert "from_url" in refused(lambda: Config(contact_points="cql://ann:hunter2@db1"))


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ("ann:hunter2", "contact point 1: the port must be a number"),
        (["db1", "ann:hunter2"], "contact point 2: the port must be a number"),
        ("[hunter2]:1", "contact point 1: expected an IPv6 address, or host:port with one colon"),
        (
            "ann:hunter2:1",
            "host:port with one colon, got a text with 2 of them, which is not shown",
        ),
        ("ann/x:hunter2", "contact point 1: expected a host name"),
        ([["cql://ann:hunter2@db1"]], "contact point 1 must be a str like 'host:9042', got list"),
        ([b"cql://ann:hunter2@db1"], "contact point 1 must be a str like 'host:9042', got bytes"),
        ([{"password": "hunter2"}], "contact point 1 must be a str like 'host:9042', got dict"),
        ("db1:70000", "contact point 'db1:70000': the port must be a number from 1 to 65535"),
        ("a b", "contact point 'a b': expected a host name"),
        ("::1::2", "contact point '::1::2': expected an IPv6 address"),
    ],
)
def test_a_port_that_is_no_number_is_not_shown(points: Any, said: str) -> None:
    for make in (turbocql.connect, turbocql.aio.connect, Config):
        assert said in refused(lambda: make(contact_points=points))  # noqa: B023


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"keyspace": "cql://ann:hunter2@db1"}, "keyspace must be 1 to 48"),
        ({"keyspace": ["hunter2"]}, "keyspace must be a non-empty str"),
        ({"contact_points": []}, "contact_points must be a host or a sequence of hosts, got none"),
        ({"contact_points": 5}, "contact_points must be a host or a sequence of hosts, got int"),
        ({"user": "ann", "password": ["hunter2"]}, "password must be a non-empty str, got list"),
        ({"user": "", "password": "hunter2"}, "user must be a non-empty str, got an empty one"),
        ({"local_address": "hunter2@db1"}, "got str (not shown)"),
        ({"local_address": ["hunter2"]}, "got list (not shown)"),
        ({"addresses": {"10.0.0.1": "cql://ann:hunter2@db1"}}, "got str (not shown)"),
        ({"addresses": {"ann:hunter2": "10.0.0.1"}}, "got str (not shown)"),
        ({"profiles": {"a": {"password": "hunter2"}}}, "an ExecutionProfile, got dict (not shown)"),
        ({"profiles": {"cql://ann:hunter2@db1": 5}}, "profile str (not shown) must be"),
        ({"profiles": {("hunter2",): 5}}, "must be a non-empty str, got tuple (not shown)"),
        ({"balancing": {"password": "hunter2"}}, "must be a Balancing, got dict (not shown)"),
        ({"speculation": {"password": "hunter2"}}, "got dict (not shown)"),
        ({"retry": ["hunter2"]}, "retry must be a str, got list (not shown)"),
        ({"retry": "cql://ann:hunter2@db1"}, "one of ('default', 'fallthrough', 'downgrading')"),
        ({"consistency": {"hunter2": 1}}, "got dict (not shown)"),
        ({"compression": "cql://ann:hunter2@db1"}, "compression must be one of"),
        ({"port": "cql://ann:hunter2@db1"}, "port must be an int from 1 to 65535"),
        ({"timeout_s": ["hunter2"]}, "timeout_s must be a number of seconds above 0, got list"),
        ({"client_timestamps": {"hunter2"}}, "client_timestamps must be a bool, got set"),
    ],
)
def test_a_secret_in_another_setting_is_not_shown(settings: dict[str, Any], said: str) -> None:
    for make in (turbocql.connect, turbocql.aio.connect, Config):
        assert said in refused(lambda: make(**settings))  # noqa: B023


@pytest.mark.parametrize("config", ["cql://ann:hunter2@db1", {"password": "hunter2"}, 5])
def test_config_must_be_a_config(config: Any) -> None:
    for connect in (turbocql.connect, turbocql.aio.connect, turbocql.dbapi.connect):
        assert "config must be a Config, got " in refused(lambda: connect(config=config))  # noqa: B023


WITHIN = st.text("/?#:;&=%,[]. a1", max_size=6)


@given(
    name=st.sampled_from(["contact_points", "keyspace", "local_address", "addresses", "retry"]),
    scheme=st.sampled_from(["cql://", "cqls://", "://", ""]),
    before=WITHIN,
    after=WITHIN,
    end=st.sampled_from(["@db1", "@db1/app", "@", ""]),
)
@example("contact_points", "", ",x", "", "@db1")
@example("contact_points", "", "", "", "")
@example("local_address", "", "", "", "")
def test_a_password_among_settings_is_shown_nowhere(
    name: str, scheme: str, before: str, after: str, end: str
) -> None:
    """A URL is passed as the value of a wrong setting. The error must not show its password."""
    text = f"{scheme}ann:{before}{SECRET}{after}{end}"
    wrong: list[Any] = [text, [text], {text: text}, {"10.0.0.1": text}, text.encode()]
    if name == "contact_points":
        wrong.append([part for part in text.split(",") if part.strip()])
    for value in wrong:
        try:
            Config(**{name: value})
        except ConfigError as error:
            for link in chain(error):
                assert SECRET not in f"{link!r}{link}{vars(link)}"
        else:
            # The commas split this text into valid host names. So `Config` cannot notice that the
            # text is a URL.
            assert name == "contact_points"
            assert not scheme
            assert "@" not in end


def test_the_command_line_of_a_diagnosis_shows_no_password(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for url in (f"ann:{SECRET}", f"cql://ann:1234/{SECRET}-x"):
        assert main([url]) == 1
        printed = capsys.readouterr()
        assert "no session: " in printed.err
        assert SECRET not in printed.out + printed.err


# Certificates and keys

KEY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" + SECRET


@pytest.mark.parametrize("key", [KEY, KEY + ".x", f"/{SECRET}\0", SECRET * 100, Path(SECRET)])
def test_a_key_where_its_path_belongs_is_not_shown(key: Any) -> None:
    tls = Tls(certificate=b"", key=key)
    assert refused(tls._native).startswith("tls: key: <not shown>: ")
    assert SECRET not in repr(Config(tls=tls))


@pytest.mark.parametrize("key", [KEY, SECRET * 100, f"-----BEGIN {SECRET}"])
def test_a_key_in_the_place_of_a_certificate_is_not_shown(key: str) -> None:
    for tls in (Tls(certificate=key, key=key), Tls(ca=key)):
        assert SECRET not in repr(tls)
        assert "<not shown>" in repr(tls)
        assert "tls: c" in refused(tls._native)
    assert "got str (not shown)" in refused(lambda: Tls(verify=SECRET * 100))  # type: ignore[arg-type]


def test_paths_are_shown(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    assert f"tls: ca: {missing!r}: No such file" in refused(Tls(ca=missing)._native)
    there = tmp_path / "there"
    there.write_bytes(b"x")
    assert repr(Tls(ca=str(there))).startswith(f"Tls(ca={str(there)!r}, certificate=None,")
    assert f"tls: key: {str(tmp_path)!r}: Is a directory" in refused(
        Tls(certificate=there, key=tmp_path)._native
    )


def test_a_key_in_a_file_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "db.toml"
    file.write_text(f"[default]\ntls = {{certificate = '{KEY}', key = '{KEY}'}}")
    config = Config.from_toml(file)
    assert SECRET not in repr(config)
    assert "tls: certificate: <not shown>: " in refused(config._native)
