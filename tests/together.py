#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes one source file of several test programs: python3 together.py OUTPUT tst_a.cpp tst_b.cpp ...

Most of the time that a test takes to compile goes into the inline functions of common headers, which are the same in every test: eight tests
as one take two to three times what one takes. Each file stands in a namespace of its name, so that equal local names do not meet, and what the
files include stands before. The program runs the test that it is called by: every test is a symbolic link to it.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'\s*#\s*include\s+(<[^>]+>|"[^"]+")')


def includes(source):
    for match in map(INCLUDE.match, source.read_text().splitlines()):
        if match and not match.group(1).endswith('.moc"'):
            beside = source.parent / match.group(1).strip('"')
            yield f'"{beside}"' if beside.exists() else match.group(1)


def main():
    output, sources = pathlib.Path(sys.argv[1]), [pathlib.Path(name) for name in sys.argv[2:]]
    headers = dict.fromkeys(header for source in sources for header in includes(source))
    lines = ["// Made by tests/together.py.", *(f"#include {header}" for header in headers), "#include <cstring>", "#include <iostream>", ""]
    for source in sources:
        lines += [f"namespace {source.stem} {{", f'#include "{source}"', "}"]
    lines += ["", "int main(int argc, char** argv)", "{",
              "    const std::string_view path = argv[0], name = path.substr(path.find_last_of('/') + 1);"]
    lines += [f'    if (name == "{source.stem}")\n        return {source.stem}::main(argc, argv);' for source in sources]
    lines += [r'''    std::cerr << name << ": no test of this program; call it by the symbolic link of a test\n";''', "    return 2;", "}", ""]
    output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
