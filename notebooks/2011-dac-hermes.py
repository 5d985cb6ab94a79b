# %% [markdown]
# # Packets as warps (Zhu, Deng, Chen, DAC 2011)
#
# Packets become warps as they arrive. Its claims take minutes (`wirespeed papers run 2011-dac-hermes`); here is what
# they are, and a question that a CPU answers: what does work by bursts, stage by stage, as a warp's lanes do it,
# bring in software?

# %%
import wirespeed
from wirespeed import papers

paper = papers.find("2011-dac-hermes")
for row in paper.expected()[:6]:
    print(row.claim, row.paper, row.unit)

# %%
few = {"run.packets": 20_000, "run.curve": [], "traffic.profile": "min64", "traffic.load": 1.0, "machine.cores": 1}
for lookup in ("single", "bulk"):
    way = {"function.forward.lookup.lookup": lookup, "function.forward.lookup.prefetch": lookup == "bulk"}
    print(lookup, round(wirespeed.run("forwarding", set=few | way).summary["carried_mpps"], 2), "Mpps")
