#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a table for each layer profile of the DAPPLE and PipeDream repositories: one row a node, with the figures as published.

usage: convert.py PROFILE.txt... (into the current folder)
"""
import re
import sys
from pathlib import Path

FIELDS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")


def number(text):
    """The shortest text of the same number; of a list "[a; b]" one of each, joined by ";"."""
    parts = [repr(float(part)) for part in text.strip("[]").split(";")]
    return ";".join(part[:-2] if part.endswith(".0") else part for part in parts)


def convert(path):
    rows, inputs = [], {}
    for line in path.read_text().splitlines():
        parts = [part.strip() for part in line.split(" -- ")]
        if line[:1] in ("\t", " "):
            inputs.setdefault(parts[1], []).append(parts[0].removeprefix("node"))
        elif parts[0]:
            figures = dict(re.findall(r"(\w+)=(\[[^]]*\]|[^,]*)", parts[-1]))
            rows.append((parts[0], parts[1].split("(")[0].strip(), [number(figures[field]) for field in FIELDS]))
    with open(path.stem + ".csv", "w") as out:
        out.write("node,name,forward_ms,backward_ms,output_bytes,parameter_bytes,inputs\n")
        for node, name, figures in rows:
            out.write(",".join((node.removeprefix("node"), name, *figures, " ".join(inputs.get(node, [])))) + "\n")


for argument in sys.argv[1:]:
    convert(Path(argument))
