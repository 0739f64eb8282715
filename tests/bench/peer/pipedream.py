# SPDX-License-Identifier: Apache-2.0
"""PipeDream's hierarchical partition (Narayanan et al., SOSP 2019, section 3.1) in plain Python, loop for loop as the method is described:
states are the antichains of the model's graph; within each level, for every number of workers and every span of states, the last stage is split
off at every state before and given every number of workers. Reads {"layers": [...], "levels": [...]} from the file that it is
given, and prints the time between micro-batches, the states, and the seconds of each repetition, as JSON."""
import json
import sys
import time


def antichain_states(layers):
    """Every antichain reachable from the sources, with all that it depends on; fewest layers first."""
    readers = [[] for _ in layers]
    for at, layer in enumerate(layers):
        for source in layer["inputs"]:
            readers[source].append(at)
    found = {}
    open_states = [frozenset()]
    while open_states:
        done = open_states.pop()
        for at, layer in enumerate(layers):
            if at in done or any(source not in done for source in layer["inputs"]):
                continue
            state = done | {at}
            if state not in found:
                found[state] = frozenset(node for node in state if not any(reader in state for reader in readers[node]))
                open_states.append(state)
    states = []
    for state in sorted(found, key=lambda each: (len(each), sorted(each))):
        outputs = [node for node in state if not readers[node] or any(reader not in state for reader in readers[node])]
        states.append({
            "nodes": state,
            "antichain": found[state],
            "seconds": sum(layers[node]["seconds"] for node in state),
            "parameters": sum(layers[node]["parameter_bytes"] for node in state),
            "outputs": sum(layers[node]["output_bytes"] for node in outputs),
        })
    return states


def level_tables(states, before, single, workers, bandwidth, inside, last_level):
    """table[m][i][j]: the slowest stage or transfer of the best pipeline of states i .. j on m workers."""
    count = len(states)

    def parameters(i, j):
        return states[j]["parameters"] - (states[i - 1]["parameters"] if i > 0 else 0.0)

    starts = 1 if last_level else count
    table = [None]
    for m in range(1, workers + 1):
        rows = []
        for i in range(starts):
            row = [None] * count
            for j in range(i, count):
                if single[i][j] is not None:
                    exchange = 4 * (m - 1) * parameters(i, j) / (bandwidth * m) / inside
                    row[j] = (single[i][j] + exchange) / m
            rows.append(row)
        table.append(rows)
    for m in range(2, workers + 1):
        for i in range(starts):
            for j in range(i + 1, count):
                best = table[m][i][j]
                if best is None:
                    continue
                for k in before[j]:
                    if k < i or single[i][k] is None or single[k + 1][j] is None:
                        continue
                    for replicas in range(1, m):
                        stage = (single[k + 1][j] + 4 * (replicas - 1) * parameters(k + 1, j) / (bandwidth * replicas)) / replicas
                        way_in = 2 * states[k]["outputs"] / (bandwidth * replicas)
                        way_out = 2 * states[j]["outputs"] / (bandwidth * replicas) if j + 1 < count else 0.0
                        slowest = max(table[m - replicas][i][k], stage, way_in, way_out)
                        if slowest < best:
                            best = slowest
                table[m][i][j] = best
    return table


def partition(layers, levels):
    states = antichain_states(layers)
    count = len(states)
    before = [[k for k in range(j) if states[k]["nodes"] < states[j]["nodes"]] for j in range(count)]
    single = [[None] * count for _ in range(count)]
    for i in range(count):
        for j in range(i, count):
            if i == 0:
                single[i][j] = states[j]["seconds"]
            elif states[i - 1]["nodes"] < states[j]["nodes"]:
                single[i][j] = states[j]["seconds"] - states[i - 1]["seconds"]
    inside = 1
    for number, level in enumerate(levels):
        last_level = number + 1 == len(levels)
        table = level_tables(states, before, single, level["parts"], level["bandwidth"], inside, last_level)
        inside *= level["parts"]
        for i, row in enumerate(table[level["parts"]]):
            single[i] = row
    return single[0][count - 1], count


def main():
    with open(sys.argv[1]) as file:
        problem = json.load(file)
    times = []
    for _ in range(int(sys.argv[2])):
        begin = time.perf_counter()
        seconds, states = partition(problem["layers"], problem["levels"])
        times.append(time.perf_counter() - begin)
    json.dump({"seconds": seconds, "states": states, "times": times}, sys.stdout)


main()
