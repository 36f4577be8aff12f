"""Executes the Python blocks of docs/sql.md, in order, in a directory with the runs that the page makes.

page.py PAGE            compares what every block shows with the `text` block below it
page.py PAGE --update   writes what every block shows into the page
page.py PAGE --json     prints the answers to the questions: a list of rows for each heading
"""

import ast
import json
import sys
from pathlib import Path


def blocks(lines):
    """Every `python` block: its heading, its code, and the first and last line of the output below."""
    heading, at = None, 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("## "):
            heading = line[3:]
        if line != "```python":
            continue
        end = lines.index("```", at)
        code, at = "\n".join(lines[at:end]), end + 1
        shown = None
        if lines[at : at + 2] == ["", "```text"]:
            shown = (at + 2, lines.index("```", at + 2))
            at = shown[1] + 1
        yield heading, code, shown


def execute(code, names):
    """Runs a block as a notebook does: its value is that of its last line, if that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "page", "exec"), names)
    return eval(compile(ast.Expression(last.value), "page", "eval"), names) if last else None


def rows(value):
    """The rows of an answer of DuckDB or of polars."""
    frame = value.pl() if hasattr(value, "pl") else value
    return frame.rows(named=True)


def main(page, mode=None):
    lines = Path(page).read_text().splitlines()
    names, answers, changes, wrong = {}, {}, [], []
    for heading, code, shown in blocks(lines):
        value = execute(code, names)
        if shown is None:
            continue
        begin, end = shown
        text = [line.rstrip() for line in str(value).strip("\n").split("\n")]
        answers[heading] = rows(value)
        if text != lines[begin:end]:
            changes.append((begin, end, text))
            wrong.append(f"{page}: not what the block above line {begin} shows:\n" + "\n".join(text))
    if mode == "--json":
        print(json.dumps(answers, default=int))
    elif mode == "--update":
        for begin, end, text in reversed(changes):
            lines[begin:end] = text
        Path(page).write_text("\n".join(lines) + "\n")
    elif wrong:
        sys.exit("\n".join(wrong))


main(*sys.argv[1:])
