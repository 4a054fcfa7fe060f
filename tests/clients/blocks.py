#!/usr/bin/env python3
"""Compares the blocks of code in pages of the manual with the files that the checks run.

    blocks.py [--write] [PAGE... FOLDER]

Without arguments, the pages are docs/clients.md and docs/clients/*.md, and the files are in
tests/clients.

A block is preceded by a comment that names its file and region:

    <!-- tests/clients/python/with_psycopg.py#insert -->

The region is what stands in the file between the comments `region insert` and `endregion`,
without common indentation. Every block must be a region, unless `<!-- not run: reason -->` precedes it, and every region
must have a block.
With --write, the blocks are taken from the files.
"""

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

BEGIN = re.compile(r"\s*(?:#|//|--|<!--) region (\w+)(?: -->)?$")
END = re.compile(r"\s*(?:#|//|--|<!--) endregion(?: -->)?$")
BLOCK = re.compile(
    r"(?:^<!-- (?P<name>\S+|not run: [^\n]+) -->\n)?^(?P<fence>```\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def regions(folder):
    """The text of each region of the files in a folder, by `path#region`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or "node_modules" in path.parts or path.suffix in {".json", ".pyc", ".class"}:
            continue
        name = None
        for line in path.read_text().splitlines():
            if begin := BEGIN.match(line):
                name, lines = f"{path.relative_to(ROOT)}#{begin[1]}", []
                if name in found:
                    sys.exit(f"{name}: the region exists twice")
            elif END.match(line):
                found[name] = textwrap.dedent("\n".join(lines)).strip("\n") + "\n"
                name = None
            elif name:
                lines.append(line)
        if name:
            sys.exit(f"{name}: the region has no end")
    return found


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    if not arguments:
        pages = sorted(ROOT.glob("docs/clients/*.md"))
        arguments = ["docs/clients.md", *map(str, pages), "tests/clients"]
    *pages, folder = (ROOT / name for name in arguments)
    write = "--write" in sys.argv[1:]
    found, used, faults = regions(folder), set(), []

    def compare(block):
        name, text = block["name"], block["text"]
        if name is None:
            faults.append(f"a block is not from a file: {text.splitlines()[:1]}")
        elif name not in found:
            if not name.startswith("not run: "):
                faults.append(f"{name}: there is no such region")
        else:
            used.add(name)
            if text != found[name]:
                if write:
                    return f"<!-- {name} -->\n{block['fence']}\n{found[name]}```"
                faults.append(f"{name}: the block differs from the file")
        return block[0]

    for page in pages:
        manual = page.read_text()
        written = BLOCK.sub(compare, manual)
        if write and written != manual:
            page.write_text(written)
    faults += [f"{name}: the manual does not show the region" for name in found.keys() - used]
    for fault in sorted(faults):
        print(fault)
    sys.exit(len(faults) > 0)


main()
