#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a table of resources/docs that a benchmark printed and that is not marked so, or whose mark is wrong.

A table is a benchmark's if the text between it and the heading or table before names one, or its own cells do. The line above it is then
    <!-- printed by bench_whale; checked by tst_whale_table -->     where that test works out the figures again and names the page, or
    <!-- printed by bench_peer; times of one machine -->            where no test can, with the reason, or
    <!-- not printed by a benchmark -->                             where it only names one.

usage: check_tables.py ROOT        checks the tree
       check_tables.py --self-test checks made-up pages
"""
import re
import sys
from pathlib import Path

BENCHMARK = re.compile(r"\bbench_\w+|planloom bench \w+")
MARK = re.compile(r"<!-- printed by ((?:bench_\w+|planloom bench \w+)[^;]*); (.+) -->")
NONE = "<!-- not printed by a benchmark -->"
TEST = re.compile(r"checked by (tst_\w+)")


def tables(lines):
    """Pairs of the number of a table's first line and that of the first line of its text."""
    start = 0
    for number, line in enumerate(lines):
        if line.startswith("#"):
            start = number
        if not line.startswith("|") or number > 0 and lines[number - 1].startswith("|"):
            continue
        yield number, start
        end = number
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        start = end


def findings_of(page, lines, benchmarks, tests):
    """@benchmarks: names of bench programs; @tests: text of each test by its name."""
    for number, start in tables(lines):
        end = number
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        mark = MARK.fullmatch(lines[number - 1]) if number > 0 else None
        if not mark:
            if (number == 0 or lines[number - 1] != NONE) and BENCHMARK.search("\n".join(lines[start:end])):
                yield number + 1, "a benchmark's table without its mark"
            continue
        for program in mark[1].split(", "):
            if program.startswith("bench_") and program not in benchmarks:
                yield number, f"there is no {program}"
        test = TEST.match(mark[2])
        if test and page not in tests.get(test[1], ""):
            yield number, f"{test[1]} does not read {page}"


def check_tree(root):
    benchmarks = {path.stem for path in (root / "tests" / "bench").glob("bench_*.cpp")}
    tests = {path.stem: path.read_text(encoding="utf-8") for path in (root / "tests").rglob("tst_*.cpp")}
    count = findings = 0
    for path in sorted((root / "resources" / "docs").rglob("*.md")):
        page = path.relative_to(root).as_posix()
        lines = path.read_text(encoding="utf-8").splitlines()
        count += sum(1 for _ in tables(lines))
        for number, what in findings_of(page, lines, benchmarks, tests):
            findings += 1
            print(f"{page}:{number}: {what}")
    print(f"house: {count} tables, {findings} findings")
    return count > 0 and findings == 0


TABLE = "| a | b |\n|---|---|\n| 1 | 2 |"
CASES = [
    (f"# Title\n\n{TABLE}", []),
    (f"Made by `bench_a`:\n\n{TABLE}", [3]),
    (f"Made by `planloom bench planners`:\n\n{TABLE}", [3]),
    (f"# Of `bench_a`\n\n## Other\n\n{TABLE}", []),
    (f"`bench_a`:\n<!-- printed by bench_a; times of one machine -->\n{TABLE}\n\nAnd:\n\n{TABLE}", []),
    (f"<!-- printed by bench_a; checked by tst_a -->\n{TABLE}", []),
    (f"<!-- printed by bench_b; times of one machine -->\n{TABLE}", [1]),
    (f"<!-- printed by bench_a; checked by tst_b -->\n{TABLE}", [1]),
    (f"See `bench_a`.\n<!-- not printed by a benchmark -->\n{TABLE}", []),
    ("| a | made by |\n|---|---|\n| 1 | `bench_a` |", [1]),
]


def self_test():
    wrong = 0
    for text, wanted in CASES:
        found = [number for number, _ in findings_of("page.md", text.split("\n"), {"bench_a"}, {"tst_a": "page.md", "tst_b": ""})]
        if found != wanted:
            wrong += 1
            print(f"self-test: {found} instead of {wanted} in\n{text}\n")
    return wrong == 0


sys.exit(0 if (self_test() if sys.argv[1] == "--self-test" else check_tree(Path(sys.argv[1]))) else 1)
