#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a class, struct, enumeration or union at namespace level in a header of the product without a comment above it.

usage: check_documented.py ROOT        checks the tree
       check_documented.py --self-test checks made-up headers
"""
import re
import sys
from pathlib import Path

FLOORS = ("app", "ui", "engine", "planners", "executor", "profiler")
# Declarations that end in a semicolon only name a type, and a template of a function begins on the line of its arguments.
TYPE = re.compile(r"(?:template .*> )?(?:class|struct|enum(?: class)?|union) \w[^;]*$")


def undocumented(lines):
    """Numbers of lines, from 1."""
    for number, line in enumerate(lines, 1):
        if not TYPE.match(line):
            continue
        above = number - 2
        while above >= 0 and lines[above].startswith(("template ", "template<", "[[")):
            above -= 1
        if above < 0 or not lines[above].startswith(("//", " */")):
            yield number


def check_tree(root):
    count = findings = 0
    for floor in FLOORS:
        for path in sorted((root / floor).rglob("*.h")):
            count += 1
            lines = path.read_text(encoding="utf-8").splitlines()
            for number in undocumented(lines):
                findings += 1
                print(f"{path.relative_to(root)}:{number}: a type without a comment: {lines[number - 1].strip()[:100]}")
    print(f"house: {count} headers, {findings} findings")
    return count > 0 and findings == 0


CASES = [
    ("struct A {", [1]),
    ("/// A point.\nstruct A {\n    int x;\n    struct Inner {", []),
    ("int a;\n\nenum class B : std::uint8_t {", [3]),
    ("class A;\nstruct B;", []),
    ("/// Of pairs.\ntemplate <class T>\nclass C {", []),
    ("}\ntemplate <class T>\nstruct std::hash<A<T>> {", [3]),
    ("}\ntemplate <class T>\nT sum(T a)", []),
    ("// Kinds.\nenum D { X };", []),
    ("};\nstruct E final : F {", [2]),
]


def self_test():
    wrong = 0
    for text, wanted in CASES:
        found = list(undocumented(text.split("\n")))
        if found != wanted:
            wrong += 1
            print(f"self-test: {text!r}: wanted {wanted}, found {found}")
    print(f"house: {len(CASES)} cases, {wrong} wrong")
    return wrong == 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(0 if (self_test() if sys.argv[1] == "--self-test" else check_tree(Path(sys.argv[1]))) else 1)
