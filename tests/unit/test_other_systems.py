"""Runs, on Linux, the code that turbocql has for other operating systems.

The environment variable `_TURBOCQL_TEST_SYSTEM` selects the system. One test imports turbocql's
Python code as if it were on Windows, where modules and functions of POSIX do not exist.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

BURST = """
import asyncio, json, os, stat, turbocql, turbocql.aio
from turbocql import _core
from turbocql._native import wake

async def refused():
    # No server listens on this port. The native core delivers the error as a completion.
    try:
        await turbocql.aio.connect("127.0.0.1:1", connect_timeout_s=5)
    except turbocql.Error as error:
        return type(error).__name__

async def main():
    names = await asyncio.gather(*(refused() for _ in range(100)))
    return [len(names), sorted(set(names)), wake.has_thread(asyncio.get_running_loop())]

try:
    waits = _core.HubWaits()
    is_socket = stat.S_ISSOCK(os.fstat(waits.fileno()).st_mode)
except OSError as error:
    is_socket = str(error)
print(json.dumps([_core.waker(), *asyncio.run(main()), is_socket]))
"""

AS_ON_WINDOWS = """
import builtins, importlib, os, pkgutil, signal, sys

POSIX = {"fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
# On Linux, the modules below import some of `POSIX`. So they are imported before it is hidden.
import asyncio, socket, ssl, subprocess, tempfile, uuid, getpass, multiprocessing, platform
import sysconfig
sysconfig.get_config_vars().pop("CONFIG_ARGS")
for name in sys.argv[1].split():
    importlib.import_module(name)
for name in POSIX:
    sys.modules[name] = None
for name in ("fork", "forkpty", "getuid", "geteuid", "killpg", "register_at_fork", "uname",
             "setsid", "wait4", "eventfd", "sched_getaffinity", "mkfifo"):
    vars(os).pop(name, None)
for name in ("SIGKILL", "SIGHUP", "SIGCHLD", "SIGSTOP", "SIGCONT", "SIGUSR1", "SIGWINCH"):
    vars(signal).pop(name, None)
sys.platform = "win32"

import turbocql
# These modules import pytest, Ray, Spark or DuckDB, which may not be installed.
others = ("turbocql.ray", "turbocql.spark", "turbocql.duckdb", "turbocql.testing.pytest_plugin")
modules = [
    module.name for module in pkgutil.walk_packages(turbocql.__path__, "turbocql.")
    if not module.name.startswith(others) and not module.name.endswith(("__main__", ".guard"))
]
for name in modules:
    importlib.import_module(name)

import turbocql.cli, turbocql.testing, turbocql.workers
from turbocql.testing.jars import ensure_jars
assert turbocql.codec.encode("int", 7) == bytes.fromhex("00000007")
assert turbocql.diagnosis().platform
try:
    ensure_jars()
except turbocql.testing.MissingPrerequisite as error:
    assert "Windows" in str(error)
else:
    raise AssertionError("jars were fetched")
try:
    with turbocql.workers.session(turbocql.workers.Environment(prefix="NO_SUCH_")):
        pass
except turbocql.errors.ConfigError as error:
    assert "NO_SUCH_" in str(error), error
print(*modules)
"""
INSTALLED = [
    name
    for name in ("numpy", "click", "prompt_toolkit", "rich", "pexpect", "pyarrow", "pytest")
    if find_spec(name) is not None
]


def run(program: str, *arguments: str, **environment: str) -> str:
    """Returns what a program prints in a fresh interpreter."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        env={
            **os.environ,
            "_TURBOCQL_TEST_INTERPRETER": "",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.parametrize(
    ("system", "waker", "has_thread", "is_socket"),
    [
        ("", "eventfd", False, False),
        ("posix", "sockets", False, True),
        ("windows", "thread", True, "no file descriptor that wakes gevent's hub: unsupported"),
    ],
)
def test_completions_wake_the_loop_of_each_system(
    system: str, waker: str, has_thread: bool, is_socket: bool | str
) -> None:
    printed = json.loads(run(BURST, _TURBOCQL_TEST_SYSTEM=system))
    assert printed == [waker, 100, ["ConnectError"], has_thread, is_socket]


@pytest.mark.parametrize(("system", "name"), [("posix", "Posix"), ("windows", "Windows")])
def test_quick_paths_are_off_where_no_test_has_run(system: str, name: str) -> None:
    program = "import turbocql; print(turbocql.diagnosis())"
    said = run(program, _TURBOCQL_TEST_SYSTEM=system)
    reason = f"tested on Linux with glibc on x86_64, this is {name} (linux"
    assert f"quick paths     all off ({reason}" in said


def test_the_package_is_imported_without_what_only_posix_has() -> None:
    printed = run(AS_ON_WINDOWS, " ".join(INSTALLED), _TURBOCQL_TEST_SYSTEM="windows")
    assert {"turbocql.aio", "turbocql.workers", "turbocql.testing.jars"} <= set(printed.split())
