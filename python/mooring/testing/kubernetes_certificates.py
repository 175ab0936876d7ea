"""Keys and certificates of one API server, made anew for each cluster with the `openssl` command."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mooring.errors import ClusterError

_DAYS = "2"


@dataclass(frozen=True)
class Certificates:
    """Files of PEM text. Only their owner can read the directory."""

    authority: Path
    certificate: Path
    key: Path
    account_key: Path
    """Signs the tokens of service accounts."""


def make_certificates(directory: Path, names: Sequence[str]) -> Certificates:
    """An authority, and a server's certificate for these names: `DNS:localhost`, `IP:127.0.0.1` and the like.

    `ClusterError` when there is no `openssl`, or when it fails.
    """
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    made = Certificates(*(directory / name for name in ("ca.crt", "server.crt", "server.key", "accounts.key")))
    request, extensions, authority_key = directory / "server.csr", directory / "server.ext", directory / "ca.key"
    for key in (authority_key, made.key, made.account_key):
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    for_authority = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    subject = ("-subj", "/CN=authority of a test's cluster")
    _openssl(
        "req", "-x509", "-new", "-key", authority_key, *subject, *for_authority, "-days", _DAYS, "-out", made.authority
    )
    _openssl("req", "-new", "-key", made.key, "-subj", "/CN=kube-apiserver", "-out", request)
    extensions.write_text(f"subjectAltName={','.join(names)}\nextendedKeyUsage=serverAuth\n")
    signed_by = ("-CA", made.authority, "-CAkey", authority_key, "-CAcreateserial")
    _openssl(
        "x509", "-req", "-in", request, *signed_by, "-days", _DAYS, "-extfile", extensions, "-out", made.certificate
    )
    return made


def _openssl(*words: str | Path) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise ClusterError("no `openssl` on PATH: it makes the certificates of the API server")
    ended = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise ClusterError(f"openssl {words[0]} failed:\n{ended.stderr}")
