# %% [markdown]
# # LLC slices over stacked DRAM (Korikawa and others, IEEE Access 2020)
#
# Lookups spread over slices and vaults. Here: the claims, and slices of a server's LLC, each with a queue.

# %%
import wirespeed
from wirespeed import papers

paper = papers.find("2020-access-korikawa")
for row in paper.expected()[:6]:
    print(row.claim, row.paper, row.unit)

# %%
few = {"run.packets": 20_000, "run.curve": [], "function.forward.prefixes": 50_000, "traffic.load": 1.0}
for slices in (1, 18):
    more = {"machine.llc.slices": slices, "traffic.profile": "min64"}
    print(slices, round(wirespeed.run("forwarding", set=few | more).summary["carried_mpps"], 1), "Mpps")
