#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the #include lines of the tree and reports those that the table of floors below does not allow.

usage: check_includes.py ROOT        checks the tree
       check_includes.py --self-test checks that made-up bad files are caught and good ones are not

The table is that of the design (resources/docs/house.md) with these additions, each because the value in question is made
of the other:
    plan      may include cost     (a plan's subject carries the cost model of its model and cluster)
    program   may include trace    (tasks carry the trace's kinds; a program hands out the trace's task table)
    schedule  stands below plan    (a plan's order is a list of pass steps)
    update    stands below plan    (a plan's optimizer is an update rule with its settings)
    gnn       stands below plan    (a plan of sampled training has its roles and the bytes between them)
    simulate  may include what plan may (simulatePlan takes a plan and its subject)
    comm      may include cost/collectives.h (what collectives send: the planner and the transport must agree)
    import    may include graph, weights, cluster, cost, plan, gnn  (what it reads foreign formats into)
    export    may include graph, plan, program, trace (what it writes)
A folder may include what the folders that it may include may, and itself. Subfolders of one floor have a table of their
own (INNER).
"""
import re
import sys
from pathlib import Path

ENGINE = {
    "base": [],
    "graph": ["base"],
    "weights": ["graph"],
    "cluster": ["base"],
    "gnn": ["trace"],
    "sharding": ["graph"],
    "cost": ["graph", "cluster", "sharding"],
    "trace": ["base"],
    "schedule": ["base"],
    "update": ["base"],
    "admm": ["graph"],
    "plan": ["graph", "cluster", "sharding", "cost", "schedule", "update", "gnn", "admm"],
    "memory": ["plan"],
    "program": ["plan", "trace", "memory"],
    "compile": ["program", "cost"],
    "dispatch": ["program"],
    "simulate": ["compile", "dispatch", "trace"],
    "run": ["plan"],
    "import": ["graph", "weights", "cluster", "cost", "plan", "gnn"],
    "export": ["graph", "plan", "program", "trace", "simulate"],
    "store": ["simulate", "run"],
    "compare": ["simulate", "run"],
    "analysis": ["trace"],
    "overlay": ["simulate"],
}
PLANNERS = ["admm", "auto", "automap", "dapple", "data_parallel", "gnn", "gpipe", "manual", "oneflow", "pipedream", "spp", "whale"]
VIEWS = ["cluster", "compare", "memory", "model", "placement", "planview", "run", "timeline"]
ALL_ENGINE = [f"engine/{folder}" for folder in ENGINE]

# Planners and executor do not know each other; the executor knows nothing of the profiler.
FLOORS = {f"engine/{folder}": [f"engine/{below}" for below in may] for folder, may in ENGINE.items()}
FLOORS |= {
    "planners/interface": ["engine/simulate"],
    "planners/common": ["planners/interface"],
    **{f"planners/{planner}": ["planners/common"] for planner in PLANNERS},
    "planners/automap": ["planners/common", "planners/dapple", "planners/oneflow"], # scores as the one, cuts as the other
    "planners/gnn": ["planners/common", "engine/gnn"],
    "planners": [f"planners/{planner}" for planner in PLANNERS],
    "executor/device": ["engine/cost", "engine/update", "engine/weights"],
    "executor/data": ["engine/graph", "engine/gnn"],
    "executor/comm": ["engine/base", "engine/cost/collectives.h"],
    "executor/checkpoint": ["engine/graph", "engine/weights", "engine/sharding"],
    "executor/runtime": ["executor/device", "executor/data", "executor/comm", "executor/checkpoint", "engine/simulate", "engine/run"],
    "executor/agent": ["executor/runtime", "engine/simulate", "engine/store"],
    "executor/remote": ["executor/agent", "engine/cluster", "engine/run", "engine/trace"],
    "profiler": ["executor/runtime", "executor/device", "engine/simulate"],
    "ui/theme": [],
    "ui/widgets": ["ui/state", "ui/theme"],
    "ui/state": ["planners", "executor/agent/client.h", "executor/data/graph_folder.h", *ALL_ENGINE],
    **{f"ui/{view}": ["ui/widgets"] for view in VIEWS},
    "ui/run": ["ui/widgets", "ui/memory"], # the same curves
    "ui/compare": ["ui/widgets", "ui/timeline"], # the same hues, textures and time axis
    "ui/placement": ["ui/widgets", "ui/memory"], # units of axes
    "ui/planview": ["ui/widgets", "ui/memory"], # likewise
    "ui/shell": [f"ui/{view}" for view in VIEWS],
    "ui/script": ["ui/shell"],
    "ui/demo": ["ui/script"],
    "ui/bench": ["ui/shell"],
    "app/outline": [],
    "app/planloom": ["app/outline", "planners", "profiler", "executor/agent", "executor/remote", "executor/runtime", "executor/checkpoint", *ALL_ENGINE],
    "app/studio": ["ui/demo", "ui/bench", "app/outline", "planners", "executor/agent/client.h", *ALL_ENGINE],
}
# Tests mirror the tree and may look at everything.
FREE = ("tests",)

# Within a folder of the table that has subfolders: what each of them may include of the others; "" is what lies in the
# folder itself. Headers stand here by name where the rest of their subfolder may not be included.
INNER = {
    "engine/graph": {
        # The value checks itself against the registry: the builder infers shapes, the reader looks types up.
        "": ["operators/traits.h", "operators/operators.h"],
        "operators": [""],
        "gradients": ["operators"],
        "rewrite": ["gradients"],
        "zoo": [""],
    },
    "engine/dispatch": {
        "": ["policies/policies.h"], # the list of policies, which are looked up by name
        "policies": [""],
    },
    "engine/import": {
        # import.h declares all readers, import.cpp chooses one by the file's name.
        "": ["loss", "model"],
        "cluster": ["import.h"],
        "graphs": [],
        "loss": ["import.h"],
        "model": ["import.h"],
        "onnx": ["import.h", "loss", "patterns"],
        "patterns": [],
        "setup": [],
        "snapshot": [],
        "trace": [],
    },
    "engine/update": {"": [], "rules": [""]},
    "executor/device": {
        "": [],
        "cpu": [""],
        "cpu/kernels": ["cpu"],
        "plugin": ["cpu"], # operators that a plug-in has not run on the processor
        "cuda": ["plugin", "cuda/kernels"],
        "cuda/kernels": [""],
        "cuda/library": ["cuda", "cuda/kernels"],
    },
}

# Headers of libraries that have one home: (what, pattern, folders that may include it).
HOMES = [
    ("Qt", re.compile(r"(Qt?[A-Z]\w*|Qt\w*/.+|q[a-z]+\.h|moc_.+)$"), ("ui", "app/studio", "tests")),
    ("MPI", re.compile(r"mpi\.h$|mpi/"), ("executor/comm",)),
    ("SQLite", re.compile(r"sqlite3(ext)?\.h$"), ("engine/store", "engine/import/trace")),
    ("gRPC", re.compile(r"grpc(pp|\+\+)?/|.*\.grpc\.pb\.h$"), ("executor/agent",)),
    ("ONNX", re.compile(r"onnx/"), ("engine/import",)),
    ("Eigen", re.compile(r"Eigen/"), ("engine/admm", "planners/automap", "tests")),
    ("simdjson", re.compile(r"simdjson\.h$"), ("engine/import/trace",)),
    ("METIS", re.compile(r"metis\.h$"), ("engine/gnn",)),
    ("toml++", re.compile(r"toml\+\+/"), ("engine/import",)),
    ("CUDA", re.compile(r"(cuda|cublas|cudnn|nccl|cupti)\w*\.h$"), ("executor/device/cuda",)),
    ("oneDNN", re.compile(r"oneapi/dnnl/|dnnl"), ("executor/device",)),
    ("Graphviz", re.compile(r"(gvc|cgraph|graphviz/\w+)\.h$"), ()),  # dot is a child process, never linked
]
UMBRELLAS = re.compile(r"Qt(Core|Gui|Widgets|Charts|Svg|Test|Network|Concurrent)$")
# The JSON reader is made of nlohmann's type: it stands for it, and is as heavy.
HEAVY = re.compile(r"engine/base/json_reader\.h$|nlohmann/json\.hpp$|CLI/CLI\.hpp$|spdlog/")

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
SOURCES = {".cpp", ".h", ".hpp", ".cc", ".c", ".cu", ".cuh"}
LICENSED = SOURCES | {".py", ".cmake", ".sh"}
SKIPPED = {"build", "out", ".git", ".cache", "__pycache__", "corpus"}


def closure(folder, seen=None):
    """The folder and everything that it may include, directly or through what it includes."""
    seen = set() if seen is None else seen
    if folder not in seen:
        seen.add(folder)
        for below in FLOORS.get(folder, []):
            closure(below, seen)
    return seen


def folder_of(path):
    """The floor that a path lies on, longest name first; None outside the house."""
    parts = path.split("/")
    for length in (2, 1):
        name = "/".join(parts[:length])
        if name in FLOORS or name in FREE:
            return name
    return None


def inner_folder(floor, path):
    """The folder of a path within its floor, "" for the floor itself."""
    return "/".join(path[len(floor) + 1 :].split("/")[:-1])


def inner_closure(table, folder, seen=None):
    seen = set() if seen is None else seen
    if folder not in seen:
        seen.add(folder)
        for below in table.get(folder, []):
            inner_closure(table, below, seen)
    return seen


def check_inner_edge(floor, path, included):
    """What is wrong with an edge between the subfolders of one floor, or None."""
    here, there = inner_folder(floor, path), inner_folder(floor, included)
    table = INNER.get(floor, {"": []})
    for folder in (here, there):
        if folder not in table:
            return f"{floor}/{folder} is not in the table of subfolders (INNER)"
    allowed = inner_closure(table, here)
    if here == there or there in allowed or included[len(floor) + 1 :] in allowed:
        return None
    return f"{floor}/{here} may not include {included[len(floor) + 1 :]}".replace("/ may", " may")


def licence_of(path):
    return "GPL-3.0-or-later" if path.startswith(("ui/", "app/studio/", "tests/ui/")) else "Apache-2.0"


def unlisted_folder(path):
    """The folder of a source file on a floor of the house that the table does not list, or None: none of its edges would be checked."""
    parts = path.split("/")
    floors = {folder.split("/")[0] for folder in FLOORS}
    folder = "/".join(parts[:2])
    return folder if len(parts) > 2 and parts[0] in floors and folder not in FLOORS else None


def check_edge(path, included):
    """What is wrong with @p path including @p included (as written), or None."""
    here = folder_of(path)
    if here is None or here in FREE:
        return None
    there = folder_of(included)
    if there in FREE:
        return "only tests include tests"
    if there is None:
        return None
    if there == here:
        return check_inner_edge(here, path, included)
    allowed = closure(here)
    if included in allowed or there in allowed:
        return None
    return f"{here} may not include {there}"


def within(path, folders):
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def check_library(path, included):
    for what, pattern, homes in HOMES:
        if pattern.match(included) and not within(path, homes + ("tests/fuzz",)) and not (what != "Qt" and within(path, FREE)):
            return f"{what} belongs to {', '.join(homes) or 'no folder: it runs as a child process'}; {included} is not for this file"
    if UMBRELLAS.match(included) or re.match(r"Qt(\w+)/Qt\1$", included):
        return f"{included} is an umbrella header; include the classes that are used"
    if path.endswith(".h") and path != "engine/base/json_reader.h" and HEAVY.match(included):
        return f"{included} is heavy; include it in a .cpp file"
    return None


def check_text(path, text):
    """All findings in one file, as "line: what"."""
    findings = []
    lines = text.splitlines()
    head = "\n".join(lines[:2])
    if Path(path).suffix in LICENSED or Path(path).name == "CMakeLists.txt" or head.startswith("#!"):
        wanted = f"SPDX-License-Identifier: {licence_of(path)}"
        # Tests of the studio may be of either licence; everything else has exactly one.
        if "SPDX-License-Identifier: " not in head or (wanted not in head and not path.startswith("tests/")):
            findings.append((1, f"the first lines lack '{wanted}'"))
    if Path(path).suffix not in SOURCES:
        return findings
    if Path(path).suffix == ".h" and "#pragma once" not in text:
        findings.append((1, "a header starts with #pragma once"))
    if folder := unlisted_folder(path):
        findings.append((1, f"{folder} is not in the table of floors (FLOORS; PLANNERS or VIEWS for a new planner or view)"))
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        included = match.group(1)
        if included.startswith("../") or "/../" in included:
            findings.append((number, "include paths start at the root of the tree"))
        for problem in (check_edge(path, included), check_library(path, included)):
            if problem:
                findings.append((number, problem))
    return findings


def files_of(root):
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and not SKIPPED & set(relative.parts):
            yield relative.as_posix(), path


def check_tree(root):
    count = findings = 0
    for name, path in files_of(root):
        shebang = path.open("rb").read(2) == b"#!"
        if path.suffix not in LICENSED and path.name != "CMakeLists.txt" and not shebang:
            continue
        count += 1
        for line, problem in check_text(name, path.read_text(encoding="utf-8")):
            findings += 1
            print(f"{name}:{line}: {problem}")
    print(f"house: {count} files, {findings} findings")
    return count > 0 and findings == 0


APACHE = "// SPDX-License-Identifier: Apache-2.0\n"
GPL = "// SPDX-License-Identifier: GPL-3.0-or-later\n"

# Made-up files: (path, text, what must be found; "" is a clean file).
CASES = [
    ("engine/graph/a.cpp", APACHE + '#include "engine/base/result.h"\n', ""),
    ("engine/graph/a.cpp", APACHE + '#include "engine/plan/plan.h"\n', "engine/graph may not include engine/plan"),
    ("engine/base/a.cpp", APACHE + '#include "engine/graph/graph.h"\n', "engine/base may not include engine/graph"),
    ("engine/graph/rewrite/a.cpp", APACHE + '#include "engine/graph/gradients/a.h"\n', ""),
    ("engine/graph/gradients/a.cpp", APACHE + '#include "engine/graph/rewrite/a.h"\n', "engine/graph/gradients may not include rewrite/a.h"),
    ("engine/graph/a.cpp", APACHE + '#include "engine/graph/operators/operators.h"\n', ""),
    ("engine/graph/a.cpp", APACHE + '#include "engine/graph/operators/families.h"\n', "engine/graph may not include operators/families.h"),
    ("engine/graph/new/a.cpp", APACHE + '#include "engine/graph/graph.h"\n', "engine/graph/new is not in the table"),
    ("engine/plan/new/a.cpp", APACHE + '#include "engine/plan/plan.h"\n', "engine/plan/new is not in the table"),
    ("executor/device/a.cpp", APACHE + '#include "executor/device/cpu/a.h"\n', "executor/device may not include cpu/a.h"),
    ("executor/device/cpu/kernels/a.cpp", APACHE + '#include "executor/device/kernel.h"\n', ""),
    ("engine/cluster/a.cpp", APACHE + '#include "engine/graph/graph.h"\n', "may not include engine/graph"),
    ("engine/cost/a.cpp", APACHE + '#include "engine/plan/plan.h"\n', "may not include engine/plan"),
    ("engine/plan/a.cpp", APACHE + '#include "engine/cost/cost.h"\n', ""),
    ("engine/plan/a.cpp", APACHE + '#include "engine/program/program.h"\n', "may not include engine/program"),
    ("engine/program/a.cpp", APACHE + '#include "engine/compile/compile.h"\n', "may not include engine/compile"),
    ("ui/run/a.cpp", GPL + '#include "ui/shell/main_window.h"\n', "ui/run may not include ui/shell"),
    ("planners/spp/a.cpp", APACHE + '#include "planners/registry.h"\n', "planners/spp may not include planners"),
    ("engine/program/a.cpp", APACHE + '#include "engine/trace/trace.h"\n', ""),
    ("engine/trace/a.cpp", APACHE + '#include "engine/program/program.h"\n', "may not include engine/program"),
    ("engine/simulate/a.cpp", APACHE + '#include "engine/cost/cost.h"\n', ""),
    ("engine/simulate/a.cpp", APACHE + '#include "planners/interface/planner.h"\n', "may not include planners"),
    ("engine/import/a.cpp", APACHE + '#include "engine/simulate/simulate.h"\n', "may not include engine/simulate"),
    ("planners/dapple/a.cpp", APACHE + '#include "engine/simulate/simulate.h"\n', ""),
    ("planners/dapple/a.cpp", APACHE + '#include "executor/agent/client.h"\n', "planners/dapple may not include executor/agent"),
    ("executor/runtime/a.cpp", APACHE + '#include "planners/interface/planner.h"\n', "may not include planners"),
    ("executor/runtime/a.cpp", APACHE + '#include "profiler/measure.h"\n', "may not include profiler"),
    ("profiler/a.cpp", APACHE + '#include "executor/runtime/rank_executor.h"\n', ""),
    ("ui/state/a.cpp", GPL + '#include "executor/agent/client.h"\n', ""),
    ("ui/state/a.cpp", GPL + '#include "executor/agent/service.h"\n', "ui/state may not include executor/agent"),
    ("ui/state/a.cpp", GPL + '#include "executor/device/kernel.h"\n', "ui/state may not include executor/device"),
    ("app/studio/main.cpp", GPL + '#include "ui/shell/main_window.h"\n', ""),
    ("app/planloom/a.cpp", APACHE + '#include "ui/shell/main_window.h"\n', "may not include ui"),
    ("ui/shell/a.cpp", GPL + '#include "app/planloom/verbs.h"\n', "ui/shell may not include app/planloom"),
    ("engine/plan/a.cpp", APACHE + '#include "tests/house.h"\n', "only tests include tests"),
    ("planners/a.cpp", APACHE + "#include <QString>\n", "Qt belongs to ui"),
    ("executor/comm/a.cpp", APACHE + "#include <QtCore/QString>\n", "Qt belongs to ui"),
    ("app/planloom/a.cpp", APACHE + "#include <qstring.h>\n", "Qt belongs to ui"),
    ("tests/ui/tst_a.cpp", GPL + "#include <QString>\n", ""),
    ("ui/a.cpp", GPL + "#include <QtWidgets>\n", "umbrella"),
    ("ui/a.cpp", GPL + "#include <QtWidgets/QtWidgets>\n", "umbrella"),
    ("executor/runtime/a.cpp", APACHE + "#include <mpi.h>\n", "MPI belongs to executor/comm"),
    ("executor/comm/a.cpp", APACHE + "#include <mpi.h>\n", ""),
    ("engine/plan/a.cpp", APACHE + "#include <sqlite3.h>\n", "SQLite belongs to engine/store"),
    ("ui/a.cpp", GPL + "#include <grpcpp/grpcpp.h>\n", "gRPC belongs to executor/agent"),
    ("planners/a.cpp", APACHE + "#include <onnx/onnx_pb.h>\n", "ONNX belongs to engine/import"),
    ("executor/device/a.cpp", APACHE + "#include <cuda_runtime.h>\n", "CUDA belongs to"),
    ("executor/device/cuda/a.cpp", APACHE + "#include <cuda_runtime.h>\n", ""),
    ("ui/a.cpp", GPL + "#include <graphviz/gvc.h>\n", "child process"),
    ("engine/plan/plan.h", APACHE + "#pragma once\n#include <nlohmann/json.hpp>\n", "heavy"),
    ("engine/plan/plan.cpp", APACHE + "#include <nlohmann/json.hpp>\n", ""),
    ("engine/plan/plan.h", APACHE + '#pragma once\n#include "engine/base/json_reader.h"\n', "heavy"),
    ("engine/base/json_reader.h", APACHE + "#pragma once\n#include <nlohmann/json.hpp>\n", ""),
    ("engine/plan/plan.h", APACHE + "struct A;\n", "#pragma once"),
    ("engine/plan/plan.cpp", "int a;\n", "lack 'SPDX-License-Identifier: Apache-2.0'"),
    ("engine/plan/plan.cpp", GPL, "lack 'SPDX-License-Identifier: Apache-2.0'"),
    ("ui/a.cpp", APACHE, "lack 'SPDX-License-Identifier: GPL-3.0-or-later'"),
    ("app/studio/main.cpp", APACHE, "lack 'SPDX-License-Identifier: GPL-3.0-or-later'"),
    ("packaging/tool", "#!/bin/sh\necho\n", "lack 'SPDX-License-Identifier: Apache-2.0'"),
    ("packaging/tool", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n", ""),
    ("ui/new/a.cpp", GPL, "ui/new is not in the table of floors"),
    ("planners/new/a.cpp", APACHE + '#include "planners/spp/a.h"\n', "planners/new is not in the table of floors"),
    ("engine/new/a.cpp", APACHE, "engine/new is not in the table of floors"),
    ("planners/registry.cpp", APACHE + '#include "planners/spp/a.h"\n', ""),
    ("engine/plan/a.cpp", APACHE + '#include "../graph/graph.h"\n', "start at the root"),
]


def self_test():
    wrong = 0
    for path, text, wanted in CASES:
        found = [problem for _, problem in check_text(path, text)]
        good = any(wanted in problem for problem in found) if wanted else not found
        if not good:
            wrong += 1
            print(f"self-test: {path}: {text!r}: wanted {wanted or 'nothing'!r}, found {found}")
    for folder in FLOORS:
        for below in FLOORS[folder]:
            if folder in closure(below):
                wrong += 1
                print(f"self-test: the table has a cycle: {folder} and {below}")
    for floor, table in INNER.items():
        for folder in table:
            for below in table[folder]:
                if folder in inner_closure(table, below):
                    wrong += 1
                    print(f"self-test: the table of {floor} has a cycle: {folder} and {below}")
    print(f"house: {len(CASES)} cases, {wrong} wrong")
    return wrong == 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(0 if (self_test() if sys.argv[1] == "--self-test" else check_tree(Path(sys.argv[1]))) else 1)
