"""Reads from the code of the plugin and of the agent what they write into the log."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PYTHON", "SCALA", "Line", "agent_lines", "all_texts", "scala_lines"]

ROOT = Path(__file__).parents[1]
SCALA = ROOT / "scala-shim" / "src" / "main" / "scala"
PYTHON = ROOT / "python" / "mooring"

Line = tuple[str, str, str]
"""The level, the text with … for inserted values, and the file with the log call."""

_LEVELS = {"info": "INFO", "warn": "WARN", "once": "WARN, once", "failed": "WARN, once"}
_LEVELS |= {"trouble": "WARN", "troubleOnce": "WARN, once"}
_TOPIC_FIRST = ("once", "failed", "troubleOnce")


def scala_lines() -> list[Line]:
    """The log lines of the plugin's JVMs. Lines whose text is not in the log call are left out."""
    found = []
    for file in sorted(SCALA.rglob("*.scala")):
        text = file.read_text()
        for call in re.finditer(r"\bLog\.(info|warn|once|failed|trouble|troubleOnce)\(", text):
            kind = call[1]
            groups = _argument_groups(text, call.end() - 1)
            argument = groups[-1] if kind == "failed" else groups[0]
            if kind in ("once", "troubleOnce"):
                argument = argument.partition(",")[2]
            line = _literals(argument)
            if len(line.replace("…", "").strip()) > 6:
                found.append((_LEVELS[kind], line, file.name))
    return sorted(set(found), key=lambda line: (line[1].lower(), line))


def agent_lines() -> list[Line]:
    """The log lines of the agent, which the driver's JVM writes. Lines whose text is not in the call are left out."""
    levels = {"warn": "WARN", "LogLine": "WARN", "info": "INFO"}
    levels |= {"_warn": "WARN", "_warn_unless_ending": "WARN", "_warn_once": "WARN"}
    found = []
    for folder in ("agent", "records", "spark"):
        for file in sorted((PYTHON / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if not isinstance(node, ast.Call) or not node.args:
                    continue
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                line = _text_of(node.args[0])
                if name in levels and len(line.replace("…", "").strip()) > 6:
                    level = _level_of_order(node) if name == "LogLine" else levels[name]
                    found.append((level, line, file.relative_to(PYTHON).as_posix()))
    return sorted(set(found), key=lambda line: (line[1].lower(), line))


def _level_of_order(call: ast.Call) -> str:
    """The level of an order `LogLine`, by its `is_warning`, which is True by default."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "is_warning"), ast.Constant(True))
    if not isinstance(given, ast.Constant):
        return "INFO or WARN"
    return "WARN" if given.value else "INFO"


def all_texts() -> str:
    """Every text in the code of the plugin and of the agent, with … for inserted values; one a line."""
    texts = [_literals(file.read_text()) for file in sorted(SCALA.rglob("*.scala"))]
    for file in sorted(PYTHON.rglob("*.py")):
        texts += [_text_of(node) for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.expr)]
    return "\n".join(text for text in texts if text)


def _argument_groups(code: str, opening: int) -> list[str]:
    """The argument lists that begin at an opening bracket: `(a, b)(c)` has two."""
    code = code[opening : opening + 2000]
    texts = {start: stop for start, stop, _ in _scala_texts(code)}
    groups: list[str] = []
    depth = began = at = 0
    while at < len(code):
        if at in texts:
            at = texts[at]
            continue
        if code[at] == "(":
            depth += 1
            began = at + 1 if depth == 1 else began
        elif code[at] == ")":
            depth -= 1
            if depth == 0:
                groups.append(code[began:at])
                if code[at + 1 : at + 2] != "(":
                    break
        at += 1
    return groups


def _literals(code: str) -> str:
    """The texts in a piece of Scala, joined where `+` joins them, with … for values."""
    joined, end = "", 0
    for start, stop, text in _scala_texts(code):
        between = code[end:start].strip()
        if joined and between != "+":
            joined += "…" if between.startswith("+") or between.endswith("+") else "\n"
        joined, end = joined + text, stop
    rest = code[end:].strip()
    joined += "…" if joined and rest.startswith("+") else ""
    return re.sub("…+", "…", joined).strip()


def _scala_texts(code: str) -> Iterator[tuple[int, int, str]]:
    """The start, the end and the content of each text, with … for inserted values."""
    at = 0
    while (start := code.find('"', at)) >= 0:
        has_values, text, at = code[start - 1 : start] in ("s", "f"), "", start + 1
        while at < len(code) and code[at] != '"':
            if has_values and code[at] == "$":
                at, text = _end_of_value(code, at + 1), text + "…"
            elif code[at] == "\\":
                text, at = text + code[at + 1].replace("n", " "), at + 2
            else:
                text, at = text + code[at], at + 1
        at += 1
        yield start - has_values, at, text


def _end_of_value(code: str, at: int) -> int:
    """The end of an inserted value: a name, or an expression in braces, which may have texts itself."""
    if code[at] != "{":
        return at + len(re.match(r"\w*", code[at:])[0])  # type: ignore[index]
    depth = 0
    while True:
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        at += 1
        if depth == 0:
            return at


def _text_of(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text_of(value) if isinstance(value, ast.Constant) else "…" for value in values)
    return ""
