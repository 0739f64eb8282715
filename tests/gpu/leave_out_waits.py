#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Leaves out each wait for an event of a device, one at a time, and runs tests that have to fail then.

usage: leave_out_waits.py [BUILD] [--only NAME] [--test NAME] [--tries N]

The emulated GPU tells by which ways waits are asked for, and leaves out those that come by a given address, so that nothing is compiled
again. A site is a call on such a way: in the device library, in its adapter, or in the runtime. BUILD is a folder of the preset tsan
(default: build/tsan): the streams of the emulated GPU are in no other order than events and synchronization put them in, so that
ThreadSanitizer reports what a missing wait leaves unordered, whatever the delays of that run are. Prints a row a site, with what the first
case of at most N a test that have it says; those whose function, or test, has NAME in its name, if given. Exit status 1 if a site can be left out without
any test failing.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict

# Functions of tests, each with its rows, that are run: not those of which one needs another, or that compare operators one by one.
TESTS = OrderedDict([
    ("tst_gpu_operators", r"Takes?Turns|waitsPutQueuesInOrder|scoresAgree|rulesOfUpdateAgree:adamw"),
    ("tst_gpu_training", r"models.*:(GPT$|LSTM|convolutions)|layoutsTrain|graphsTrain|samplesCome"),
    ("tst_gpu_communication", r"collectives|messagesFind|Train.*:(gpt, |residual, data)|othersGo|ranksShare"),
])
# Behind the runtime's call: who asked for the training is of no interest.
RUNTIME = re.compile(r"planloom::runtime::(?!waitFor|drain|RankParts::drain)")
PRODUCT = re.compile(r"^(executor|profiler)/")  # files of sites
SECONDS = 170
SUPPRESSIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "thread_sanitizer.supp")


def run(program, case, waits, seconds=SECONDS):
    environment = {**os.environ, "PLANLOOM_WAITS": waits, "OMP_NUM_THREADS": "1", "QT_QPA_PLATFORM": "offscreen",
                   "TSAN_OPTIONS": f"suppressions={SUPPRESSIONS}:die_after_fork=0:halt_on_error=1:report_bugs=1"}
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen([program, "-nocrashhandler", case], env=environment, stdout=out, stderr=out, start_new_session=True)
        try:
            child.wait(seconds)
        finally: # with what it may have started
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        out.seek(0)
        return child.returncode, out.read().decode(errors="replace")


def cases(program, wanted):
    """Functions and rows of a test: what it takes as argument."""
    text = subprocess.run([program, "-datatags"], capture_output=True, text=True, check=True).stdout
    found = []
    for line in text.splitlines():
        words = line.split(" ", 2)
        if len(words) < 2:
            continue
        case = words[1] + (":" + words[2].strip() if len(words) > 2 and words[2].strip() else "")
        if re.search(wanted, case) and case.count(":") < 2:
            found.append(case)
    return found


def ways(program, case, folder):
    """The ways of all waits of a case that passes: lists of addresses; and how long it takes."""
    path = os.path.join(folder, "ways")
    if os.path.exists(path):
        os.remove(path)
    begin = time.time()
    status, said = run(program, case, "list:" + path, 10 * SECONDS)
    if status != 0:
        sys.exit(f"{program} '{case}' fails with nothing left out; mend it first:\n{said[-5000:]}")
    with open(path) as lines:
        return [line.split() for line in lines], time.time() - begin


def functions(program, addresses):
    """By address, the function that it lies in, and its line."""
    before = [hex(int(address, 16) - 1) for address in addresses]  # a return address is behind the call
    text = subprocess.run(["addr2line", "-Cfe", program, *before], capture_output=True, text=True, check=True).stdout.splitlines()
    named = {}
    for i, address in enumerate(addresses):
        line = text[2 * i + 1].split(" ")[0]
        name = re.sub(r"\(anonymous namespace\)::|\[clone [^]]*\]|\[abi:[^]]*\]", "", text[2 * i]).split("(")[0]
        named[address] = (name, "" if line.startswith("?") else re.sub(r"^.*?(?<!tests)/(executor|profiler)/", r"\1/", line))
    return named


def sites(program, wanted, folder, known):
    """By site, the addresses of its calls, and for each the cases that have it, the shortest first. known: function and line by address."""
    found = OrderedDict()
    for case in cases(program, wanted):
        listed, seconds = ways(program, case, folder)
        known.update(functions(program, sorted({address for way in listed for address in way} - known.keys())))
        for address in OrderedDict.fromkeys(address for way in listed for address in inside(way, known)):
            found.setdefault(known[address], {}).setdefault(address, []).append((seconds, case))
        print(f"# {os.path.basename(program)} {case}: {len(listed)} ways, {seconds:.1f} s", file=sys.stderr, flush=True)
    return found


def inside(way, known):
    """Of a way, the addresses up to the runtime's first."""
    for address in way:
        name, line = known[address]
        if PRODUCT.search(line):
            yield address
        if RUNTIME.search(name):
            return


def failure(program, case, address):
    """How a case ends without waits that come by @p address; None: it passes."""
    try:
        status, said = run(program, case, "without:" + address)
    except subprocess.TimeoutExpired:
        return "hangs"
    if status == 0:
        return None
    report = re.search(r"(?:WARNING|ERROR): ThreadSanitizer: ([^(]*) \(", said)
    if report:
        return report.group(1)
    return "wrong result" if "FAIL!" in said else f"ends with {status}"


def seen(program, addresses, tries):
    """What the first failing case of a site says; None: none of those that are tried fails."""
    for address, timed in addresses.items():
        for _, case in sorted(timed)[:tries]:
            how = failure(program, case, address)
            if how:
                return f"{os.path.basename(program)} {case}: {how}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build/tsan")
    parser.add_argument("--only", default="")
    parser.add_argument("--test", default="")
    parser.add_argument("--tries", type=int, default=4)
    options = parser.parse_args()
    outcome = OrderedDict()  # by function and line
    with tempfile.TemporaryDirectory() as folder:
        for test, wanted in ((test, wanted) for test, wanted in TESTS.items() if options.test in test):
            program = f"{options.build}/tests/{test}"
            for site, addresses in sites(program, wanted, folder, {}).items():
                if options.only in site[0] and outcome.get(site) is None:
                    outcome[site] = seen(program, addresses, options.tries)
                    print(f"{site[0]}, {site[1]}: {outcome[site] or 'not seen by ' + test}", flush=True)
    missed = [site for site, how in outcome.items() if how is None]
    for name, place in missed:
        print(f"NOT SEEN: {name}, {place}")
    print(f"{len(outcome)} sites, {len(missed)} not seen")
    return 1 if missed or not outcome else 0


if __name__ == "__main__":
    sys.exit(main())
