"""Where Java is, and whether it is new enough.

Old Pythons can run this file too, so that they get a message and not a syntax error.
"""

import os
import re
import shutil
import subprocess

OLDEST_JAVA = 17
HOW_TO_GET_IT = f"JDK {OLDEST_JAVA} or newer is needed (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless)"


def java_command(environ=os.environ):
    """The `java` to run, chosen as Spark does: that of JAVA_HOME, else the one on the PATH. None when there is none."""
    home = environ.get("JAVA_HOME")
    if home:
        return shutil.which(os.path.join(home, "bin", "java"))
    return shutil.which("java", path=environ.get("PATH", ""))


def major_version(printed):
    """The major version in what `java -version` prints: 17 for "17.0.15", 8 for "1.8.0_402"; None for none."""
    found = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(found.group(1)) if found else None


def java_problem(environ=os.environ):
    """What keeps this machine's Java from serving, with what to do about it; an empty text when nothing does."""
    command = java_command(environ)
    if command is None and environ.get("JAVA_HOME"):
        return f"JAVA_HOME is {environ['JAVA_HOME']}, but there is no bin/java in it. {HOW_TO_GET_IT}."
    if command is None:
        return f"there is no java on the PATH, and JAVA_HOME is not set. {HOW_TO_GET_IT}."
    ran = subprocess.run([command, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(environ))
    printed = ran.stdout.decode("utf-8", "replace").strip()
    major = major_version(printed)
    if ran.returncode != 0 or major is None:
        return f"`{command} -version` does not work: {printed or 'it prints nothing'}. {HOW_TO_GET_IT}."
    if major < OLDEST_JAVA:
        return f"{command} is Java {major}. {HOW_TO_GET_IT}; then point JAVA_HOME to it."
    return ""
