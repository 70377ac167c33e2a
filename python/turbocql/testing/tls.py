"""A private certificate authority and the certificates that it signs for one cluster."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import CassandraError, MissingPrerequisite

__all__ = ["Certificates", "make_certificates"]

_AUTHORITY = """\
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
"""
_LEAF = """\
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = {usage}
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = {names}
"""


@dataclass(frozen=True)
class Certificates:
    """PEM files: the authority's certificate, the server's key and chain, a client's key pair."""

    ca: Path
    server_pem: Path
    client_certificate: Path
    client_key: Path
    client_required: bool

    def client_context(self) -> ssl.SSLContext:
        """A context that trusts only this authority and checks the node's address."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(self.client_certificate, self.client_key)
        return context


def make_certificates(
    folder: Path, addresses: Sequence[str], *, client_required: bool
) -> Certificates:
    """Makes an authority, one server certificate for all addresses, and a client certificate.

    Raises: `MissingPrerequisite` if openssl is not installed; `CassandraError` if it fails.
    """
    folder.mkdir(parents=True)
    names = ", ".join([*(f"IP:{address}" for address in addresses), "DNS:localhost"])
    _openssl(
        folder,
        *("req", "-x509", "-config", _write(folder, "ca", _AUTHORITY)),
        *("-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-sha256", "-days", "3650"),
        *("-subj", "/CN=turbocql testing authority", "-extensions", "extensions"),
        *("-out", "ca.pem"),
    )
    _sign(folder, "server", _LEAF.format(usage="serverAuth, clientAuth", names=names))
    _sign(folder, "client", _LEAF.format(usage="clientAuth", names="DNS:turbocql-testing-client"))
    server_pem = folder / "server-chain.pem"
    server_pem.write_text(
        "".join((folder / name).read_text() for name in ("server.key", "server.pem", "ca.pem"))
    )
    return Certificates(
        ca=folder / "ca.pem",
        server_pem=server_pem,
        client_certificate=folder / "client.pem",
        client_key=folder / "client.key",
        client_required=client_required,
    )


def _sign(folder: Path, name: str, extensions: str) -> None:
    config = _write(folder, name, extensions)
    _openssl(
        folder,
        *("req", "-new", "-config", config, "-newkey", "rsa:2048", "-nodes"),
        *("-keyout", f"{name}.key", "-subj", f"/CN=turbocql testing {name}"),
        *("-out", f"{name}.csr"),
    )
    _openssl(
        folder,
        *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
        *("-CAcreateserial", "-sha256", "-days", "3650", "-extfile", config),
        *("-extensions", "extensions", "-out", f"{name}.pem"),
    )


def _write(folder: Path, name: str, extensions: str) -> str:
    """Writes a configuration for the commands `req` and `x509` of openssl, and returns the name of
    its file. With this file, `req` does not read the system's configuration.
    """
    head = "[req]\ndistinguished_name = subject\nprompt = no\n[subject]\nCN = turbocql\n"
    (folder / f"{name}.cnf").write_text(f"{head}[extensions]\n{extensions}")
    return f"{name}.cnf"


def _openssl(folder: Path, *arguments: str) -> None:
    openssl = shutil.which("openssl")
    if not openssl:
        raise MissingPrerequisite(
            "tls=True makes its certificates with openssl, which was not found: install it "
            "(Debian and Ubuntu: apt-get install openssl) and put it on PATH."
        )
    openssl_run = subprocess.run(
        [openssl, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if openssl_run.returncode:
        raise CassandraError(f"openssl {arguments[0]} failed:\n{openssl_run.stdout.strip()}")
