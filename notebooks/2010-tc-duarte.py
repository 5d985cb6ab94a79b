# %% [markdown]
# # A copy table beside a cache (Duarte and Wong, IEEE TC 2010)
#
# A copied line becomes a pointer to its source. The paper's closed forms say when that pays; here they are evaluated,
# and then the table is put beside the LLC of a server that copies each packet for a guest.

# %%
import wirespeed
from wirespeed import papers
from wirespeed.papers import show

(report,) = papers.run(papers.find("2010-tc-duarte"), claims=["fcp-single", "fcp-multi-md1"])[:1]
for claim in report.claims:
    print(claim.expected.claim, claim.expected.paper, show.ours(claim), claim.status)

# %%
few = {"run.packets": 20_000, "run.curve": [], "function.forward.prefixes": 10_000}
for name, table in {"loads and stores": {}, "copy table": {"machine.copy_table": {}}}.items():
    summary = wirespeed.run("vhost", set=few | table).summary
    print(name, round(summary["sojourn_ns"]["mean"]), "ns")
