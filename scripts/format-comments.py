#!/usr/bin/env python3
"""Wraps the comments of the Rust files at 110 columns, the width of rustfmt.toml. rustfmt does not wrap comments.

    format-comments.py write   wraps each paragraph that has a longer line
    format-comments.py check   lists these paragraphs, and fails if there are any

Code in comments, tables, headings and comments behind code remain as they are.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 110

# Comments, and the literals that may contain the text of a comment.
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*)|/\*.*?\*/|\br(?P<hashes>\#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\\n])'""",
    re.DOTALL,
)
# A comment on a line: its indentation and marker, and its text.
COMMENT = re.compile(r"( *(?://!|///(?!/)|//(?!/)))(?: (.*))?")
# The beginning of an item of a list.
ITEM = re.compile(r"(?:[-*] |\d+\. )")
# Lines that are no part of a paragraph.
OTHER = re.compile(r"```|#|\||<|\[[^\]]+\]: |-{3}|$")
# Words that would begin another block at the start of a line.
BEGINS_BLOCK = re.compile(r"[-+*>]|\d+[.)]|#{1,6}|\|\S*|-{2,}")


def comment_lines(text):
    """The numbers of the lines that have only a comment."""
    found = set()
    for match in TOKEN.finditer(text):
        if match["comment"]:
            start = text.rfind("\n", 0, match.start()) + 1
            if not text[start : match.start()].strip():
                found.add(text.count("\n", 0, start))
    return found


def words(text):
    """The words; code between backticks is one word."""
    found = text.split() if text.count("`") % 2 else re.findall(r"(?:`[^`]*`|[^\s`])+", text)
    joined = found[:1]
    for word in found[1:]:
        if BEGINS_BLOCK.fullmatch(word):
            joined[-1] += " " + word
        else:
            joined.append(word)
    return joined


def wrap(lines, width):
    """A paragraph whose first line may begin an item of a list."""
    has_columns = any("  " in line.strip() or line.endswith((" ", "\\")) for line in lines)
    if has_columns or all(len(line) <= width for line in lines):
        return lines
    indent = len(lines[0]) - len(lines[0].lstrip())
    item = ITEM.match(lines[0], indent)
    head = " " * indent + (item[0] if item else "")
    first = lines[0][len(head) :]
    wrapped, current = [], head
    for word in words(" ".join([first, *map(str.strip, lines[1:])])):
        is_empty = current in (head, " " * len(head))
        if not is_empty and len(current) + 1 + len(word) > width:
            wrapped.append(current)
            current, is_empty = " " * len(head), True
        current += word if is_empty else " " + word
    return [*wrapped, current]


def wrap_comment(lines, width):
    """The lines of one comment, without their marker."""
    wrapped, paragraph, is_code, content_indent = [], [], False, 0

    def end():
        wrapped.extend(wrap(paragraph, width))
        paragraph.clear()

    for line in lines:
        text = line.lstrip()
        indent = len(line) - len(text)
        is_fence = text.startswith("```")
        if is_fence or is_code or OTHER.match(text):
            end()
            wrapped.append(line)
            is_code ^= is_fence
            continue
        item = ITEM.match(text)
        if item or not paragraph or indent != content_indent or text.startswith("SAFETY:"):
            end()
            content_indent = indent + (len(item[0]) if item else 0)
        # Four spaces begin code, except in an item of a list.
        if not paragraph and not item and indent >= 4 and (not wrapped or not wrapped[-1].strip()):
            wrapped.append(line)
            continue
        paragraph.append(line)
    end()
    return wrapped


def wrap_file(text):
    lines, is_comment = text.split("\n"), comment_lines(text)
    wrapped, number = [], 0
    while number < len(lines):
        match = COMMENT.fullmatch(lines[number]) if number in is_comment else None
        if not match:
            wrapped.append(lines[number])
            number += 1
            continue
        marker, block = match[1], []
        while number in is_comment and (match := COMMENT.fullmatch(lines[number])) and match[1] == marker:
            block.append(match[2] or "")
            number += 1
        for line in wrap_comment(block, WIDTH - len(marker) - 1):
            wrapped.append(f"{marker} {line}" if line else marker)
    return "\n".join(wrapped)


def main():
    if sys.argv[1:] not in (["write"], ["check"]):
        sys.exit(__doc__)
    names = subprocess.run(
        ["git", "ls-files", "*.rs"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    different = []
    for name in names:
        text = (ROOT / name).read_text()
        if (wrapped := wrap_file(text)) != text:
            different.append(name)
            if sys.argv[1] == "write":
                (ROOT / name).write_text(wrapped)
    if different and sys.argv[1] == "check":
        print("comments longer than 110 columns:", *different, sep="\n  ", file=sys.stderr)
        sys.exit("run: scripts/format-comments.py write")


if __name__ == "__main__":
    main()
