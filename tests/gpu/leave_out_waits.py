#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Leaves out each wait for an event of a device, one at a time, and runs tests that have to fail then.

usage: leave_out_waits.py [BUILD] [--only NAME]

The emulated GPU tells by which ways waits are asked for, and leaves out those that come by a given address, so that nothing is compiled
again. A site is a call on such a way: in the device library, in its adapter, or in the runtime. BUILD is a build's folder (default:
build/release); one with debug symbols gives lines. Prints a row a site; those whose function has NAME in its name, if given. Exit status
1 if a site can be left out without any test failing.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import OrderedDict

TESTS = ["tst_gpu_training", "tst_gpu_operators", "tst_gpu_communication"]
# Behind the runtime's call: who asked for the training is of no interest.
RUNTIME = re.compile(r"planloom::runtime::(?!waitFor|drain)")
OUTSIDE = re.compile(r"planloom::test::|^Test|^main$|std::|^_start|^Feed")
SECONDS = 120


def ways(program, folder):
    """The ways of all waits of a test that passes: lists of addresses."""
    path = os.path.join(folder, os.path.basename(program))
    done = subprocess.run([program], env={**os.environ, "PLANLOOM_WAITS": "list:" + path}, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{program} fails with nothing left out; mend it first")
    with open(path) as lines:
        return [line.split() for line in lines]


def functions(program, addresses):
    """By address, the function that it lies in, and its line if the program has debug symbols."""
    before = [hex(int(address, 16) - 1) for address in addresses]  # a return address is behind the call
    text = subprocess.run(["addr2line", "-Cfe", program, *before], capture_output=True, text=True, check=True).stdout.splitlines()
    named = {}
    for i, address in enumerate(addresses):
        line = text[2 * i + 1].split(" ")[0]
        name = re.sub(r"\(anonymous namespace\)::|\[clone [^]]*\]", "", text[2 * i]).split("(")[0]
        named[address] = (name, "" if line.startswith("?") else line)
    return named


def sites(program, folder):
    """The addresses up to the runtime's first, in order, with their names."""
    found = ways(program, folder)
    names = functions(program, sorted({address for way in found for address in way}))
    kept = OrderedDict()
    for way in found:
        for address in way:
            name = names[address][0]
            if not OUTSIDE.search(name):
                kept[address] = names[address]
            if RUNTIME.search(name):
                break
    return kept


def failure(program, address):
    """How the test ends without waits that come by @p address; None: it passes."""
    try:
        done = subprocess.run([program], env={**os.environ, "PLANLOOM_WAITS": "without:" + address}, capture_output=True, text=True,
                              timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode == 0:
        return None
    first = next((line for line in done.stdout.splitlines() if line.startswith("FAIL!")), None)
    return first.split("::")[1].split(")")[0] + ")" if first else f"ends with {done.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    outcome = OrderedDict()  # by function and line, or by function and address where tests have other addresses
    with tempfile.TemporaryDirectory() as folder:
        for test in TESTS:
            program = f"{options.build}/tests/{test}"
            counts = {}
            for address, (name, line) in sites(program, folder).items():
                counts[name] = counts.get(name, 0) + 1
                if options.only not in name:
                    continue
                site = (name, line or f"call {counts[name]}")
                seen = outcome.get(site)
                if seen is None:
                    failed = failure(program, address)
                    outcome[site] = failed and f"{test}: {failed}"
    for (name, place), seen in outcome.items():
        print(f"{name}, {place}: {seen or 'NOT SEEN'}")
    missed = sum(seen is None for seen in outcome.values())
    print(f"{len(outcome)} sites, {missed} not seen")
    return 1 if missed or not outcome else 0


if __name__ == "__main__":
    sys.exit(main())
