"""Files of operators, typed anew from documentation and from outputs that were seen: of each kind three or more.

Each has the facts that it must tell; where two of a name are told, the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Sample(NamedTuple):
    """A text, and what it tells."""

    text: str
    facts: Mapping[str, object] = MappingProxyType({})
    measured: Mapping[str, float] = MappingProxyType({})


XEON_JSON = """{
   "lscpu": [
      {"field": "Architecture:", "data": "x86_64"},
      {"field": "CPU(s):", "data": "36"},
      {"field": "Vendor ID:", "data": "GenuineIntel",
         "children": [
            {"field": "Model name:", "data": "Intel(R) Xeon(R) Gold 6140 CPU @ 2.30GHz",
               "children": [
                  {"field": "CPU family:", "data": "6"},
                  {"field": "Model:", "data": "85"},
                  {"field": "Thread(s) per core:", "data": "2"},
                  {"field": "Core(s) per socket:", "data": "18"},
                  {"field": "Socket(s):", "data": "1"},
                  {"field": "Stepping:", "data": "4"}
               ]}
         ]},
      {"field": "Caches (sum of all):", "data": null,
         "children": [
            {"field": "L1d:", "data": "576 KiB (18 instances)"},
            {"field": "L3 cache:", "data": "24.75 MiB (1 instance)"}
         ]}
   ]
}
"""
XEON_TEXT = """Architecture:                    x86_64
CPU(s):                          64
Vendor ID:                       GenuineIntel
Model name:                      Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz
CPU family:                      6
Model:                           85
Thread(s) per core:              2
Core(s) per socket:              16
Socket(s):                       2
Stepping:                        4
BogoMIPS:                        4200.00
L1d cache:                       1 MiB (32 instances)
L1i cache:                       1 MiB (32 instances)
L2 cache:                        32 MiB (32 instances)
L3 cache:                        44 MiB (2 instances)
NUMA node(s):                    2
"""
EPYC_OLD = """Architecture:        x86_64
CPU(s):              96
Thread(s) per core:  2
Core(s) per socket:  24
Socket(s):           2
NUMA node(s):        2
Vendor ID:           AuthenticAMD
CPU family:          23
Model:               49
Model name:          AMD EPYC 7402P 24-Core Processor
Stepping:            0
CPU MHz:             2794.742
BogoMIPS:            5589.48
L1d cache:           32K
L1i cache:           32K
L2 cache:            512K
L3 cache:            16384K
"""
CACHES = """NAME ONE-SIZE ALL-SIZE WAYS TYPE        LEVEL  SETS PHY-LINE COHERENCY-SIZE
L1d       32K     576K    8 Data            1    64        1             64
L1i       32K     576K    8 Instruction     1    64        1             64
L2         1M      18M   16 Unified         2  1024        1             64
L3      24.8M    24.8M   11 Unified         3 36864        1             64
"""
CACHES_WIDE = """NAME ONE-SIZE ALL-SIZE WAYS TYPE        LEVEL  SETS PHY-LINE COHERENCY-SIZE ALLOC-POLICY WRITE-POLICY
L1d       48K     2.6M   12 Data            1    64        1             64
L2         2M     112M   16 Unified         2  2048        1             64
L3       105M     105M   15 Unified         3 114688       1             64
"""
CACHES_JSON = """{"caches": [
   {"name": "L1d", "one-size": "32K", "all-size": "768K", "ways": 8, "level": 1, "sets": 64, "coherency-size": 64},
   {"name": "L3", "one-size": "16M", "all-size": "128M", "ways": 16, "level": 3, "sets": 16384, "coherency-size": 64}
]}
"""
NUMA_TWO = """available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3 8 9 10 11
node 0 size: 95146 MB
node 0 free: 90012 MB
node 1 cpus: 4 5 6 7 12 13 14 15
node 1 size: 96734 MB
node 1 free: 92001 MB
node distances:
node   0   1
  0:  10  21
  1:  21  10
"""
NUMA_ONE = """available: 1 nodes (0)
node 0 cpus: 0 1
node 0 size: 13530 MB
node 0 free: 11067 MB
node distances:
node   0
  0:  10
"""
NUMA_CXL = """available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3
node 0 size: 64000 MB
node 1 cpus:
node 1 size: 128000 MB
node distances:
node   0   1
  0:  10  14
  1:  14  10
"""
DMI_DDR4 = """# dmidecode 3.3
Getting SMBIOS data from sysfs.
SMBIOS 3.2.0 present.

Handle 0x0021, DMI type 17, 92 bytes
Memory Device
\tTotal Width: 72 bits
\tData Width: 64 bits
\tSize: 32 GB
\tLocator: CPU0_DIMM_A1
\tBank Locator: NODE 0 CHANNEL 0
\tType: DDR4
\tSpeed: 3200 MT/s
\tRank: 2
\tConfigured Memory Speed: 2933 MT/s

Handle 0x0022, DMI type 17, 92 bytes
Memory Device
\tSize: 32 GB
\tLocator: CPU0_DIMM_B1
\tBank Locator: NODE 0 CHANNEL 1
\tType: DDR4
\tConfigured Memory Speed: 2933 MT/s

Handle 0x0023, DMI type 17, 92 bytes
Memory Device
\tSize: No Module Installed
\tLocator: CPU0_DIMM_C1
\tBank Locator: NODE 0 CHANNEL 2
"""
DMI_OLD = """Handle 0x1100, DMI type 17, 40 bytes
Memory Device
\tSize: 16384 MB
\tLocator: DIMM_A1
\tBank Locator: Not Specified
\tType: DDR4
\tSpeed: 2400 MHz
\tConfigured Clock Speed: 2133 MHz
"""
DMI_CPU = """Handle 0x0004, DMI type 4, 48 bytes
Processor Information
\tVersion: Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz
\tCurrent Speed: 2400 MHz

