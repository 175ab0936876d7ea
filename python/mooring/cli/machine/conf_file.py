"""Settings from a file in the form of `spark-defaults.conf`, so that no password stands on a command line."""

from __future__ import annotations

import re
from pathlib import Path

from mooring.cli.exits import BadUsage
from mooring.errors import InvalidSettingError
from mooring.settings import PREFIX, Settings

_LINE = re.compile(r"([^\s=:#!][^\s=:]*)(?:\s*[=:]\s*|\s+)(.*)")


def read_conf_file(path: Path) -> Settings:
    """The `spark.mooring.*` settings of a file; other lines are ignored.

    BadUsage, with the number of the line or the key, for a file that cannot be read or a setting that is wrong. The
    message never shows the value of a line: it may be a password.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"--metadata-conf {path}: {error}; expected a file such as spark-defaults.conf") from error
    settings: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text.startswith(PREFIX):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise BadUsage(f"--metadata-conf {path}, line {number}: expected a key, white space or =, and a value")
        settings[match[1]] = match[2].strip()
    try:
        return Settings.from_conf(settings)
    except InvalidSettingError as error:
        raise BadUsage(f"--metadata-conf {path}: {error}") from error
