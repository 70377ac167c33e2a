"""Tests settings from URLs, the environment and files: the values and the errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.refusals import SECRET, chain, refused

import turbocql
from turbocql import (
    Balancing,
    Config,
    Consistency,
    ConstantSpeculation,
    ExecutionProfile,
    LatencyAwareness,
    PercentileSpeculation,
    Tls,
)
from turbocql._config.convert import convert, fields_of
from turbocql.errors import ConfigError

NOT_TEXT = {"addresses", "authenticator", "balancing", "credentials", "profiles", "speculation"}
"""The settings that text cannot express, because they are tables or Python objects."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes variables that begin with `TURBOCQL_` from the environment."""
    for name in [name for name in os.environ if name.startswith("TURBOCQL_")]:
        monkeypatch.delenv(name)


# URLs


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("cql://db1", {"contact_points": "db1"}),
        ("CQL://db1/", {"contact_points": "db1"}),
        (" cql://db1?\n", {"contact_points": "db1"}),
        ("cql://db1,db2:9043", {"contact_points": ["db1", "db2:9043"]}),
        ("cql://[::1]:9043,[::2],db3", {"contact_points": ["[::1]:9043", "::2", "db3"]}),
        ("cql://[fe80::1%25eth0]:1", {"contact_points": "[fe80::1%eth0]:1"}),
        ("cql://db1/app", {"contact_points": "db1", "keyspace": "app"}),
        ("cql://db1/%41pp?port=9043", {"contact_points": "db1", "keyspace": "App", "port": 9043}),
        ("cql://ann:pw@db1", {"contact_points": "db1", "user": "ann", "password": "pw"}),
        (
            "cql://a%40b:%2F%3F%23%40%3A%25%26+%C3%A4:;&=@db1",
            {"contact_points": "db1", "user": "a@b", "password": "/?#@:%&+ä:;&="},
        ),
        (
            "cql://db1?user=ann&password=p%26w%3B",
            {"contact_points": "db1", "user": "ann", "password": "p&w;"},
        ),
        (
            "cql://db1?&timeout_s=none;;compression=lz4&consistency=quorum&page_size=7&",
            {
                "contact_points": "db1",
                "timeout_s": None,
                "compression": "lz4",
                "consistency": "QUORUM",
                "page_size": 7,
            },
        ),
        (
            "cql:///app?contact_points=db1,%20[::1]:2",
            {"contact_points": ["db1", "[::1]:2"], "keyspace": "app"},
        ),
        (
            "cql://db1?serial_consistency=none&connect_timeout_s=.5",
            {"contact_points": "db1", "serial_consistency": None, "connect_timeout_s": 0.5},
        ),
        (
            "cql://db1?compression=none&timeout_s=inf",
            {"contact_points": "db1", "timeout_s": float("inf")},
        ),
        (
            "cql://db1/none?application_name=none",
            {"contact_points": "db1", "keyspace": "none", "application_name": "none"},
        ),
        (
            "cql://db1?application_name=a+b%20c",
            {"contact_points": "db1", "application_name": "a+b c"},
        ),
    ],
)
def test_a_url(url: str, settings: dict[str, Any]) -> None:
    assert Config.from_url(url) == Config(**settings)


def test_arguments_override_the_url() -> None:
    config = Config.from_url(
        "cql://ann@db1/app?timeout_s=5", password="pw", timeout_s=None, contact_points="db2"
    )
    assert config == Config(
        contact_points="db2", keyspace="app", user="ann", password="pw", timeout_s=None
    )
    assert Config.from_url("cql:///app", contact_points=["db3"]).contact_points == ("db3:9042",)
    with pytest.raises(TypeError, match="time_out"):
        Config.from_url("cql://db1", time_out=5)  # type: ignore[call-arg]