Handle 0x0030, DMI type 17, 92 bytes
Memory Device
\tSize: 16 GB
\tBank Locator: P0_Node0_Channel0_Dimm0
\tType: DDR5
\tConfigured Memory Speed: 4800 MT/s
"""
LSHW_SERVER = """{
  "id" : "host", "class" : "system",
  "children" : [
    { "id" : "core", "class" : "bus",
      "children" : [
        { "id" : "memory", "class" : "memory", "size" : 68719476736, "units" : "bytes",
          "children" : [
            { "id" : "bank:0", "class" : "memory", "description" : "DIMM DDR4 Synchronous 2666 MHz (0.4 ns)",
              "size" : 34359738368 },
            { "id" : "bank:1", "class" : "memory", "description" : "DIMM DDR4 Synchronous 2666 MHz (0.4 ns)",
              "size" : 34359738368 },
            { "id" : "bank:2", "class" : "memory", "description" : "[empty]" }
          ]},
        { "id" : "cpu", "class" : "processor", "product" : "Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz" },
        { "id" : "network:0", "class" : "network", "vendor" : "Intel Corporation",
          "product" : "Ethernet Controller XXV710 for 25GbE SFP28", "businfo" : "pci@0000:3b:00.0",
          "size" : 25000000000, "configuration" : { "driver" : "i40e" } }
      ]}
  ]
}
"""
LSHW_ARRAY = """[
  { "id" : "cpu", "class" : "processor", "product" : "AMD EPYC 9654 96-Core Processor" },
  { "id" : "network", "class" : "network", "vendor" : "Mellanox Technologies",
    "product" : "MT2892 Family [ConnectX-6 Dx]", "configuration" : { "driver" : "mlx5_core" } }
]
"""
LSHW_LOOSE = """  {
    "id" : "network",
    "class" : "network",
    "product" : "82599ES 10-Gigabit SFI/SFP+ Network Connection",
    "configuration" : { "driver" : "ixgbe" }
  },
  {
    "id" : "cpu",
    "class" : "processor",
    "product" : "Intel(R) Xeon(R) CPU E5-2620 v3 @ 2.40GHz"
  }
"""


def _info(driver: str, bus: str = "0000:3b:00.0") -> str:
    return (
        f"driver: {driver}\nversion: 6.8.0\nfirmware-version: 4.40 0x8001c7d4\nexpansion-rom-version: \n"
        f"bus-info: {bus}\nsupports-statistics: yes\nsupports-test: yes\n"
    )


def _rings(most: int, now: int, tx: int | None = None) -> str:
    return (
        "Ring parameters for eth2:\nPre-set maximums:\n"
        f"RX:\t\t{most}\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t{most}\nCurrent hardware settings:\n"
        f"RX:\t\t{now}\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t{tx or now}\nRX Buf Len:\tn/a\n"
    )


def _channels(most: int, now: int) -> str:
    return (
        "Channel parameters for eth2:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\n"
        f"Combined:\t{most}\nCurrent hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t{now}\n"
    )


RX_TX_CHANNELS = (
    "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\t8\nTX:\t\t8\nOther:\t\tn/a\nCombined:\tn/a\n"
    "Current hardware settings:\nRX:\t\t4\nTX:\t\t4\nOther:\t\tn/a\nCombined:\tn/a\n"
)


def _coalesce(usecs: str) -> str:
    return (
        f"Coalesce parameters for eth2:\nAdaptive RX: on  TX: on\nrx-usecs: {usecs}\nrx-frames: n/a\n\ntx-usecs: 50\n"
    )


def _features(lro: str, gro: str) -> str:
    return (
        "Features for eth2:\nrx-checksumming: on\ntx-checksumming: on\n\ttx-checksum-ipv4: off [fixed]\n"
        f"generic-receive-offload: {gro}\nlarge-receive-offload: {lro}\nrx-vlan-offload: on\n"
    )


STATS_MLX5 = """NIC statistics:
     rx_packets: 900000
     rx_bytes: 54000000
     rx_out_of_buffer: 1234
     rx_discards_phy: 77
     rx_packets_phy: 1000000
     rx_bytes_phy: 64000000
     rx0_buff_alloc_err: 2
     tx_global_pause: 5
     outbound_pci_stalled_wr: 12
"""
STATS_I40E = """NIC statistics:
     rx_packets: 1000
     rx_bytes: 100000
     rx_dropped: 12
     port.rx_dropped: 55
     port.rx_bytes: 640000
     port.rx_unicast: 10000
     rx_alloc_fail: 3
"""
STATS_ICE = """NIC statistics:
     rx_packets: 5000
     rx_bytes: 320000
     rx_dropped: 4
     rx_dropped.nic: 9
     rx_size_64.nic: 5000
     rx_alloc_fail: 0
"""
STATS_IXGBE = """NIC statistics:
     rx_packets: 2000
     rx_bytes: 128000
     rx_missed_errors: 42
     rx_no_buffer_count: 0
     rx_no_dma_resources: 6
     alloc_rx_page_failed: 1
