"""A NIC's throughput falls where neighbours load DRAM with writes (Vuppalapati et al., SIGCOMM 2024).

A device's write that puts a dirty line out of the LLC holds its credits until DRAM has taken that line in. So credits
run out where DRAM has many writes before it, and packets wait in the NIC until its memory is full.
"""

import wirespeed

CREDITS = 92 * 64
SET = {
    "machine.cores": 4,
    "nic.rx_descriptors": 4096,  # more than the ways of devices hold: each write puts out a line
    "function.kind": "forward",
    "function.forward.prefixes": 1000,
    "traffic.flows.count": 1000,
    "traffic.sizes.fixed": 1500,
    "traffic.load": 1.0,
    "nic.pcie.rate": "126 Gbps",  # so that the link itself carries the line
    "run.curve": [],
    "run.packets": 10_000,
    "run.warmup": 6_000,
}


def beside(cores, **given):
    """What a run finds beside neighbours that write as fast as memory lets them."""
    streams = {"cores": cores, "working_set": "64 MiB", "chained": 0.0, "stores": 1.0}
    neighbours = {"neighbours": [streams]} if cores else {}
    return wirespeed.run("forwarding", set={**SET, **neighbours, **given}).summary


def test_credits_run_out_where_neighbours_load_dram():
    alone, some, many = (beside(cores) for cores in (0, 8, 23))
    write_ns = [each["attribution_ns"]["dma_memory"] for each in (alone, some, many)]
    assert write_ns == sorted(write_ns)
    assert alone["lost"] == some["lost"] == 0
    # What is under way over what it takes bounds the rate (Little's law), and the line brings more.
    bound = CREDITS * 8 / write_ns[2]
    assert bound < 96 < alone["carried_gbps"]
    assert many["carried_gbps"] < 0.9 * alone["carried_gbps"]
    assert set(many["drops"]) == {"nic_fifo_full"}
    # With credits without end the same writes take longer still, and nothing is lost at the NIC.
    endless = beside(23, **{"nic.pcie.credits": "1 MiB"})
    assert "nic_fifo_full" not in endless["drops"]
    assert endless["attribution_ns"]["dma_memory"] > write_ns[0]
