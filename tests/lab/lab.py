# SPDX-License-Identifier: Apache-2.0
"""What the scripts of this folder share: ranks on hosts behind a shaped switch (see shaped), planned for, measured and trained."""
import bisect, functools, json, os, struct, subprocess, sys

SHAPED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shaped")


def bits(rate):
    units = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
    return next(float(rate[: -len(unit)]) * factor for unit, factor in units.items() if rate.endswith(unit))


def add_network(parser):
    """The option by which a script's user chooses the network."""
    parser.add_argument("--pipe", action="store_true", help="a network that is emulated in user space: ranks hold messages back as ports of the rate would; "
                        "taken by itself, with a line that says so, where the kernel does not allow network namespaces")


@functools.cache
def carrier(rate, pipe, fair):
    """--kernel or --pipe, as shaped has it; its line on stderr is for the user, once."""
    chosen = subprocess.run([SHAPED, "--which", "--rate", rate] + (["--pipe"] if pipe else []) + (["--fair"] if fair else []), stdout=subprocess.PIPE, text=True)
    if chosen.returncode != 0:
        sys.exit(chosen.returncode)
    return "--" + chosen.stdout.strip()


class Lab:
    """`hosts` ranks at `rate`. The cluster is one machine whose devices share this one's cores, each on a port of the network: hosts that
    are namespaces do not know that they share them. With `per_host` ranks on each host it is as many machines as hosts, which share memory
    inside and have an equal part of the cores each. With `pipe`, or where the kernel does not allow network namespaces, the network is emulated
    by the ranks (see shaped): `label`, the rate as tables print it, says so."""

    def __init__(self, planloom, hosts, rate, folder, burst=None, per_host=1, pipe=False):
        self.planloom, self.hosts, self.rate, self.folder, self.per_host = planloom, hosts, rate, folder, per_host
        self.network, self.burst = None, burst
        self.carrier = carrier(rate, pipe, per_host > 1)
        self.label = rate if self.carrier == "--kernel" else rate + " pipe"
        # TCP over Ethernet keeps 1448 of 1538 bytes on the wire; the limit counts 1514 of them.
        bandwidth = bits(rate) / 8 * 1448 / 1514
        self.cluster = self.file("lab.yaml")
        with open(self.cluster, "w") as out:
            network = f"{{bandwidth: {bandwidth:.0f}, latency: 50 us, kind: network}}"
            one = f"  devices_per_node: {hosts}\n  cores: {os.cpu_count()}\n  intra: {network}\n"
            several = (f"  count: {hosts}\n  devices_per_node: {per_host}\n  cores: {max(1, os.cpu_count() // hosts)}\n"
                       f"  intra: {{bandwidth: 5 GB/s, latency: 10 us}}\n  inter: {network}\n")
            out.write(f"name: lab\nnodes:\n  device: CPU\n{one if per_host == 1 else several}"
                      "types:\n  - name: CPU\n    peak_flops: {float32: 50 GFLOP/s}\n    memory: 4 GiB\n    memory_bandwidth: 10 GB/s\n")

    def file(self, name):
        return os.path.join(self.folder, name)

    def run(self, arguments, shaped=False):
        network = [SHAPED, self.carrier, "--hosts", str(self.hosts), "--rate", self.rate] + (["--burst", str(self.burst)] if self.burst else [])
        network += ["--fair"] if self.per_host > 1 else []  # the ranks of a host share memory then
        command = (network if shaped else []) + arguments
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return done.stdout

    def profile(self, plan, name="profile.json", network=False):
        """Operators as this machine runs those of `plan`, with messages and collectives as the shaped network carries them, which are measured
        once, or again with `network`; where hosts have several ranks, as their memory does."""
        path = self.file(name)
        if network:
            self.network = None
        self.run([self.planloom, "profile", "--plan", plan, "--threads", "1", "-o", path, "--quiet"],
                 shaped=self.network is None and self.per_host == 1)
        with open(path) as text:
            profile = json.load(text)
        extra = profile["extra"]
        measured = {key: extra.pop(key) for key in list(extra) if key.startswith("communication_")}
        if self.network is None:
            self.network = profile["curves"], measured
        profile["curves"], communication = self.network
        extra.update(communication)
        profile["extra"].pop("allreduce_bytes_per_second", None)
        with open(path, "w") as out:
            json.dump(profile, out)
        return path

    def plan(self, model, exchange, arguments, profile=None):
        path = self.file("plan.json")
        self.run([self.planloom, "plan", "--model", model, "--cluster", self.cluster, "--planner", "data-parallel", "--exchange", exchange, "-o", path,
                  "--quiet"] + arguments + (["--profile", profile] if profile else []))
        return path

    def train(self, plan, data, name, steps, arguments=()):
        self.run([self.planloom, "train", plan, "--data", data, "--steps", str(steps), "--threads", "1", "--run-dir", self.file(name), "--quiet",
                  *arguments], shaped=True)
        with open(os.path.join(self.file(name), "summary.json")) as text:
            return json.load(text)

    def steps(self, name):
        with open(os.path.join(self.file(name), "metrics.jsonl")) as text:
            return [entry for entry in map(json.loads, text) if "samples_per_second" in entry]

    def losses(self, name):
        return [entry["loss"] for entry in self.steps(name)]


def largest_difference(losses, others):
    """Of the losses of any step, as a part of the other run's; both have as many steps."""
    if len(losses) != len(others):
        sys.exit(f"runs of {len(losses)} and of {len(others)} steps are compared")
    return max(abs(loss / other - 1) for loss, other in zip(losses, others))


def zipf(rows, count):
    """Ids by Zipf's law, as cost::ZipfIds makes them."""
    harmonic = sum(1 / (k + 1) for k in range(rows))
    up_to, total = [], 0.0
    for k in range(rows):
        total += 1 / (k + 1) / harmonic
        up_to.append(total)
    state = 1
    for _ in range(count):
        state = (6364136223846793005 * state + 1442695040888963407) % 2**64
        yield min(bisect.bisect_right(up_to, (state >> 11) / 2**53), rows - 1)


def write_ids(path, shape, values):
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}q", *values))


class Model:
    """A planloom.graph/1 model in the making."""

    def __init__(self, name):
        self.name, self.tensors, self.ops = name, [], []

    def tensor(self, name, shape, role="activation", kind="float32", deviation=None):
        made = {"name": name, "type": kind, "shape": shape, "role": role}
        if role == "parameter":
            made["init"] = {"kind": "normal", "a": 0, "b": deviation} if deviation else {"kind": "zeros"}
        self.tensors.append(made)
        return name

    def parameter(self, name, shape, deviation):
        return self.tensor(name, shape, "parameter", deviation=deviation)

    def ids(self, name, shape):
        return self.tensor(name, shape, "input", "int64")

    def op(self, kind, name, inputs, outputs, attributes=None):
        self.ops.append({"type": kind, "name": name, "inputs": inputs, "outputs": [self.tensor(n, s) for n, s in outputs], "attributes": attributes or {}})
        return outputs[0][0]

    def write(self, path, loss="loss"):
        with open(path, "w") as out:
            json.dump({"schema": "planloom.graph/1", "name": self.name, "loss": loss, "outputs": [loss], "tensors": self.tensors, "ops": self.ops}, out)
        return path