"""


def _port(name: str, desc: int, counters: str = "") -> str:
    return f"""{name}       1     up   {name}
  Link speed: 100 Gbps
  RX Queues:
    queue thread         mode
    0     vpp_wk_0 (1)   polling
    1     vpp_wk_1 (2)   polling
  Intel E810 Family
    carrier up full duplex max-frame-size 2044
    rx: queues 2 (max 256), desc {desc} (min 64 max 8160 align 32)
    tx: queues 3 (max 256), desc 1024 (min 64 max 8160 align 32)
    pci: device 8086:1592 subsystem 8086:0002 address 0000:3b:00.00 numa 0
    rx burst function: ice_recv_scattered_pkts_vec_avx512
{counters}"""


_HEAD = "              Name                Idx   Link  Hardware\n"
HARDWARE = _HEAD + _port(
    "HundredGigabitEthernet3b/0/0",
    1024,
    "    rx frames ok                                  240000000\n"
    "    rx bytes ok                                 14400000000\n"
    "    rx missed                                        123456\n"
    "    extended stats:\n      rx_good_packets                             240000000\n",
)
HARDWARE_TWO = _HEAD + _port("HundredGigabitEthernet3b/0/0", 512) + _port("HundredGigabitEthernet3b/0/1", 512)
HARDWARE_MLX = """              Name                Idx   Link  Hardware
HundredGigabitEthernet18/0/0       1     up   HundredGigabitEthernet18/0/0
  Link speed: 100 Gbps
  Mellanox ConnectX-5 Family
    carrier up full duplex max-frame-size 1518
    rx: queues 4 (max 1024), desc 2048 (min 0 max 65535 align 1)
    tx: queues 4 (max 1024), desc 2048 (min 0 max 65535 align 1)
    pci: device 15b3:1017 subsystem 15b3:0006 address 0000:18:00.00 numa 0
    rx burst function: mlx5_rx_burst_vec
    rx no bufs                                           17
"""
_COLUMNS = (
    "             Name                 State         Calls          Vectors        Suspends    {}    Vectors/Call\n"
)


def _node(name: str, state: str, calls: int, vectors: int, suspends: int, clocks: str, a_call: str) -> str:
    return f"{name:<30} {state:>12}{calls:16}{vectors:16}{suspends:16}{clocks:>16}{a_call:>16}\n"


def _thread(number: int, name: str, column: str, rows: str) -> str:
    return (
        f"Thread {number} {name} (lcore {number + 1})\n"
        f"Time 10.0, 10.000000 sec internal node vector rate 52.31 loops/sec 180000.00\n"
        f"  vector rates in 1.2000e7, out 1.2000e7, drop 0.0000e0, punt 0.0000e0\n"
        f"{_COLUMNS.format(column)}{rows}"
    )


IP4_ROWS = (
    _node("dpdk-input", "polling", 1800000, 120000000, 0, "6.10e1", "66.67")
    + _node("ethernet-input", "active", 1800000, 120000000, 0, "1.60e1", "66.67")
    + _node("ip4-input-no-checksum", "active", 1800000, 120000000, 0, "2.40e1", "66.67")
    + _node("ip4-lookup", "active", 1800000, 120000000, 0, "3.00e1", "66.67")
    + _node("ip4-rewrite", "active", 1800000, 120000000, 0, "2.60e1", "66.67")
    + _node("HundredGigabitEthernet3b/0/0-o", "active", 1800000, 120000000, 0, "8.00e0", "66.67")
    + _node("unix-epoll-input", "polling", 1756, 0, 0, "1.20e3", "0.00")
)
IDLE_MAIN = _node("dpdk-process", "any wait", 0, 0, 10, "3.10e4", "0.00")
RUNTIME = (
    _thread(0, "vpp_main", "Packet-Clocks", IDLE_MAIN)
    + "---------------\n"
    + _thread(1, "vpp_wk_0", "Packet-Clocks", IP4_ROWS)
    + "---------------\n"
    + _thread(2, "vpp_wk_1", "Packet-Clocks", IP4_ROWS)
)
RUNTIME_L2 = _thread(0, "vpp_main", "Clocks", IDLE_MAIN) + _thread(
    1,
    "vpp_wk_0",
    "Clocks",
    _node("dpdk-input", "polling", 470000, 120000000, 0, "4.00e1", "255.32")
    + _node("ethernet-input", "active", 470000, 120000000, 0, "1.50e1", "255.32")
    + _node("l2-input", "active", 470000, 120000000, 0, "1.80e1", "255.32")
    + _node("l2-output", "active", 470000, 120000000, 0, "1.20e1", "255.32"),
)
RUNTIME_OLD = f"""Time 10.0, average vectors/node 52.31, last 128 main loops 0.00 per node 0.00
  vector rates in 1.2000e6, out 1.2000e6, drop 0.0000e0, punt 0.0000e0
{_COLUMNS.format("Clocks")}{IP4_ROWS}"""
BUFFERS = """Pool Name            Index NUMA  Size  Data Size  Total  Avail  Cached   Used
default-numa-0          0     0   2496     2048   16800   15000    255    1545
"""
BUFFERS_TWO = """Pool Name            Index NUMA  Size  Data Size  Total  Avail  Cached   Used
default-numa-0          0     0   2496     2048   32768   30000    512    2256
default-numa-1          1     1   2496     2048   32768   32768      0       0
"""
BUFFERS_ALONE = """Pool Name            Index NUMA  Size  Data Size  Total  Avail  Cached   Used
default-numa-0          0     0   2304     2048   16384   16000    128     256
"""
STARTUP = """unix { nodaemon cli-listen /run/vpp/cli.sock }
cpu { main-core 1 corelist-workers 2-3 }
buffers { buffers-per-numa 16384 }
dpdk { dev default { num-rx-queues 1 num-rx-desc 1024 num-tx-desc 1024 } dev 0000:3b:00.0 dev 0000:3b:00.1 }
"""
STARTUP_LINES = """# a server
unix {
  nodaemon
  log /var/log/vpp/vpp.log
}
cpu {
  workers 4
}
dpdk {
  no-multi-seg
  dev default {
    num-rx-desc 512
  }
  dev 0000:18:00.0 {
    name port0
    num-rx-queues 4   # one a worker
    num-rx-desc 2048
    num-tx-desc 2048
  }
}
plugins {
  plugin default { disable }
  plugin dpdk_plugin.so { enable }
}
"""
STARTUP_BUFFERS = """buffers {
  buffers-per-numa 128000
  default data-size 2048
  page-size default-hugepage
}
cpu {
  main-core 0
  corelist-workers 1,3,5-7
}
"""
TELEMETRY = """{
 "/info": {"/info": {"version": "DPDK 24.11.8", "pid": 1, "max_output_len": 16384}},
 "/ethdev/list": {"/ethdev/list": [0, 1]},
 "/ethdev/stats,0": {"/ethdev/stats": {"ipackets": 1000, "opackets": 990, "ibytes": 60000, "obytes": 59400,
   "imissed": 7, "ierrors": 0, "oerrors": 0, "rx_nombuf": 0}},
 "/ethdev/info,0": {"/ethdev/info": {"name": "0000:3b:00.0", "nb_rx_queues": 2, "mtu": 1500, "numa_node": 0}},
 "/ethdev/rx_queue,0,0": {"/ethdev/rx_queue": {"mempool_name": "mb_pool_0", "nb_desc": 1024}},
 "/mempool/info,mb_pool_0": {"/mempool/info": {"name": "mb_pool_0", "size": 16384, "cache_size": 250,
   "elt_size": 2304, "header_size": 64, "trailer_size": 0, "total_cache_count": 378, "common_pool_count": 15974}},
 "/eal/lcore/usage": {"/eal/lcore/usage": {"lcore_ids": [1], "total_cycles": [26000], "busy_cycles": [13000]}},
 "/eal/params": {"/eal/params": ["dpdk-testpmd", "-l", "0,1", "-a", "0000:3b:00.0", "-a", "0000:3b:00.1"]},
 "/eal/app_params": {"/eal/app_params": ["--nb-cores=1", "--rxq=2", "--rxd=1024", "--txd=1024", "--burst=64",
   "--forward-mode=io"]}
}
"""
TELEMETRY_TALK = """--> /ethdev/stats,0
{"/ethdev/stats": {"ipackets": 5000, "imissed": 0, "rx_nombuf": 11, "ibytes": 300000}}
--> /mempool/info,pool
{"/mempool/info": {"name": "pool", "size": 8191, "cache_size": 256, "elt_size": 2304, "header_size": 64,
 "trailer_size": 0}}
