# %% [markdown]
# # Row locality in packet buffers (Hasan, Chandra, Vijaykumar, ISCA 2003)
#
# A network processor's packet buffer loses DRAM bandwidth to row conflicts. The paper lays packets out so that reads
# and writes find open rows. Here: its first claims (`wirespeed papers run 2003-isca-hasan` judges them), and the same
# question on a server of today.

# %%
import wirespeed
from wirespeed import papers

for row in papers.find("2003-isca-hasan").expected()[:6]:
    print(row.claim, row.paper, row.unit)

# %% [markdown]
# On a server packets lie in mbufs, and DDIO keeps most of them in the LLC. Without ways for devices all of them go to
# DRAM:

# %%
few = {"run.packets": 20_000, "run.curve": [], "function.forward.prefixes": 10_000, "machine.llc.io_ways": 0}
rows = {}
for name, buffer in {
    "mbufs": {},
    "cells": {"buffer.allocation": "cells"},
    "piece-wise": {"buffer.allocation": "piecewise"},
}.items():
    dram = wirespeed.run("forwarding", set=few | buffer).summary["dram"]
    rows[name] = dram["row_hits"] / (dram["row_hits"] + dram["row_misses"] + dram["row_conflicts"])
print({name: round(share, 3) for name, share in rows.items()})
