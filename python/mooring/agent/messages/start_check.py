"""What the agent can see at the start of an application that will not go well: a line for each, with what to do.

Nothing here fails: a problem is told, and the application goes on.
"""

from __future__ import annotations

import re

from mooring.doctor import OLDEST_JAVA
from mooring.model import events

_LINE_OF_SPARK = re.compile(r"\d+\.\d+")


def problems(started: events.ApplicationStarted) -> tuple[str, ...]:
    """What is wrong with what the driver runs on; of what it did not tell nothing is said."""
    found = []
    ours, theirs = _LINE_OF_SPARK.match(started.built_for), _LINE_OF_SPARK.match(started.spark)
    if ours and theirs and ours[0] != theirs[0]:
        found.append(
            f"its jar was built for Spark {ours[0]}, and this is Spark {started.spark}: parts of it may not work;"
            f" use a jar that was built for Spark {theirs[0]}"
        )
    if 0 < started.java < OLDEST_JAVA:
        found.append(f"this is Java {started.java}: give drivers and executors Java {OLDEST_JAVA} or later (JAVA_HOME)")
    return tuple(found)
