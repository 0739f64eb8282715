#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on text that should never be committed: paths of the machine that something was built on, notes to oneself without an issue,
markers of an unfinished merge, tabs and trailing blanks in sources, and words that stand for a noun of the field.

usage: check_words.py ROOT        checks the tree
       check_words.py --self-test checks that made-up bad lines are caught and good ones are not
"""
import re
import sys
from pathlib import Path

# The words are put together here so that this file passes its own test.
NOTES = "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK"))
MERGES = "|".join(re.escape(mark * 7) for mark in "<>|")
RULES = [
    ("a path of a build machine", re.compile(r"(?<![\w.$}\])-])/(?:home|Users|work|builds)/[\w.-]+|(?<![\w.])/roo[t]/|\b[A-Z]:\\\\Users")),
    ("a note without an issue (write NOTE(#12))", re.compile(rf"\b(?:{NOTES})\b(?!\(#\d+\))")),
    ("a file beside the clone, which another clone has not", re.compile(r'PLANLOOM_SOURCE_DIR\W*/\.\./')),
    ("a merge marker", re.compile(rf"^(?:{MERGES})(?: |$)")),
]
# Name the thing instead: the user, the rank, the worker group, the reader of a tensor. A word in quotes is a key of a file.
VAGUE = "|".join(("no" + "body", "some" + "body", "any" + "body", "every" + "body", "who" + "ever", "a per" + "son", "un" + "asked", "gan" + "gs?",
                  "sh" + "all", "looked" + " at"))
PROSE_RULES = [
    ("a vague word (name the thing)", re.compile(rf"(?<![\"`])\b(?:{VAGUE})\b|\b(?:{VAGUE})\b(?![\"`])", re.IGNORECASE)),
]
PROSE = {".cpp", ".h", ".md", ".proto"}
SOURCE_RULES = [
    ("a trailing blank", re.compile(r"[ \t]+$")),
    ("a tab", re.compile(r"\t")),
]
TEXT = {".cpp", ".h", ".py", ".md", ".txt", ".json", ".yaml", ".yml", ".cmake", ".proto", ".qrc", ".svg", ".desktop", ".xml", ".csv", ""}
SOURCES = {".cpp", ".h", ".py", ".proto", ".cmake"}
SKIPPED = {"build", "out", ".git", ".cache", "__pycache__", "corpus", "LICENSES"}


def check_line(path, line):
    suffix = Path(path).suffix
    rules = RULES + (SOURCE_RULES if suffix in SOURCES else [])
    rules = rules + (PROSE_RULES if suffix in PROSE else [])
    return [what for what, pattern in rules if pattern.search(line)]


def check_tree(root):
    count = findings = 0
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if not path.is_file() or path.suffix not in TEXT or SKIPPED & set(relative.parts):
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # binary sample data
        count += 1
        for number, line in enumerate(lines, 1):
            for what in check_line(relative.as_posix(), line):
                findings += 1
                print(f"{relative}:{number}: {what}: {line.strip()[:100]}")
    print(f"house: {count} files, {findings} findings")
    return count > 0 and findings == 0


CASES = [
    ("a.cpp", 'open("/home/' + 'ada/x.onnx");', "build machine"),
    ("a.md", "see /wo" + "rk/main/x", "build machine"),
    ("a.json", '{"source": "/ro' + 'ot/model.onnx"}', "build machine"),
    ("a.cpp", "PLANLOOM_SOURCE" + '_DIR "/../golden"', "beside the clone"),
    ("a.cpp", 'PLANLOOM_SOURCE_DIR "/tests/golden"', ""),
    ("a.md", "https://example.org/home/page", ""),
    ("a.cpp", 'dir + "/network/x"', ""),
    ("a.cpp", "// TO" + "DO: later", "note without"),
    ("a.cpp", "// TO" + "DO(#12): later", ""),
    ("a.py", "# FIX" + "ME", "note without"),
    ("a.cpp", "<" * 7 + " HEAD", "merge marker"),
    ("a.cpp", "    std::cout << value << 7;", ""),
    ("a.md", "", ""),
    ("a.cpp", "int a; ", "trailing blank"),
    ("a.cpp", "\tint a;", "a tab"),
    ("a.md", "line  ", ""),
    ("a.h", "/// 0 if no" + "body reads it", "vague word"),
    ("a.md", "Who" + "ever edits makes a new one.", "vague word"),
    ("a.cpp", 'tr("stopped by a per' + 'son")', "vague word"),
    ("a.cpp", "const auto gan" + "gs = 2;", "vague word"),
    ("a.md", "the key `gan" + "g` of lease.json", ""),
    ("a.cpp", '{"gan' + 'g", group}', ""),
    ("a.cpp", "// unmasked, shallow", ""),
    ("a.py", "# sh" + "all we", ""),
]


def self_test():
    wrong = 0
    for path, line, wanted in CASES:
        found = check_line(path, line)
        if not (any(wanted in what for what in found) if wanted else not found):
            wrong += 1
            print(f"self-test: {path}: {line!r}: wanted {wanted or 'nothing'!r}, found {found}")
    print(f"house: {len(CASES)} cases, {wrong} wrong")
    return wrong == 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(0 if (self_test() if sys.argv[1] == "--self-test" else check_tree(Path(sys.argv[1]))) else 1)
