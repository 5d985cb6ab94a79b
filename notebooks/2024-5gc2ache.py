# %% [markdown]
# # The cache of a 5G user plane (5GC2ache, 2024)
#
# Long rings leak: packets leave the devices' ways before a core has read them. Here: the paper's equation, and the
# user plane function on a simulated server with long and short rings.

# %%
import wirespeed
from wirespeed import papers
from wirespeed.papers import show

(report,) = papers.run(papers.find("2024-5gc2ache"), claims=["leakage_4096", "leakage_128"])[:1]
for claim in report.claims:
    print(claim.expected.claim, claim.expected.paper, show.ours(claim), claim.status)

# %%
few = {"run.packets": 20_000, "run.curve": [], "function.upf.load.ues": 2000, "function.upf.load.pdrs": 10}
for descriptors in (256, 4096):
    settings = few | {"nic.rx_descriptors": descriptors, "mempool.size": 32_768}
    summary = wirespeed.run("upf", set=settings).summary
    hits = next(level["hit_rate"] for level in summary["levels"] if level["name"] == "DDIO")
    print(descriptors, "descriptors:", round(100 * hits, 1), "% of device writes find their line")