WRONG_URLS = [
    ("", "must be like cql://"),
    ("db1", "must be like cql://"),
    ("://db1", "must be like cql://"),
    ("http://ann:hunter2@db1", "must be like cql://"),
    ("hunter2://db1", "must be like cql://"),
    ("cql:/ann:hunter2@db1", "must be like cql://"),
    ("cql://", "names no host"),
    ("cql:///app", "names no host"),
    ("cql://ann:hunter2@", "names no host"),
    ("cql://@db1", "user is empty"),
    ("cql://:hunter2@db1", "user is empty"),
    ("cql://ann:@db1", "password is empty"),
    ("cql://ann:hunter2", "host 1 must be"),
    ("cql://ann:hunter2/app", "host 1 must be"),
    ("cql://ann:x/hunter2@db1", "percent-encoded"),
    ("cql://ann:1/hunter2@db1", "percent-encoded"),
    ("cql://ann:1?hunter2@db1", "percent-encoded"),
    ("cql://ann:1#hunter2@db1", "percent-encoded"),
    ("cql://ann:hunter2#@db1", "percent-encoded"),
    ("cql://ann:x@hunter2@db1", "percent-encoded"),
    ("cql://ann:hunter2@db1,bob:hunter2@db2", "percent-encoded"),
    ("cql://ann:hunter2%@db1", "password must be percent-encoded"),
    ("cql://ann:hunter2%zz@db1", "password must be percent-encoded"),
    ("cql://ann:hunter2%ff@db1", "password must be percent-encoded UTF-8"),
    ("cql://ann:hunter2\udcff@db1", "password must be percent-encoded UTF-8"),
    ("cql://ann:hunter2@db1:port", "host 1 must be"),
    ("cql://ann:hunter2@db1,", "host 2 is empty"),
    ("cql://ann:hunter2@db1,,db2", "host 2 is empty"),
    ("cql://ann:hunter2@db1:0", "host 1 must be"),
    ("cql://ann:hunter2@[::1", "host 1 must be"),
    ("cql://ann:hunter2@[hunter2]:1", "host 1 must be"),
    ("cql://ann:hunter2@::x::1", "host 1 must be"),
    ("cql://ann:hunter2@db1/app/more", "one keyspace"),
    ("cql://ann:hunter2@db1//", "one keyspace"),
    ("cql://ann:hunter2@db1/%zz", "keyspace must be percent-encoded"),
    ("cql://ann:hunter2@db1/a-b", "keyspace must be 1 to 48"),
    ("cql://ann:1234/hunter2-x", "the keyspace must be 1 to 48"),
    (
        "cql://ann:hunter2@db1?timeouts=5",
        "parameter 1 of the query is unknown; did you mean timeout_s?",
    ),
    ("cql://ann:hunter2@db1?port=1&=5", "the name of parameter 2 is empty"),
    ("cql://ann:hunter2@db1?timeout_s", "timeout_s must be given as timeout_s=value"),
    ("cql://ann:hunter2@db1?timeout_s=", "timeout_s is empty"),
    ("cql://ann:hunter2@db1?timeout_s=%f", "timeout_s must be percent-encoded"),
    ("cql://ann:hunter2@db1?timeout_s=1&timeout_s=1", "gives timeout_s twice"),
    ("cql://ann:hunter2@db1?port=1;port=2", "gives port twice"),
    ("cql://ann:hunter2@db1?password=hunter2", "gives password twice"),
    ("cql://ann:hunter2@db1?user=ann", "gives user twice"),
    ("cql://db1/app?keyspace=app", "gives keyspace twice"),
    ("cql://db1?contact_points=db2", "gives contact_points twice"),
    ("cql://db1?user=ann&password=a&hunter2=1", "parameter 3 of the query is unknown;"),
    ("cql://db1?user=ann&password=a;hunter2", "parameter 3 of the query is unknown;"),
    ("cql://db1?password=a&page_size=hunter2", "page_size must be an int"),
    ("cql://db1?password=hunter2", "go together"),
    ("cql://ann:hunter2@db1?page_size=1.5", "page_size must be an int, got '1.5'"),
    ("cql://ann:hunter2@db1?page_size=1_0", "page_size must be an int, got '1_0'"),
    ("cql://ann:hunter2@db1?timeout_s=soon", "timeout_s must be a number or 'none', got 'soon'"),
    ("cql://ann:hunter2@db1?timeout_s=nan", "timeout_s must be a number or 'none', got 'nan'"),
    ("cql://ann:hunter2@db1?connect_timeout_s=none", "must be a number, got 'none'"),
    ("cql://ann:hunter2@db1?timeout_s=-1", "above 0, got -1"),
    ("cql://ann:hunter2@db1?compression=gzip", "one of 'lz4', 'snappy' or 'none', got 'gzip'"),
    ("cql://ann:hunter2@db1?consistency=most", "one of ANY, ONE, TWO"),
    ("cql://ann:hunter2@db1?consistency=SERIAL", "cannot be serial"),
]


