"""The picture of `mooring demo` in README.md: recorded from a real run, then drawn as SVG.

    python scripts/demo_capture.py record docs/images/demo.txt       runs the demo; each line with its second
    python scripts/demo_capture.py draw docs/images/demo.txt docs/images/demo.svg

The drawing is made from the recording alone, so the same recording gives the same bytes.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path
from xml.sax.saxutils import escape

COLUMNS = 118
LINE_HEIGHT = 18
CHARACTER_WIDTH = 7.3
MARGIN = 18
BAR = 28
PROMPT = "$ make demo"
STEP_SECONDS = 0.45
"""Each line appears so long after the line above it."""


def record(file: Path) -> int:
    """Run the demo. Write each line of its output as `<seconds since the start> <line>`. Returns its exit code."""
    began = time.monotonic()
    command = [sys.executable, "-u", "-m", "mooring.cli.main", "demo"]
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        for line in running.stdout or ():
            print(line, end="", flush=True)
            lines.append(f"{time.monotonic() - began:6.1f} {line.rstrip()}\n")
    if running.returncode == 0:
        file.write_text("".join(lines))
    return running.returncode


def draw(recording: str) -> str:
    """The SVG of one recording. Its lines appear one after the other, and stay."""
    shown = [PROMPT]
    for line in recording.splitlines():
        text = line[7:]
        if text.lstrip().startswith("waiting for"):  # on a terminal the next line overwrites it
            continue
        shown += textwrap.wrap(text, COLUMNS, subsequent_indent="    ", drop_whitespace=False) or [""]
    width = round(COLUMNS * CHARACTER_WIDTH + 2 * MARGIN)
    height = BAR + 2 * MARGIN + LINE_HEIGHT * len(shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"',
        ' role="img" aria-label="The output of make demo">',
        "<style>text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#d7dde4;white-space:pre}",
        ".l{animation:a .2s backwards}@keyframes a{from{opacity:0}}",
        "@media (prefers-reduced-motion:reduce){.l{animation-delay:0s!important}}</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#1b2129"/>',
        *(f'<circle cx="{20 + 18 * n}" cy="16" r="5" fill="#4a5563"/>' for n in range(3)),
    ]
    for number, line in enumerate(shown):
        y = BAR + MARGIN + LINE_HEIGHT * number
        parts.append(
            f'<text class="l" style="animation-delay:{number * STEP_SECONDS:.2f}s" x="{MARGIN}" y="{y}"'
            f' xml:space="preserve">{escape(line)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main(arguments: list[str]) -> int:
    """The command line: `record FILE` or `draw FILE SVG`."""
    match arguments:
        case ["record", file]:
            return record(Path(file))
        case ["draw", file, picture]:
            Path(picture).write_text(draw(Path(file).read_text()))
            return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
