"""Becomes the process of a pod's container, in a mount namespace of its own. A stand-in for a container runtime.

It runs as a plain script, by path, without the package: `python -I -S pod_container.py SPEC.json`. The JSON has

- `root`: an empty directory, where the container's root is put together
- `mounts`: a list of `{source, target, read_only}`; sources are files or directories of this machine
- `hostname`, `cwd` and `command`

The root is this machine's, but for the targets of the mounts. Where a target does not exist, the directory that lacks
it is replaced by one that has the same entries, each of them a bind mount, and has room for more. All of this is
private to the container, and is gone with its last process. Needs root on Linux.
"""

import ctypes
import json
import os
import socket
import stat
import sys

CANNOT_MOUNT = 71
"""The exit code when this machine does not allow namespaces or mounts."""

_NEWNS, _NEWUTS = 0x00020000, 0x04000000
_RDONLY, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def _mount(source: str, target: str, flags: int, kind: str = "") -> None:
    arguments = (source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), None)
    _checked(_libc.mount(*arguments), f"mount {source} at {target}")


def _bind(source: str, target: str) -> None:
    _mount(source, target, _BIND | _REC)


class _Root:
    """The container's root directory, as it is put together."""

    def __init__(self, directory: str) -> None:
        """A tmpfs at `directory` has the root, and the directories that stand in for those of this machine."""
        _mount("tmpfs", directory, 0, "tmpfs")
        self._spare = os.path.join(directory, "spare")
        os.mkdir(self._spare)
        self.path = os.path.join(directory, "root")
        os.mkdir(self.path)
        self._roomy = {self.path}  # directories of the tmpfs: they may get new entries
        self._volumes: list[str] = []  # a mount below a volume gets its directory in the volume, as in a container
        _mirror("/", self.path)

    def mount(self, source: str, target: str, read_only: bool) -> None:
        place = self.path + os.path.realpath(target)
        is_directory = os.path.isdir(source)
        if not os.path.lexists(place):
            self._make(place, is_directory)
        _bind(source, place)
        if read_only:
            _mount("none", place, _BIND | _REMOUNT | _RDONLY)
        self._volumes.append(place)

    def _make(self, place: str, is_directory: bool) -> None:
        parent = os.path.dirname(place)
        if not os.path.isdir(parent):
            self._make(parent, True)
        if not self._has_room(parent):
            self._give_room(parent)
        if is_directory:
            os.mkdir(place)
            self._roomy.add(place)
        else:
            os.close(os.open(place, os.O_CREAT))

    def _has_room(self, directory: str) -> bool:
        in_volume = any(f"{directory}/".startswith(f"{volume}/") for volume in self._volumes)
        return in_volume or directory in self._roomy

    def _give_room(self, directory: str) -> None:
        spare = os.path.join(self._spare, str(len(self._roomy)))
        os.mkdir(spare)
        _mirror(directory, spare)
        _bind(spare, directory)
        self._roomy.add(directory)


def _mirror(source: str, target: str) -> None:
    """Make the entries of a directory visible in another one, which is empty."""
    os.chmod(target, stat.S_IMODE(os.stat(source).st_mode))
    for entry in os.scandir(source):
        mirrored = os.path.join(target, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), mirrored)
            continue
        if entry.is_dir():
            os.mkdir(mirrored)
        else:
            os.close(os.open(mirrored, os.O_CREAT))
        _bind(entry.path, mirrored)


def become(spec: dict) -> None:  # type: ignore[type-arg]
    """Replace this process by the container's. Returns only by an error."""
    _checked(_libc.unshare(_NEWNS | _NEWUTS), "unshare")
    _mount("none", "/", _REC | _PRIVATE)
    socket.sethostname(spec["hostname"])
    root = _Root(spec["root"])
    for mount in sorted(spec["mounts"], key=lambda mount: len(mount["target"])):
        root.mount(mount["source"], mount["target"], mount["read_only"])
    os.chroot(root.path)
    os.chdir(spec["cwd"])
    os.execvpe(spec["command"][0], spec["command"], os.environ)


if __name__ == "__main__":
    try:
        with open(sys.argv[1]) as file:
            wanted = json.load(file)
        become(wanted)
    except OSError as failure:
        print(f"the container can not be made: {failure}", file=sys.stderr)
        sys.exit(CANNOT_MOUNT)
