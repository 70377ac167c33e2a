"""Makes certificates with `openssl`."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["certificate_for"]


def certificate_for(folder: Path, names: str) -> tuple[bytes, bytes]:
    """Makes a CA and a certificate for `names`.

    Returns the CA's certificate, and the other certificate followed by its key, both in PEM.
    """
    (folder / "ext").write_text(f"subjectAltName = {names}\nbasicConstraints = CA:FALSE\n")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ["req", "-newkey", "rsa:2048", "-nodes", "-sha256"]
    openssl(*new, "-x509", "-keyout", "ca.key", "-subj", "/CN=ca", "-out", "ca.pem")
    openssl(*new, "-keyout", "node.key", "-subj", "/CN=node", "-out", "node.csr")
    openssl(
        *("x509", "-req", "-in", "node.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
        *("-CAcreateserial", "-extfile", "ext", "-out", "node.pem"),
    )
    chain = (folder / "node.pem").read_bytes() + (folder / "node.key").read_bytes()
    return (folder / "ca.pem").read_bytes(), chain