"""
TELEMETRY_NULL = """{"/eal/params": {"/eal/params": ["dpdk-l3fwd", "-l", "2-3", "-a", "0000:3b:00.0"]},
 "/eal/app_params": {"/eal/app_params": ["-p", "0x1", "--config=(0,0,2),(0,1,3)", "--rx-queue-size", "2048"]},
 "/ethdev/rx_queue,0,0": {"/ethdev/rx_queue": null}}
"""
TESTPMD = """testpmd: create a new mbuf pool <mb_pool_0>: n=16384, size=2176, socket=0
testpmd: preferred mempool ops selected: ring_mp_mc
Set mac packet forwarding mode
mac packet forwarding - ports=2 - cores=1 - streams=2 - NUMA support enabled, MP allocation mode: native
  mac packet forwarding packets/burst=32
  port 0: RX queue number: 1 Tx queue number: 1
    RX queue: 0
      RX desc=512 - RX free threshold=0
    TX queue: 0
      TX desc=512 - TX free threshold=0
Driver name: net_ice
Link speed: 100 Gbps
Max possible number of RXDs per queue: 8160
Min possible number of RXDs per queue: 64
RXDs number alignment: 32
  ######################## NIC statistics for port 0  ########################
  RX-packets: 42806144   RX-missed: 12         RX-bytes:  0
  RX-errors: 0
  RX-nombuf:  3
  TX-packets: 42399584   TX-errors: 0          TX-bytes:  0

  Throughput (since last show)
  Rx-pps:     21995592          Rx-bps:            0
  ############################################################################
  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 108461536      RX-dropped: 0             RX-total: 108461536
  TX-packets: 108461504      TX-dropped: 32            TX-total: 108461536
  RX-bursts : 3389429 [50% of 0 pkts + 40% of 32 pkts + 10% of 16 pkts]
  ----------------------------------------------------------------------------
  CPU cycles/packet=58.61 (total cycles=12714364706 / total mac packets=216923296) at 2600 MHz Clock
"""
TESTPMD_NEW = """testpmd: create a new mbuf pool <mb_pool_0>: n=155456, size=2176, socket=0
io packet forwarding - ports=1 - cores=2 - streams=2 - NUMA support enabled, MP allocation mode: native
  io packet forwarding packets/burst=64
  port 0: RX queue number: 2 Tx queue number: 2
      RX desc=0 - RX free threshold=0
  CPU cycles/packet=31.20 (busy cycles=3120000 / total io packets=100000) at 2100 MHz Clock
"""
TESTPMD_STATS = """  ######################## NIC statistics for port 0  ########################
  RX-packets: 1000       RX-missed: 0          RX-bytes:  64000
  RX-errors: 0
  RX-nombuf:  0
  ############################################################################
"""
COMMAND = (
    "dpdk-testpmd -l 1-3 -a 0000:3b:00.0 -a 0000:3b:00.1 -- --nb-cores=2 --rxq=1 --txq=1 --rxd=1024 --txd=1024 "
    "--burst=32 --mbcache=250 --total-num-mbufs=16384 --forward-mode=mac\n"
)
COMMAND_LINES = """sudo ./build/app/dpdk-testpmd -l 0-1 --vdev=net_null0,size=64 \\
  -- -i --rxd 512 --txd 256 --forward-mode io
"""
COMMAND_L3FWD = """dpdk-l3fwd -l 2-3 -a 0000:3b:00.0 -a 0000:3b:00.1 -- -p 0x3 --config="(0,0,2),(1,0,3)" \\
  --rx-queue-size 2048 --tx-queue-size 512 --burst 64