@pytest.mark.parametrize(("url", "said"), WRONG_URLS, ids=[url for url, _ in WRONG_URLS])
def test_malformed_urls_are_refused(url: str, said: str) -> None:
    assert said in refused(lambda: Config.from_url(url))
    if "://" in url:
        for connect in (turbocql.connect, turbocql.aio.connect):
            assert said in refused(lambda: connect(url))  # noqa: B023


def test_errors_for_unknown_names_list_the_known_names() -> None:
    said = refused(lambda: Config.from_url("cql://db1?time=1"))
    assert said.endswith("did you mean timeout_s?")
    said = refused(lambda: Config.from_url("cql://db1?colour=1"))
    texts = Config.__dataclass_fields__.keys() - NOT_TEXT
    assert said.partition("known are ")[2].split(", ") == [
        name for name in Config.__dataclass_fields__ if name in texts
    ]


@pytest.mark.parametrize("name", sorted(NOT_TEXT))
def test_settings_that_are_no_text(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    is_code = name in ("authenticator", "credentials")
    how = f"use {'the program' if is_code else 'a file or the program'}"
    said = refused(lambda: Config.from_url(f"cql://db1?{name}={SECRET}"))
    assert said == f"the URL: {name} cannot be given in a URL: {how}"
    monkeypatch.setenv(f"TURBOCQL_{name.upper()}", SECRET)
    said = refused(Config.from_env)
    assert said == f"TURBOCQL_{name.upper()} cannot be given in the environment: {how}"


@pytest.mark.parametrize("url", [None, 5, b"cql://ann:hunter2@db1", ["cql://ann:hunter2@db1"]])
def test_a_url_is_a_str(url: Any) -> None:
    assert "must be a str, got" in refused(lambda: Config.from_url(url))


HOSTS = st.one_of(
    st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
)
POINTS = st.builds(
    lambda host, port: host if port is None else f"{host}:{port}",
    HOSTS,
    st.none() | st.integers(1, 65_535),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@given(
    points=st.lists(POINTS, min_size=1, max_size=4),
    keyspace=st.none() | st.from_regex(r"[A-Za-z0-9_]{1,48}", fullmatch=True),
    user=TEXTS,
    password=TEXTS,
    name=TEXTS,
    in_query=st.booleans(),
)
@example(["db1"], "none", "none", "none", " none ", True)
def test_round_trip(
    points: list[str],
    keyspace: str | None,
    user: str,
    password: str,
    name: str,
    in_query: bool,
) -> None:
    """If the parts of a URL are percent-encoded, `Config` gets the original parts."""
    user_part, query = f"{quote(user, safe='')}:{quote(password, safe='')}@", ""
    if in_query:
        user_part = ""
        query = f"user={quote(user, safe='')}&password={quote(password, safe='')}&"
    url = f"cql://{user_part}{','.join(points)}/{keyspace or ''}"
    config = Config.from_url(f"{url}?{query}application_name={quote(name, safe='')}")
    assert config == Config(
        contact_points=points,
        keyspace=keyspace,
        user=user,
        password=password,
        application_name=name,
    )


@given(
    before=st.text("/?#@:;&=%,[] a1", max_size=4),
    after=st.text("/?#@:;&=%,[] a1", max_size=8),
    end=st.sampled_from(["@db1", "@db1/app", "@db1:x", "@", "", "@db1?port=x", "@db1,@db2"]),
)
@example("", "/app", "@db1")
@example("1?", "", "")
@example("1@", "", "")
@example("1@a/", "", "")
def test_a_password_is_shown_nowhere(before: str, after: str, end: str) -> None:
    """The error shows no password, even if the text around the password is malformed."""
    try:
        config = Config.from_url(f"cql://ann:{before}{SECRET}{after}{end}")
    except ConfigError as error:
        for link in chain(error):
            assert SECRET not in f"{link!r}{link}{vars(link)}"
    else:
        # If `before` has an @, the secret may be part of a host or a keyspace, which may be shown.
        assert "@" in before or SECRET not in repr(config)


# The environment


def test_without_variables_the_settings_are_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Config.from_env() == Config()
    monkeypatch.setenv("TURBOCQL_CACHE_DIR", "/tmp")
    monkeypatch.setenv("TURBOCQL_ACCELERATE", "1")
    monkeypatch.setenv("TURBO_TIMEOUT_S", "5")
    assert Config.from_env(keyspace="app") == Config(keyspace="app")


def test_one_variable_per_field(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "CONTACT_POINTS": "db1, db2:9043 ,[::1]:1",
        "PORT": "9999",
        "KEYSPACE": "app",
        "USER": "ann",
        "PASSWORD": "p,w none ",
        "CONSISTENCY": "one",
        "SERIAL_CONSISTENCY": "None",
        "TIMEOUT_S": " 2.5 ",
        "CONNECT_TIMEOUT_S": "1e2",
        "COMPRESSION": "snappy",
        "PAGE_SIZE": "10",
        "ROWS": "dict",
        "TIMESTAMPS": "naive",
        "VECTORS": "list",
        "PREPARED_CACHE_SIZE": "5",
        "APPLICATION_NAME": "none",
        "IO_THREADS": "2",
    }
    for name, text in given.items():
        monkeypatch.setenv(f"TURBOCQL_{name}", text)
    assert Config.from_env() == Config(
        contact_points=["db1", "db2:9043", "[::1]:1"],
        port=9999,
        keyspace="app",
        user="ann",
        password="p,w none ",
        consistency=Consistency.ONE,
        serial_consistency=None,
        timeout_s=2.5,
        connect_timeout_s=100,
        compression="snappy",
        page_size=10,
        rows="dict",
        timestamps="naive",
        prepared_cache_size=5,
        application_name="none",
        io_threads=2,
    )


def test_which_source_of_a_setting_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURBOCQL_URL", "cql://ann:url@db1/app?timeout_s=1&page_size=1&rows=dict")
    monkeypatch.setenv("TURBOCQL_PASSWORD", "single")
    monkeypatch.setenv("TURBOCQL_PAGE_SIZE", "2")
    monkeypatch.setenv("TURBOCQL_TIMEOUT_S", "2")
    config = Config.from_env(timeout_s=3)
    assert (config.timeout_s, config.page_size, config.rows) == (3, 2, "dict")
    assert config.keyspace == "app"
    assert (config.user, config.password) == ("ann", turbocql.Secret("single"))
    monkeypatch.setenv("TURBOCQL_URL", "cql:///app")
    monkeypatch.setenv("TURBOCQL_USER", "ann")
    assert "TURBOCQL_URL names no host" in refused(Config.from_env)
    monkeypatch.setenv("TURBOCQL_CONTACT_POINTS", "db9")
    assert Config.from_env().contact_points == ("db9:9042",)


def test_another_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURBOCQL_PORT", "1")
    monkeypatch.setenv("APP_DB_PORT", "2")
    assert Config.from_env("APP_DB_").port == 2
    for prefix in ("", None, 5, "cql://ann:hunter2@db1", "ann hunter2", "é"):
        assert "prefix" in refused(lambda: Config.from_env(prefix))  # type: ignore[arg-type] # noqa: B023


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("TIMEOUT", "5", "TURBOCQL_TIMEOUT; did you mean TURBOCQL_TIMEOUT_S?"),
        ("timeout_s", "5", "unknown environment variable TURBOCQL_timeout_s"),
        ("HUNTER", "hunter2", "unknown environment variable TURBOCQL_HUNTER"),
        ("TIMEOUT_S", "", "TURBOCQL_TIMEOUT_S is empty"),
        ("PASSWORD", "", "TURBOCQL_PASSWORD is empty"),
        ("PASSWORD", "hunter2", "go together"),
        ("URL", "", "TURBOCQL_URL must be like"),
        ("URL", "ann:hunter2@db1", "TURBOCQL_URL must be like"),
        ("URL", "cql://ann:hunter2@db1:x", "TURBOCQL_URL: host 1 must be"),
        ("CONTACT_POINTS", "ann:hunter2,x@db", "without user and password"),
        ("CONTACT_POINTS", "ann:1,hun ter2,hunter2,x@db", "without user and password"),
        ("CONTACT_POINTS", "db1,ann:hunter2", "contact point 2: the port must be a number"),
        ("KEYSPACE", "cql://ann:hunter2@db1", "keyspace must be 1 to 48"),
        ("LOCAL_ADDRESS", "cql://ann:hunter2@db1", "local_address: expected an IP address"),
        ("LOCAL_ADDRESS", "ann:hunter2", "local_address: expected an IP address"),
        ("APPLICATION_NAME", "cql://ann:hunter2@db1" * 5000, "application_name must be at most"),
        ("CONSISTENCY", "cql://ann:hunter2@db1", "TURBOCQL_CONSISTENCY must be one of ANY"),
        ("TLS", "/etc/ca.pem", "TURBOCQL_TLS must be true or false or 'none'"),
        ("TIMEOUT_S", "soon", "TURBOCQL_TIMEOUT_S must be a number or 'none', got 'soon'"),
        ("PORT", "1" * 50, "TURBOCQL_PORT must be an int, got '11"),
        ("PORT", "٣", "TURBOCQL_PORT must be an int, got '٣'"),
        ("PORT", "0", "port must be an int from 1"),
        ("CONTACT_POINTS", "db1,,db2", "TURBOCQL_CONTACT_POINTS must be a list of text, got"),
        ("CONTACT_POINTS", "ann:hunter2@db1", "without user and password"),
        ("CONTACT_POINTS", "cql://ann:hunter2@db1,,db2", "TURBOCQL_CONTACT_POINTS must be a list"),
        ("PORT", "cql://ann:hunter2@db1", "TURBOCQL_PORT must be an int"),
        ("ROWS", "list", "TURBOCQL_ROWS must be one of 'named', 'tuple', 'dict', got 'list'"),
    ],
)
def test_invalid_variables_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, said: str
) -> None:
    monkeypatch.setenv(f"TURBOCQL_{name}", text)
    assert said in refused(Config.from_env)


