#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Leaves out each wait for an event of the device library and its adapter, one at a time, and runs tests that have to fail then.

usage: leave_out_waits.py [--build BUILD]   from the root of the tree, which is changed and restored

Prints a line a site. Exit status 1 if a site can be left out without any test failing.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

FILES = ["executor/device/plugin/host_work.cpp", "executor/device/plugin/plugin_device.cpp", "executor/device/cuda/cuda_device.cpp"]
TESTS = ["tst_gpu_operators", "tst_gpu_training"]
# A statement, alone on its lines.
SITE = re.compile(r"^ +(?:m_device\.check\(|check\()?[\w.()>-]*\b(?:streamWaitEvent|wait)\([^;{}]*\);$", re.M)
ADAPTER = re.compile(r"(void wait\(Event &event\) override \{)[^}]*(\})")


def sites():
    for file in FILES:
        text = Path(file).read_text()
        for found in SITE.finditer(text):
            yield file, text, found.start(), text[:found.start()] + "    ;" + text[found.end():]
        for found in ADAPTER.finditer(text):
            left_out = "void wait(Event & /*event*/) override {}"
            yield file, text, found.start(), text[:found.start()] + left_out + text[found.end():]


def seen(build):
    """The first test that fails; None if all pass."""
    made = subprocess.run(["cmake", "--build", build, "--target", *TESTS], capture_output=True, text=True)
    if made.returncode != 0:
        return "the compiler: " + next((line for line in made.stdout.splitlines() if "error" in line), "?")
    for test in TESTS:
        if subprocess.run([f"{build}/tests/{test}"], capture_output=True, timeout=600).returncode != 0:
            return test
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release")
    build = parser.parse_args().build
    missed = 0
    for file, text, start, mutated in list(sites()):
        line = text.count("\n", 0, start) + 1
        try:
            Path(file).write_text(mutated)
            by = seen(build)
        finally:
            Path(file).write_text(text)
        missed += by is None
        print(f"{file}:{line}: {by or 'NOT SEEN'}", flush=True)
    subprocess.run(["cmake", "--build", build, "--target", *TESTS], capture_output=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