"""
MEMPOOL = """mempool <mb_pool_0>@0x100000000
  flags=10
  size=16384
  populated_size=16384
  header_size=64
  elt_size=2304
  trailer_size=0
  total_obj_size=2368
  ops_name: <ring_mp_mc>
  internal cache infos:
    cache_size=250
    cache_count[0]=12
    total_cache_count=294
  common_pool_count=16090
  no statistics available
"""
MEMPOOL_STACK = MEMPOOL.replace("ring_mp_mc", "stack").replace("16384", "8192").replace("16090", "7000")
MEMPOOL_OVS = """mempool <ovs6ffa666e00021580262144>@0x1180000000
  size=262144
  header_size=64
  elt_size=2880
  trailer_size=64
  total_obj_size=3008
    cache_size=512
    total_cache_count=512
  common_pool_count=261600
"""


def _pmd(core: int, packets: int, busy: str, upcalls: int = 0) -> str:
    return f"""pmd thread numa_id 0 core_id {core}:
  packets received: {packets}
  packet recirculations: 0
  avg. datapath passes per packet: 1.00
  emc hits: {packets}
  megaflow hits: 0
  miss with success upcall: {upcalls}
  miss with failed upcall: 0
  avg. packets per output batch: 24.00
  idle cycles: 1000 (40.00%)
  processing cycles: 60000 ({busy}%)
  avg cycles per packet: 100.00 (100000/{packets})
  avg processing cycles per packet: 60.00 (60000/{packets})
"""


PMD_STATS = _pmd(1, 1000, "60.00") + "main thread:\n  packets received: 0\n"
PMD_STATS_TWO = _pmd(1, 1000, "99.00", 7) + _pmd(3, 2000, "98.00")
PMD_STATS_IDLE = """pmd thread numa_id 0 core_id 5:
  packets received: 0
  idle cycles: 100 (100.00%)
  processing cycles: 0 (0.00%)
"""


def _perf_show(core: int, idle: int, batch: str) -> str:
    return f"""
Time: 10:40:31.888
Measurement duration: 43.318 s

pmd thread numa_id 0 core_id {core}:

  Iterations:             17321027  (2.46 us/it)
  - Used TSC cycles:  110746934050  ( 98.3 % of total cycles)
  - idle iterations:      {idle:8d}  (  0.0 % of used cycles)
  - busy iterations:      17321027  (100.0 % of used cycles)
  Rx packets:           1662818624  (38386 Kpps, 67 cycles/pkt)
  Datapath passes:      1662818624  (1.00 passes/pkt)
  - EMC hits:           1662818624  (100.0 %)
  - Upcalls:                    12  (  0.0 %, 0.0 us/upcall)
  - Lost upcalls:                0  (  0.0 %)
  Tx packets:           1662818624  (38386 Kpps)
  Tx batches:             51963082  ({batch} pkts/batch)
"""


PMD_RXQ = """Displaying last 60 seconds pmd usage %
pmd thread numa_id 0 core_id 1:
  isolated : false
  port: p0                queue-id:  0 (enabled)   pmd usage: 21 %
  port: p0                queue-id:  1 (enabled)   pmd usage: 20 %
  port: p1                queue-id:  0 (enabled)   pmd usage: 24 %
  overhead:  4 %
"""
PMD_RXQ_TWO = """pmd thread numa_id 0 core_id 2:
  isolated : true
  port: dpdk0             queue-id:  0 (enabled)   pmd usage: 90 %
  overhead:  1 %
pmd thread numa_id 0 core_id 3:
  isolated : false
  port: dpdk1             queue-id:  0 (enabled)   pmd usage:  0 %
"""
PMD_RXQ_NEW = """pmd thread numa_id 0 core_id 8:
  isolated : false
  port: dpdk0             queue-id:  0 (enabled)   pmd usage: NOT AVAIL
  overhead: NOT AVAIL
"""
VSCTL = """ovs-vsctl set Open_vSwitch . other_config:dpdk-init=true other_config:pmd-cpu-mask=0xc
ovs-vsctl add-br br0 -- set bridge br0 datapath_type=netdev
ovs-vsctl add-port br0 p0 -- set Interface p0 type=dpdk options:dpdk-devargs=0000:3b:00.0 options:n_rxq=1 \
options:n_rxq_desc=1024 options:n_txq_desc=1024
"""
VSCTL_TWO = VSCTL + VSCTL.splitlines()[-1].replace("p0", "p1").replace("n_rxq=1 ", "n_rxq=2 ") + "\n"
VSCTL_MASK = "ovs-vsctl set Open_vSwitch . other_config:pmd-cpu-mask=f0 other_config:dpdk-init=true\n"
SURICATA = """%YAML 1.1
---
dpdk:
  eal-params:
    proc-type: primary
  interfaces:
    - interface: 0000:03:00.0
      threads: 4
      mempool-size: 65535
      mempool-cache-size: 257
      rx-descriptors: 1024
      tx-descriptors: 1024
      copy-mode: none
"""
SURICATA_DEFAULT = """dpdk:
  interfaces:
    - interface: 0000:3b:00.0
      threads: 2
      mempool-size: 8190
    - interface: 0000:3b:00.1
      threads: 2
    - interface: default
      threads: auto
      mempool-size: 4095
      rx-descriptors: 2048
      tx-descriptors: auto
"""
SURICATA_AUTO = """%YAML 1.1
---
dpdk:
  interfaces:
    - {interface: "0000:3b:00.0", threads: auto, mempool-size: auto, rx-descriptors: auto}
