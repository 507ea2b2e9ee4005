"""The table of ratios: python3 table.py OURS.json [PEER.json].

Joins the rows of gradus_bench_gpu and of peer.py by name. A ratio is the peer's time over ours (above 1: gradus is
faster); "of copy" is the speed in bytes over that of the device's own copy in the same run. A target that is missed
is said, and is no failure.
"""
import json
import math
import sys

# Groups of rows whose bytes per second are compared with the copy: the part of it to reach.
OF_COPY = {"pointwise": 0.9, "strided": 0.8, "reduction": 0.85, "permute": 0.75, "adam": 0.9}
# Groups compared with PyTorch: for each row, and for the geometric mean of the group.
EACH = {"gemm f32": 0.95, "gemm tf32": 0.95, "gemm bf16": 0.95}
MEAN = {"tccg f32": 1.0, "tccg f64": 1.0}
# The captured step of the small network against PyTorch's eager step and its CUDA graph.
SMALL = "mlp 784-128-10 batch 64"
SMALL_TARGETS = {"eager": 5.0, "captured": 1.0}


def read(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.strip()]
    machine = next((line for line in lines if line.get("event") == "machine"), {})
    return machine, [line for line in lines if "name" in line]


def time_text(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            break
    return f"{seconds / size:.2f} {unit}"


def rate_text(row):
    if row["bytes"] > 0:
        return f"{row['bytes'] / row['seconds'] * 1e-9:.0f} GB/s"
    if row["flops"] > 0:
        return f"{row['flops'] / row['seconds'] * 1e-12:.2f} TFLOP/s"
    return ""


class Table:
    def __init__(self, targets):
        self.lines, self.met, self.missed, self.targets = [], 0, [], targets

    def add(self, name, ours, against, theirs, ratio, target=None):
        verdict = ""
        if target is not None and self.targets:
            good = ratio >= target
            verdict = f">= {target:g} " + ("met" if good else "MISSED")
            self.met += good
            if not good:
                self.missed.append(f"{name} against {against}: {ratio:.2f}, asked {target:g}")
        self.lines.append((name, ours, against, theirs, f"{ratio:.2f}", verdict))

    def say(self, name, why):
        self.lines.append((name, why, "", "", "", ""))

    def text(self):
        full = [line for line in self.lines if line[2]]
        widths = [max([len(line[0]) for line in self.lines] or [0])]
        widths += [max([len(line[i]) for line in full] or [0]) for i in range(1, 6)]
        out = []
        for line in self.lines:
            cells = [line[0].ljust(widths[0])]
            if line[2]:
                cells += [line[1].rjust(widths[1]), line[2].ljust(widths[2]), line[3].rjust(widths[3]),
                          line[4].rjust(widths[4]), line[5]]
            else:
                cells.append(line[1])
            out.append("  ".join(cells).rstrip())
        return "\n".join(out)


def build(rows, peers, targets):
    """The table of our rows and of the peer's, by name."""
    table, means = Table(targets), {}
    copy = next((r for r in rows if r["work"] == "copy" and "seconds" in r), None)
    by_name = {p["name"]: p for p in peers}
    for row in rows:
        name, group = row["name"], row.get("group", "")
        why = row.get("not_offered") or row.get("failed")
        if why:
            table.say(name, ("FAILED: " if "failed" in row else "not offered: ") + why)
            continue
        ours = " ".join(filter(None, (time_text(row["seconds"]), rate_text(row))))
        if copy and row is not copy and row["bytes"] > 0:
            speed = row["bytes"] / row["seconds"] / (copy["bytes"] / copy["seconds"])
            table.add(name, ours, "of copy", rate_text(copy), speed, OF_COPY.get(group))
        peer = by_name.get(name, {})
        if "seconds" in peer:
            ratio = peer["seconds"] / row["seconds"]
            target = EACH.get(group)
            if name == SMALL + ", captured":
                target = SMALL_TARGETS["captured"]
            graph = "PyTorch's graph" if row["work"] == "mlp captured" else "PyTorch"
            table.add(name, ours, graph, time_text(peer["seconds"]), ratio, target)
            means.setdefault(group, []).append(ratio)
        elif not (copy and row["bytes"] > 0):
            table.say(name, ours + "  " + (peer.get("not_offered") or peer.get("failed") or "no peer"))
        if row["work"] == "mlp captured":
            eager = by_name.get(name.replace(", captured", ", eager"), {})
            if "seconds" in eager:
                target = SMALL_TARGETS["eager"] if name == SMALL + ", captured" else None
                table.add(name, ours, "PyTorch eager", time_text(eager["seconds"]), eager["seconds"] / row["seconds"],
                          target)
    for group, ratios in means.items():
        if len(ratios) > 1:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            table.add(f"geometric mean: {group or 'copy'}", f"{len(ratios)} rows", "PyTorch", "", mean, MEAN.get(group))
    return table


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    machine, rows = read(sys.argv[1])
    peer, peers = read(sys.argv[2]) if len(sys.argv) == 3 else ({}, [])
    emulated = machine.get("emulated", False)
    table = build(rows, peers, not emulated)
    print(f"{machine.get('device')}: {machine.get('hardware')}, {machine.get('arch')}; {machine.get('build')}")
    print(f"PyTorch {peer['torch']}, CUDA {peer.get('cuda')}, {peer.get('hardware')}" if peer else "no peer")
    print(table.text())
    if emulated:
        print("an emulated device: its speed means nothing, and no target is asked of it")
    else:
        print(f"targets: {table.met} met, {len(table.missed)} missed")
    for line in table.missed:
        print("  MISSED " + line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