# TOML


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Returns a function that writes a file of settings and returns its path."""

    def write(text: str) -> Path:
        file = tmp_path / "db.toml"
        file.write_text(text, encoding="utf-8")
        return file

    return write


def test_a_file(write: Callable[[str], Path]) -> None:
    file = write(
        """
        [default]
        contact_points = ["db1", "[::1]:9043"]
        keyspace = "app"
        timeout_s = 5
        connect_timeout_s = 2.5
        serial_consistency = "none"
        consistency = "each_quorum"

        [production]
        contact_points = "db1,db2"
        user = "ann"
        password = "none"
        timeout_s = "none"
        compression = "lz4"
        """
    )
    config = Config(
        contact_points=["db1", "[::1]:9043"],
        keyspace="app",
        timeout_s=5.0,
        connect_timeout_s=2.5,
        serial_consistency=None,
        consistency="EACH_QUORUM",
    )
    assert Config.from_toml(file) == Config.from_toml(str(file)) == config
    production = Config.from_toml(file, "production", user="bob")
    assert production == Config(
        contact_points=["db1", "db2"],
        user="bob",
        password="none",
        timeout_s=None,
        compression="lz4",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no profile 'default'; there are none"),
        ("[production]\n[test]", "has no profile 'default'; there are production, test"),
        ("port = 1\n[default]", "port stands outside of any table"),
        ("[default]\ntimeout = 1", "'default': unknown setting timeout; did you mean timeout_s?"),
        ("[default]\nport = true", "profile 'default': port must be an int, got True"),
        ("[default]\nport = 1.0", "port must be an int, got 1.0"),
        ("[default]\nport = 2020-01-01", "port must be an int, got date (not shown)"),
        ("[default]\ntimeout_s = true", "timeout_s must be a number or 'none', got True"),
        ("[default]\ntimeout_s = nan", "timeout_s must be a number of seconds"),
        ("[default]\ncontact_points = 5", "contact_points must be a list of text, got 5"),
        ("[default]\ncontact_points = ['db1', 5]", "contact_points[1] must be text, got 5"),
        ("[default]\ncontact_points = []", "contact_points must be"),
        ("[default]\nkeyspace = ['app']", "keyspace must be text, got list (not shown)"),
        ("[default]\ncompression = 1", "compression must be one of 'lz4', 'snappy' or 'none'"),
        ("[default]\nconsistency = 1", "consistency must be one of ANY"),
        ("[default.keyspace]\npassword = 'hunter2'", "keyspace must be text, got dict (not shown)"),
        ("[default]\nkeyspace = 'cql://a:hunter2@b'", "keyspace must be 1 to 48"),
        ("[default]\n'cql://a:hunter2@b' = 1", "unknown setting (not shown); known are"),
        (
            "[default.balancing]\ndc = 1",
            "setting balancing.dc; did you mean datacenter? Known are ",
        ),
        ("[default.tls]\nkeys = 1", "unknown setting tls.keys; did you mean key? Known are ca, "),
        (
            "[default.balancing.latency_awareness]\nscale = 1",
            "unknown setting balancing.latency_awareness.scale; did you mean scale_s?",
        ),
        ("[default]\nspeculation = 'off'", "speculation must be a table or 'none', got 'off'"),
        ("[default]\nauth = 1", "known are contact_points, port, keyspace, user, password, tls, "),
        ("[default.password]\nx = 'hunter2'", "profile 'default': password must be text"),
        ("[default]\nuser = 'a'\npassword = ['hunter2']", "profile 'default': password must be"),
        ("[default]\npassword = hunter2", "is not valid TOML: "),
        ("[default]\npassword = 'hunter2", "is not valid TOML: "),
        ("[default]\nx = " + "[" * 100_000, "is not valid TOML: "),
    ],
)
def test_invalid_files_are_refused(write: Callable[[str], Path], text: str, said: str) -> None:
    file = write(text)
    message = refused(lambda: Config.from_toml(file))
    assert said in message
    # `Config` itself raises the errors with these texts, and does not know the file.
    own = ("seconds", "contact_points must be", "keyspace must be 1")
    assert str(file) in message or any(beginning in said for beginning in own)


def test_unreadable_files_are_refused(tmp_path: Path, write: Callable[[str], Path]) -> None:
    assert "No such file" in refused(lambda: Config.from_toml(tmp_path / "none.toml"))
    assert "Is a directory" in refused(lambda: Config.from_toml(tmp_path))
    assert "cannot be read" in refused(lambda: Config.from_toml("a\0b"))
    for url in ("cql://ann:hunter2@db1", "ann:hunter2@db1"):
        assert "Config.from_url" in refused(lambda: Config.from_toml(url))  # noqa: B023
    assert "no profile" in refused(lambda: Config.from_toml(write(""), "cql://ann:hunter2@db1"))
    file = write("")
    file.write_bytes(b"[default]\npassword = 'hunter2\xff'")
    assert "not UTF-8" in refused(lambda: Config.from_toml(file))


def test_without_a_library_for_toml(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[str], Path]
) -> None:
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", None)
    file = write("[default]")
    assert "install tomli" in refused(lambda: Config.from_toml(file))


def test_python_3_10_reads_with_tomli(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[str], Path]
) -> None:
    class Tomli:
        @staticmethod
        def loads(text: str) -> dict[str, Any]:
            return {"default": {"keyspace": text}}

    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", Tomli)
    assert Config.from_toml(write("app")).keyspace == "app"


# Conversions by the annotation of a field. The tests use more annotations than `Config` has.


class Colour(Enum):
    RED = 1
    DARK_BLUE = 2


@dataclass(frozen=True)
class Inner:
    limit: int
    key: str | None = field(default=None, repr=False)
    files: tuple[Path, ...] = ()


@pytest.mark.parametrize(
    ("annotation", "given", "value"),
    [
        (bool, "true", True),
        (bool, "Off", False),
        (bool, "1", True),
        (bool, False, False),
        (int, " -5 ", -5),
        (int, "+07", 7),
        (int, 5, 5),
        (float, "5", 5.0),
        (float, "1E-3", 0.001),
        (float, 5, 5.0),
        (str, " a ", " a "),
        (str | None, "none", "none"),
        (int | None, "None", None),
        (bool | int | None, "none", None),
        (Colour, "dark_blue", Colour.DARK_BLUE),
        (Colour, "1", Colour.RED),
        (Colour | None, "none", None),
        (Literal["a", 2], "2", 2),
        (Literal["a", 2], 2, 2),
        (Sequence[int], "1, 2", (1, 2)),
        (list[str], ["a"], ["a"]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (frozenset[str], "a,b,a", frozenset({"a", "b"})),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (dict[str, float] | None, {"a": 1}, {"a": 1.0}),
        (dict[str, float] | None, "none", None),
        (Path, "a/../b", Path("a/../b")),
        (str | os.PathLike[str] | None, "none", "none"),
        (Path | None, "c.pem", Path("c.pem")),
        (Inner, {"limit": 3, "files": ["a", "b"]}, Inner(3, None, (Path("a"), Path("b")))),
        (Inner | bool, "yes", True),
        (Inner | bool, {"limit": 3}, Inner(3)),
        (Any, ["x"], ["x"]),
    ],
)
def test_values_by_annotation(annotation: Any, given: Any, value: Any) -> None:
    converted = convert("x", annotation, given)
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("annotation", "given", "said"),
    [
        (bool, "maybe", "x must be true or false, got 'maybe'"),
        (bool, 1, "x must be true or false, got 1"),
        (int, "", "x must be an int, got ''"),
        (int, None, "x must be an int, got None"),
        (float, "1_0", "x must be a number, got '1_0'"),
        (float, 10**400, "x must be a number, got 1"),
        (str, 5, "x must be text, got 5"),
        (Colour, "green", "x must be one of RED, DARK_BLUE, got 'green'"),
        (Colour, 1, "x must be one of RED, DARK_BLUE, got 1"),
        (Literal["a", 1], True, "x must be one of 'a', 1, got True"),
        (Sequence[int], "1,a", "x[1] must be an int, got 'a'"),
        (Sequence[int], 5, "x must be a list of an int, got 5"),
        (Mapping[str, int], "a", "x must be a table, got 'a'"),
        (Mapping[str, int], {"a": "b"}, "x.a must be an int, got 'b'"),
        (Path, 5, "x must be a path, got 5"),
        (Inner, "a", "x must be a table, got 'a'"),
        (Inner, {}, "x.limit is missing"),
        (Inner, {"limit": 1, "max": 2}, "unknown setting x.max; known are limit, key, files"),
        (Inner | None, {"limit": "a"}, "x.limit must be an int, got 'a'"),
        (Inner, {"limit": 1, "key": ["hunter2"]}, "x.key must be text"),
        (bytes, "hunter", "x must be a bytes, which can be given in Python only"),
        (Callable[[], int], "hunter", "which can be given in Python only"),
    ],
)
def test_values_that_do_not_fit(annotation: Any, given: Any, said: str) -> None:
    assert said in refused(lambda: convert("x", annotation, given), frames=False)


@pytest.mark.parametrize("kind", [int, Sequence[int], Mapping[str, int], Inner])
@pytest.mark.parametrize("value", [SECRET, [SECRET], {"limit": SECRET}])
def test_values_that_may_be_secret_are_not_shown(kind: Any, value: Any) -> None:
    assert "got" not in refused(lambda: convert("x", kind, value, may_show=False), frames=False)


def test_convert_supports_the_type_of_every_field() -> None:
    """`convert` would refuse every value of a field whose type it does not support."""
    defaults = {name: getattr(Config(), name) for name in Config.__dataclass_fields__}
    for name, about in fields_of(Config).items():
        if defaults[name] is not None:
            assert convert(name, about.annotation, defaults[name]) == defaults[name]
            text = defaults[name]
            if not isinstance(text, (str, int, float, tuple)):
                continue  # This setting is a table in a file, so it has no value as text.
            text = ",".join(text) if isinstance(text, tuple) else str(text)
            assert convert(name, about.annotation, text) == defaults[name]
    hidden = [name for name, about in fields_of(Config).items() if not about.shown]
    assert hidden == ["password", "credentials", "authenticator", "tls"]


def test_cqls_is_encrypted() -> None:
    assert Config.from_url("cqls://ann:hunter2@db1").tls is True
    assert Config.from_url("cql://db1").tls is None
    tls = Tls(verify="authority")
    assert Config.from_url("cqls://db1", tls=tls).tls == tls
    with pytest.raises(ConfigError, match="turns encryption off"):
        Config.from_url("cqls://db1", tls=False)


def test_the_environment_does_not_turn_encryption_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURBOCQL_URL", "cqls://db1")
    assert Config.from_env().tls is True
    monkeypatch.setenv("TURBOCQL_TLS", "false")
    with pytest.raises(ConfigError, match="turns encryption off"):
        Config.from_env()


def test_tables_within_a_profile(tmp_path: Path) -> None:
    file = tmp_path / "cql.toml"
    file.write_text(
        """
        [default]
        contact_points = ["db1"]
        addresses = {"10.0.0.1" = "127.0.0.1:9043"}
        tls = {ca = "ca.pem", verify = "authority"}
        balancing = {datacenter = "dc1", latency_awareness = {scale_s = 2}}
        speculation = {percentile = 95}
        [default.profiles.reports]
        consistency = "ONE"
        timeout_s = 120
        speculation = {delay_s = 0.5, max_attempts = 2}
        [default.profiles.once]
        speculation = "off"
        [bad]
        contact_points = "db1"
        speculation = {delay_s = 1, percentile = 2}
        """
    )
    config = Config.from_toml(file)
    assert config.tls == Tls(ca="ca.pem", verify="authority")
    assert config.balancing == Balancing(
        datacenter="dc1", latency_awareness=LatencyAwareness(scale_s=2)
    )
    assert config.speculation == PercentileSpeculation(percentile=95)
    assert config.profiles == {
        "reports": ExecutionProfile(
            consistency="ONE",
            timeout_s=120,
            speculation=ConstantSpeculation(delay_s=0.5, max_attempts=2),
        ),
        "once": ExecutionProfile(speculation="off"),
    }
    assert config.addresses == {"10.0.0.1": "127.0.0.1:9043"}
    with pytest.raises(ConfigError, match="speculation"):
        Config.from_toml(file, "bad")