"""


def _block(seconds: int, packets: int, missed: int) -> str:
    rule = "-" * 84 + "\n"
    return (
        f"{rule}Date: 11/24/2026 -- 10:46:30 (uptime: 0d, 00h 00m {seconds:02d}s)\n{rule}"
        f"Counter                                       | TM Name                   | Value\n{rule}"
        f"capture.packets                               | Total                     | {packets + missed}\n"
        f"capture.dpdk.imissed                          | Total                     | {missed}\n"
        f"decoder.pkts                                  | Total                     | {packets}\n"
        f"decoder.bytes                                 | Total                     | {packets * 124}\n"
    )


EVE = """{"timestamp": "2026-11-24T10:46:45.0+0000", "event_type": "stats", "stats": {"uptime": 21, \
"capture": {"packets": 100, "dpdk": {"imissed": 0}}, "decoder": {"pkts": 100, "bytes": 6400}}}
{"timestamp": "2026-11-24T10:46:53.0+0000", "event_type": "stats", "stats": {"uptime": 29, \
"capture": {"packets": 900, "dpdk": {"imissed": 80}}, "decoder": {"pkts": 820, "bytes": 52480}}}
"""
GROUT = """affinity cpus set control 1 datapath 2,3
interface add port p0 devargs 0000:3b:00.0 rxqs 1 qsize 1024
interface add port p1 devargs 0000:3b:00.1 rxqs 1 qsize 1024
graph config set rx-burst-max 32
"""
GROUT_SHORT = "grcli interface add port p0 devargs net_null0\n"
GROUT_AUTO = "interface add port p0 devargs 0000:18:00.0 rxqs 4 qsize 0\naffinity cpus set control 0 datapath 1-4\n"
GROUT_STATS = """NODE        BATCHES  PACKETS  PKTS/BATCH  CYCLES/BATCH  CYCLES/PKT
ip_input      31250  1000000        32.0         1280.0        40.0
ip_output     31250  1000000        32.0          960.0        30.0
"""
GROUT_STATS_WIDE = """NODE          CALLS  BATCHES  PACKETS  PKTS/BATCH  CYCLES/PKT
port_rx       40000    31250  1000000        32.0        25.5
"""
GROUT_STATS_OLD = "NODE PACKETS CYCLES/PKT\nport_rx 10 100.0\nport_tx 10 50.0\n"
PERF = """# started on Tue Nov 24 10:45:00 2026

2600000000,,cycles,1000000000,100.00,2.600,GHz
5200000000,,instructions,1000000000,100.00,2.00,insn per cycle
1234,,LLC-load-misses,500000000,50.00,,
<not supported>,,cache-misses,0,100.00,,
"""
PERF_INTERVAL = """     1.000135834,1000,,cycles,574898,100.00,,
     1.000135834,2000,,instructions,574898,100.00,2.00,insn per cycle
     2.000135834,3000,,cycles,574898,100.00,,
     2.000135834,<not counted>,,instructions,0,100.00,,
"""
PERF_SOCKET = """S0,2,205.07,msec,cpu-clock,205066855,100.00,1.985,CPUs utilized
S0,2,9000,,cycles,205066855,100.00,,
"""
PERF_JSON = """# started on Tue Nov 24 10:45:00 2026

{"counter-value" : "1000.000000", "unit" : "", "event" : "cycles", "event-runtime" : 652184, "pcnt-running" : 100.00}
{"counter-value" : "1500.000000", "unit" : "", "event" : "instructions", "event-runtime" : 652184}
{"counter-value" : "<not supported>", "unit" : "", "event" : "LLC-load-misses", "event-runtime" : 0}
"""
PCM = """,,System,System,System,System,System,SKT0,SKT0
Date,Time,EXEC,IPC,L3MISS,READ,WRITE,EXEC,IPC
2026-01-01,12:00:00,0.8,1.52,2.5,3.2,1.1,0.8,1.52
2026-01-01,12:00:01,0.9,1.50,2.0,3.0,1.0,0.9,1.50
"""
PCM_MEMORY = """,,SKT0,SKT0,System,System,System
Date,Time,Mem Read (MB/s),Mem Write (MB/s),Read,Write,Memory
2026-01-01,12:00:00,3000.5,1200.25,3000.5,1200.25,4200.75
"""
PCM_PCIE = """Skt,PCIRdCur,ItoM,ItoMCacheNear,UCRdF,WiL
0,1250000,2500000,120,0,31250 (Total)
0,10,500000,12,0,3 (Miss)
0,1249990,2000000,108,0,31247 (Hit)
"""
CSIT = """{"version": "1.5.1", "test_type": "ndrpdr", "passed": true,
 "test_id": "tests.vpp.perf.ip4.2n1l-100ge2p1e810cq-64b-4t2c-avf-ethip4-ip4base-ndrpdr",
 "result": {"type": "ndrpdr",
  "ndr": {"lower": {"rate": {"value": 1.2e7, "unit": "pps"}}},
  "pdr": {"lower": {"rate": {"value": 1.4e7, "unit": "pps"}}}}}
"""
CSIT_MRR = """{"version": "1.5.1", "test_type": "mrr", "test_id": "10ge2p1x710-78b-1t1c-l2xcbase-eth-mrr",
 "result": {"type": "mrr", "receive_rate": {"rate": {"avg": 9.5e6, "stdev": 1e4, "unit": "pps"}}}}
"""
CSIT_TESTPMD = """{"version": "1.5.1", "test_type": "ndrpdr",
 "test_id": "100ge2p1cx556a-64b-2t1c-eth-l2xcbase-testpmd-ndrpdr",
 "result": {"type": "ndrpdr", "ndr": {"lower": {"rate": {"value": 2e7, "unit": "pps"}}}}}
