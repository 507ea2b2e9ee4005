#!/usr/bin/env python3
"""Block-sparse tensors from Python beside TeNPy, symmray and Cytnx, whichever are there: in one process, on one core,
turn by turn, with the sectors of benches/block_chains.hpp.

    PYTHONPATH=build/release/python python3 benches/peer_blocks.py [BOND...]

theta: two tensors of a chain are multiplied; env: the left half's environment grows by a site; svd: theta is cut at
the bond. Every result's norm is compared with ours. A row says what a call takes, and how many times ours it is.
"""
import os
import re
import statistics
import sys
import time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np  # noqa: E402

import gradus  # noqa: E402

ROUNDS, TURN = 15, 0.02  # seconds of one side in one round
SPIN = [(1, 1), (-1, 1)]


def chains():
    """{bond: (left, middle, right)} of block_chains.hpp, each a list of (charge, size)."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "block_chains.hpp"), encoding="utf-8") as f:
        text = f.read()
    def listed(braces):
        return braces.replace("{", "[").replace("}", "]")
    names = {name: eval(listed(body)) for name, body in re.findall(r"const Sectors (\w+)(\{.*?\}\});", text, re.S)}
    rows = eval(listed(re.search(r"kBonds\[\] = (\{.*?\}\});", text, re.S)[1].replace("}};", "}}")), names)
    return {row[0]: [[tuple(s) for s in leg] for leg in row[1:4]] for row in rows}


class Gradus:
    def tensor(self, dense, legs):
        return gradus.blocks.from_dense(gradus.tensor(dense, dtype="f64"),
                                        [gradus.blocks.Leg(arrow, sectors) for sectors, arrow in legs])

    def theta(self, a, b):
        return gradus.blocks.einsum("lpm,mqr->lpqr", a, b)

    def env(self, e, a, bra):
        return gradus.blocks.einsum("kpn,kpm->nm", bra, gradus.blocks.einsum("kl,lpm->kpm", e, a))

    def svd(self, theta, bond):
        return theta.svd((0, 1), rank=bond)

    def conj(self, x):
        return x.conj()

    def norm(self, x):
        return x.norm().item()


class TeNPy:
    def __init__(self):
        import tenpy.linalg.np_conserved as npc
        from tenpy.linalg.truncation import svd_theta
        self.npc, self.cut, self.group = npc, svd_theta, npc.ChargeInfo([1])

    def tensor(self, dense, legs):
        npc = self.npc
        return npc.Array.from_ndarray(dense, [npc.LegCharge.from_qind(
            self.group, np.cumsum([0] + [n for _, n in sectors]), [[q] for q, _ in sectors], arrow)
            for sectors, arrow in legs])

    def theta(self, a, b):
        return self.npc.tensordot(a, b, axes=(2, 0))

    def env(self, e, a, bra):
        return self.npc.tensordot(bra, self.npc.tensordot(e, a, axes=(1, 0)), axes=([0, 1], [0, 1]))

    def svd(self, theta, bond):
        return self.cut(theta.combine_legs([[0, 1], [2, 3]], qconj=[1, -1]), {"chi_max": bond})

    def conj(self, x):
        return x.conj()

    def norm(self, x):
        return self.npc.norm(x)


class Symmray:
    def __init__(self):
        import quimb.tensor  # noqa: F401  (its decompositions are quimb's)
        import symmray
        self.lib = symmray

    def tensor(self, dense, legs):
        maps = [dict(enumerate(q for q, n in sectors for _ in range(n))) for sectors, _ in legs]
        return self.lib.U1Array.from_dense(dense, maps, duals=[arrow < 0 for _, arrow in legs], charge=0)

    def theta(self, a, b):
        return self.lib.tensordot(a, b, axes=((2,), (0,)))

    def env(self, e, a, bra):
        return self.lib.tensordot(bra, self.lib.tensordot(e, a, axes=((1,), (0,))), axes=((0, 1), (0, 1)))

    def svd(self, theta, bond):
        return self.lib.linalg.svd_truncated(theta.fuse((0, 1), (2, 3)), max_bond=bond, absorb=None)

    def conj(self, x):
        return x.conj()

    def norm(self, x):
        return float(self.lib.linalg.norm(x))


class Cytnx:
    def __init__(self):
        import importlib.util  # noqa: F401  (cytnx takes it for granted)

        import cytnx
        self.lib = cytnx

    def tensor(self, dense, legs):
        lib = self.lib
        bonds = [lib.Bond(lib.BD_IN if arrow > 0 else lib.BD_OUT, [[q] for q, _ in sectors], [n for _, n in sectors],
                          [lib.Symmetry.U1()]) for sectors, arrow in legs]
        x = lib.UniTensor(bonds)
        starts = [np.cumsum([0] + [n for _, n in sectors]) for sectors, _ in legs]
        for at in np.ndindex(*[len(sectors) for sectors, _ in legs]):
            if sum(arrow * sectors[i][0] for i, (sectors, arrow) in zip(at, legs)) == 0:
                block = dense[tuple(slice(s[i], s[i + 1]) for i, s in zip(at, starts))]
                x.put_block(lib.from_numpy(np.ascontiguousarray(block)), list(at))
        return x

    def named(self, x, labels):
        return x.relabel(labels)

    def theta(self, a, b):
        return self.lib.Contract(self.named(a, ["l", "p", "m"]), self.named(b, ["m", "q", "r"]))

    def env(self, e, a, bra):
        grown = self.lib.Contract(self.named(e, ["k", "l"]), self.named(a, ["l", "p", "m"]))
        return self.lib.Contract(self.named(bra, ["k", "p", "n"]), grown)

    def svd(self, theta, bond):
        theta.set_rowrank_(2)
        return self.lib.linalg.Svd_truncate(theta, bond)

    def conj(self, x):
        return x.Dagger().permute(x.labels())

    def norm(self, x):
        return x.Norm().item()


def drawn(legs, seed):
    """A dense array that is 0 outside of the blocks."""
    charges = [np.concatenate([np.full(n, arrow * q) for q, n in sectors]) for sectors, arrow in legs]
    total = sum(np.meshgrid(*charges, indexing="ij"))
    return np.where(total == 0, np.random.default_rng(seed).standard_normal(total.shape), 0.0)


def works(side, bonds, bond):
    left, middle, right = bonds
    a_legs = [(left, 1), (SPIN, 1), (middle, -1)]
    b_legs = [(middle, 1), (SPIN, 1), (right, -1)]
    e_legs = [(left, 1), (left, -1)]
    a, b, e = (side.tensor(drawn(legs, seed), legs) for seed, legs in enumerate([a_legs, b_legs, e_legs]))
    bra, theta = side.conj(a), side.theta(a, b)
    return {"theta": (lambda: side.theta(a, b), side.norm), "env": (lambda: side.env(e, a, bra), side.norm),
            "svd": (lambda: side.svd(theta, bond), None)}


def sample(call):
    count, begin = 0, time.perf_counter()
    while (now := time.perf_counter()) - begin < TURN or not count:
        call()
        count += 1
    return (now - begin) / count


def main():
    table = chains()
    wanted = [int(a) for a in sys.argv[1:]] or list(table)
    sides = {"gradus": Gradus()}
    for kind in (TeNPy, Symmray, Cytnx):
        try:
            sides[kind.__name__] = kind()
        except ImportError as error:
            print(f"{kind.__name__} is missing: {error}")
    for bond in wanted:
        all_works = {name: works(side, table[bond], bond) for name, side in sides.items()}
        for work in ("theta", "env", "svd"):
            calls = {name: w[work][0] for name, w in all_works.items()}
            for name, call in calls.items():  # the numbers first
                norm = all_works[name][work][1]
                if norm and abs(norm(call()) / all_works["gradus"][work][1](calls["gradus"]()) - 1) > 1e-10:
                    sys.exit(f"{work}, bond {bond}: {name} has another result")
                call()
            times = {name: [] for name in calls}
            for _ in range(ROUNDS):
                for name, call in calls.items():
                    times[name].append(sample(call))
            row = [f"{work + ', bond ' + str(bond):18} gradus {statistics.median(times['gradus']) * 1e6:9.1f} us"]
            for name in list(calls)[1:]:
                ratio = statistics.median(t / g for t, g in zip(times[name], times["gradus"]))
                row.append(f"{name} {statistics.median(times[name]) * 1e6:9.1f} us ({ratio:5.2f} x)")
            print("   ".join(row), flush=True)


main()
