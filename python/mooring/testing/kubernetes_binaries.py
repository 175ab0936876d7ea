"""The API server of Kubernetes and its store etcd, built once from their Go modules.

Neither is in a Maven or Python registry. The Go tool fetches their modules as it fetches any module, by the settings of
the user (GOPROXY and the like), and compiles them. On two cores that takes some eight minutes, once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.errors import ClusterError

KUBERNETES_VERSION: Final = "1.34.4"
ETCD_VERSION: Final = "3.6.16"

_KUBERNETES = "k8s.io/kubernetes"
_ETCD = "go.etcd.io/etcd/server/v3"
_OLDEST_GO = (1, 24)  # what go.mod of this Kubernetes asks for
_OUTPUT_SHOWN = 4_000
_BUILD_TIMEOUT_S = 3_600.0


def kube_apiserver(cache: Path | None = None, timeout: float = _BUILD_TIMEOUT_S) -> Path:
    """The program `kube-apiserver`. The first call builds it; see `built` for the rest."""
    return _built("kube-apiserver", KUBERNETES_VERSION, cache, timeout)


def etcd(cache: Path | None = None, timeout: float = _BUILD_TIMEOUT_S) -> Path:
    """The program `etcd`, in a version that this Kubernetes supports. The first call builds it."""
    return _built("etcd", ETCD_VERSION, cache, timeout)


def _built(name: str, version: str, cache: Path | None, timeout: float) -> Path:
    """The program in `cache`, else in $MOORING_CACHE, else in ~/.cache/mooring.

    Several processes may call this at once: one builds, the others wait. `ClusterError` when there is no Go tool, when
    it is too old, or when the build fails.
    """
    place = (cache or Path(os.environ.get("MOORING_CACHE") or Path.home() / ".cache" / "mooring")) / f"{name}-{version}"
    program = place / name
    if not program.is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(place.parent / f".{place.name}.lock"):
            if not program.is_file():  # else another process has built it meanwhile
                _build(name, version, place, timeout)
    return program


@contextlib.contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """Wait until no other process has this lock. The kernel frees it when its process ends."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _build(name: str, version: str, place: Path, timeout: float) -> None:
    """Build in a directory beside `place` and rename it, so that `place` is always complete."""
    go = _go_tool()
    with tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as scratch:
        module, out = Path(scratch, "module"), Path(scratch, "out")
        module.mkdir()
        out.mkdir()
        if name == "etcd":
            package, flags = _ETCD, ""
            (module / "go.mod").write_text(_go_mod({_ETCD: f"v{version}"}, {}))
        else:
            package = f"{_KUBERNETES}/cmd/{name}"
            replaced = {staged: f"v0.{version.partition('.')[2]}" for staged in _staged_modules(go, version, module)}
            flags = f"-X k8s.io/component-base/version.gitVersion=v{version}"
            (module / "go.mod").write_text(_go_mod({_KUBERNETES: f"v{version}"}, replaced))
        # An import of the package makes it part of this module's requirements.
        (module / "tools.go").write_text(f'//go:build tools\n\npackage tools\n\nimport _ "{package}"\n')
        _run(go, ["build", "-trimpath", f"-ldflags=-s -w {flags}", "-o", str(out / name), package], module, timeout)
        out.rename(place)


def _go_mod(required: dict[str, str], replaced: dict[str, str]) -> str:
    lines = [f"require {module} {version}" for module, version in required.items()]
    lines += [f"replace {module} => {module} {version}" for module, version in replaced.items()]
    return "\n".join(["module mooring.invalid/programs", "go {}.{}".format(*_OLDEST_GO), *lines, ""])


def _staged_modules(go: str, version: str, scratch: Path) -> list[str]:
    """The modules that Kubernetes keeps in its own source tree; they are published beside it, as v0.x."""
    (scratch / "go.mod").write_text(_go_mod({}, {}))
    answer = _run(go, ["mod", "download", "-json", f"{_KUBERNETES}@v{version}"], scratch, timeout=600.0)
    text = Path(json.loads(answer)["GoMod"]).read_text()
    return re.findall(r"^\s*(\S+) => \./staging/src/", text, re.MULTILINE)


def _go_tool() -> str:
    root = os.environ.get("GOROOT")
    go = shutil.which("go", path=f"{root}/bin") if root else shutil.which("go")
    needed = "Go {}.{} or later builds the API server of Kubernetes and etcd".format(*_OLDEST_GO)
    if go is None:
        raise ClusterError(f"no `go` on PATH, and none in GOROOT: {needed}")
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout.strip()
    version = re.match(r"go(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST_GO:
        raise ClusterError(f"{go} says that it is {said or 'nothing'}: {needed}")
    return go


def _run(go: str, words: list[str], module: Path, timeout: float) -> str:
    """Run the Go tool in a module, and return its standard output. It uses at most two cores, and no C compiler."""
    environment = {**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false", "GOMAXPROCS": "2", "CGO_ENABLED": "0"}
    try:
        ended = subprocess.run(
            [go, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=module,
            env=environment,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"go {words[0]} took longer than {timeout:g} s") from None
    if ended.returncode != 0:
        raise ClusterError(f"go {' '.join(words)} failed:\n{ended.stderr[-_OUTPUT_SHOWN:]}")
    return ended.stdout