"""

SAMPLES: Final[dict[str, tuple[Sample, ...]]] = {
    "lscpu": (
        Sample(XEON_TEXT, {"llc_bytes": 22 << 20, "l1_bytes": 32 << 10, "frequency": 2.1e9, "sockets": 2}),
        Sample(XEON_JSON, {"cpu_stepping": 4, "llc_bytes": 25952256, "cores_per_socket": 18}),
        Sample(EPYC_OLD, {"l2_bytes": 512 << 10, "llc_bytes": 16 << 20, "cpu_number": 49}),
    ),
    "lscpu-caches": (
        Sample(CACHES, {"l1_ways": 8, "l2_bytes": 1 << 20, "llc_ways": 11}),
        Sample(CACHES_WIDE, {"l1_bytes": 48 << 10, "llc_bytes": 105 << 20}),
        Sample(CACHES_JSON, {"llc_ways": 16, "llc_bytes": 16 << 20}),
    ),
    "numactl": (
        Sample(NUMA_TWO, {"numa_nodes": 2}),
        Sample(NUMA_ONE, {"numa_nodes": 1}),
        Sample(NUMA_CXL, {"numa_nodes": 2}),
    ),
    "dmidecode": (
        Sample(DMI_DDR4, {"dimms": 2, "dimm_rate": 2933, "dimm_channels": 2, "dimm_type": "DDR4"}),
        Sample(DMI_OLD, {"dimms": 1, "dimm_rate": 2133}),
        Sample(DMI_CPU, {"dimms": 1, "dimm_type": "DDR5", "cpu": "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz"}),
    ),
    "lshw": (
        Sample(LSHW_SERVER, {"dimms": 2, "dimm_rate": 2666, "link": 25e9, "driver": "i40e"}),
        Sample(LSHW_ARRAY, {"cpu": "AMD EPYC 9654 96-Core Processor", "driver": "mlx5_core"}),
        Sample(LSHW_LOOSE, {"driver": "ixgbe", "sockets": 1}),
    ),
    "ethtool-i": tuple(Sample(_info(name), {"driver": name}) for name in ("ice", "mlx5_core", "i40e")),
    "ethtool-g": (
        Sample(_rings(8160, 2048, 256), {"rx_descriptors": 2048, "tx_descriptors": 256, "rx_most": 8160}),
        Sample(_rings(4096, 512), {"rx_descriptors": 512}),
        Sample(_rings(8192, 1024), {"rx_descriptors": 1024}),
    ),
    "ethtool-l": (
        Sample(_channels(64, 8), {"rx_queues": 8}),
        Sample(_channels(63, 63), {"rx_queues": 63}),
        Sample(RX_TX_CHANNELS, {"rx_queues": 4}),
    ),
    "ethtool-c": tuple(Sample(_coalesce(usecs)) for usecs in ("50", "0", "n/a")),
    "ethtool-k": (
        Sample(_features("on", "on")),
        Sample(_features("off [fixed]", "on")),
        Sample(_features("off", "off")),
    ),
    "ethtool-S": (
        Sample(STATS_MLX5, {"frame_bytes": 64.0}, {"missed": 77, "no_descriptor": 1234, "no_buffer": 2}),
        Sample(STATS_I40E, {"frame_bytes": 64.0}, {"missed": 55, "no_descriptor": 12, "no_buffer": 3}),
        Sample(STATS_ICE, {"frame_bytes": 64.0}, {"missed": 9, "no_descriptor": 4}),
        Sample(STATS_IXGBE, {}, {"missed": 42, "no_descriptor": 6, "no_buffer": 1}),
    ),
    "vpp-hardware": (
        Sample(
            HARDWARE,
            {"rx_descriptors": 1024, "rx_most": 8160, "rx_multiple": 32, "driver": "ice", "frame_bytes": 60.0},
            {"missed": 123456},
        ),
        Sample(HARDWARE_TWO, {"rx_descriptors": 512, "ports": 2, "nic_id": "8086:1592"}),
        Sample(HARDWARE_MLX, {"rx_descriptors": 2048, "rx_queues": 4, "nic_id": "15b3:1017"}, {"no_buffer": 17}),
    ),
    "vpp-runtime": (
        Sample(RUNTIME, {"cores": 2, "program": "vpp-ip4-dpdk", "packet_rate": 2.4e7}, {"packets_per_burst": 200 / 3}),
        Sample(RUNTIME_L2, {"cores": 1, "program": "vpp-l2xc"}, {"cycles_per_packet": 85.0, "inner_per_packet": 45.0}),
        Sample(RUNTIME_OLD, {"cores": 1, "program": "vpp-ip4-dpdk", "packet_rate": 1.2e6}),
    ),
    "vpp-buffers": (
        Sample(BUFFERS, {"pool_size": 16800, "pool_element": 2496}, {"pool_used": 1545}),
        Sample(BUFFERS_TWO, {"pool_size": 32768}, {"pool_used": 2256}),
        Sample(BUFFERS_ALONE, {"pool_size": 16384, "pool_element": 2304}),
    ),
    "vpp-startup": (
        Sample(STARTUP, {"cores": 2, "pool_size": 16384, "rx_descriptors": 1024, "ports": 2, "all_rx_queues": 2}),
        Sample(STARTUP_LINES, {"cores": 4, "rx_descriptors": 2048, "tx_descriptors": 2048, "rx_queues": 4}),
        Sample(STARTUP_BUFFERS, {"cores": 5, "pool_size": 128000}),
    ),
    "telemetry": (
        Sample(
            TELEMETRY,
            {"ports": 2, "rx_descriptors": 1024, "pool_element": 2368, "burst": 64, "program": "testpmd-io"},
            {"missed": 7, "busy": 0.5, "pool_used": 32},
        ),
        Sample(TELEMETRY_TALK, {"pool_size": 8191, "pool_cache": 256}, {"no_buffer": 11}),
        Sample(TELEMETRY_NULL, {"program": "l3fwd", "cores": 2, "rx_descriptors": 2048}),
    ),
    "testpmd": (
        Sample(
            TESTPMD,
            {"pool_size": 16384, "cores": 1, "burst": 32, "rx_descriptors": 512, "rx_most": 8160, "driver": "ice"},
            {"cycles_per_packet": 58.61, "missed": 12, "no_buffer": 3, "tx_dropped": 32, "packets_per_burst": 28.8},
        ),
        Sample(TESTPMD_NEW, {"cores": 2, "program": "testpmd-io", "burst": 64}, {"work_per_packet": 31.2}),
        Sample(TESTPMD_STATS, {}, {"received": 1000, "missed": 0}),
    ),
    "command": (
        Sample(COMMAND, {"cores": 2, "rx_descriptors": 1024, "pool_size": 16384, "ports": 2, "burst": 32}),
        Sample(COMMAND_LINES, {"rx_descriptors": 512, "tx_descriptors": 256, "frame_bytes": 64, "cores": 1}),
        Sample(COMMAND_L3FWD, {"program": "l3fwd", "rx_descriptors": 2048, "tx_descriptors": 512, "burst": 64}),
    ),
    "mempool": (
        Sample(MEMPOOL, {"pool_size": 16384, "pool_cache": 250, "pool_element": 2368, "pool_order": "fifo"}),
        Sample(MEMPOOL_STACK, {"pool_size": 8192, "pool_order": "lifo"}),
        Sample(MEMPOOL_OVS, {"pool_size": 262144, "pool_element": 3008}, {"pool_used": 32}),
    ),
    "ovs-stats": (
        Sample(PMD_STATS, {"cores": 1}, {"cycles_per_packet": 100.0, "work_per_packet": 60.0, "busy": 0.6}),
        Sample(PMD_STATS_TWO, {"cores": 2, "function": "classify"}, {"upcalls": 7, "busy": 0.99}),
        Sample(PMD_STATS_IDLE, {"cores": 1}, {"received": 0}),
    ),
    "ovs-perf": (
        Sample(_perf_show(1, 0, "32.00"), {"cores": 1, "packet_rate": 38386e3}, {"packets_per_burst": 32.0}),
        Sample(_perf_show(2, 8660513, "4.50"), {"cores": 1}, {"empty_polls": 8660513 / 17321027, "upcalls": 12}),
        Sample(_perf_show(1, 0, "32.00") + _perf_show(3, 5, "8.00"), {"cores": 2, "packet_rate": 76772e3}),
    ),
    "ovs-rxq": (
        Sample(PMD_RXQ, {"cores": 1, "ports": 2, "all_rx_queues": 3}, {"busy": 0.65}),
        Sample(PMD_RXQ_TWO, {"cores": 2, "all_rx_queues": 2}, {"busy": 0.9}),
        Sample(PMD_RXQ_NEW, {"cores": 1, "all_rx_queues": 1}),
    ),
    "ovs-vsctl": (
        Sample(VSCTL, {"cores": 2, "rx_descriptors": 1024, "ports": 1, "all_rx_queues": 1}),
        Sample(VSCTL_TWO, {"ports": 2, "all_rx_queues": 3}),
        Sample(VSCTL_MASK, {"cores": 4}),
    ),
    "suricata": (
        Sample(SURICATA, {"cores": 4, "rx_descriptors": 1024, "pool_cache": 257, "pool_size": 65535}),
        Sample(SURICATA_DEFAULT, {"cores": 4, "ports": 2, "pool_size": 8190 + 4095, "rx_descriptors": 2048}),
        Sample(SURICATA_AUTO, {"ports": 1, "function": "inspect"}),
    ),
    "suricata-stats": (
        Sample(_block(6, 1000, 0), {"frame_bytes": 124.0}, {"received": 1000, "missed": 0}),
        Sample(_block(6, 1000, 0) + _block(14, 9000, 800), {"packet_rate": 1100.0}, {"missed": 800}),
        Sample(EVE, {"frame_bytes": 64.0, "packet_rate": 100.0}, {"missed": 80}),
    ),
    "grout": (
        Sample(GROUT, {"cores": 2, "ports": 2, "rx_descriptors": 1024, "burst": 32, "all_rx_queues": 2}),
        Sample(GROUT_SHORT, {"ports": 1, "program": "l3fwd"}),
        Sample(GROUT_AUTO, {"cores": 4, "rx_queues": 4}),
    ),
    "grout-stats": (
        Sample(GROUT_STATS, {"program": "l3fwd"}, {"cycles_per_packet": 70.0}),
        Sample(GROUT_STATS_WIDE, {}, {"cycles_per_packet": 25.5}),
        Sample(GROUT_STATS_OLD, {}, {"cycles_per_packet": 150.0}),
    ),
    "perf": (
        Sample(PERF, {}, {"ipc": 2.0, "llc_misses": 1234, "cycles": 2.6e9}),
        Sample(PERF_INTERVAL, {}, {"cycles": 4000, "instructions": 2000}),
        Sample(PERF_SOCKET, {}, {"cycles": 9000}),
        Sample(PERF_JSON, {}, {"ipc": 1.5}),
    ),
    "pcm": (
        Sample(PCM, {}, {"ipc": 1.5, "llc_misses": 2e6, "memory_read": 3e9}),
        Sample(PCM_MEMORY, {}, {"memory_read": 3000.5e6, "memory_write": 1200.25e6}),
        Sample(PCM_PCIE, {}, {"io_write_misses": 0.2}),
    ),
    "csit": (
        Sample(CSIT, {"cores": 2, "frame_bytes": 64, "program": "vpp-ip4-dpdk"}, {"ndr": 1.2e7, "pdr": 1.4e7}),
        Sample(CSIT_MRR, {"frame_bytes": 78, "program": "vpp-l2xc"}, {"received_rate": 9.5e6}),
        Sample(CSIT_TESTPMD, {"cores": 1, "packet_rate": 2e7}, {"ndr": 2e7}),
    ),
}
"""By kind."""
