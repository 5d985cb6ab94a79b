//! Techniques of rings, DMA and caches against what their papers say, each under its paper's conditions as far as this machine has them:
//! the direction is asserted, and the size is printed (`benches/record/2026-11.md` has it).

use serde_json::Value;

use super::documents::{document, number, read};

/// Eight cores that forward packets of 1500 B by a small table, at 200 Gbps, as ShRing's bed: rings of 1024 descriptors each hold
/// 12 MiB, and the LLC gives devices 2 of 11 ways. Completions are
/// compressed and reads are of 4 KiB, or 230 Gbps of PCIe do not carry so many packets both ways.
const WIDE: [&str; 15] = [
    "machine.cores=8",
    "machine.llc.size=\"22 MiB\"",
    "machine.llc.slices=16",
    "nic.driver=\"mlx5-compressed\"",
    "nic.rate=\"200 Gbps\"",
    "nic.pcie.rate=\"230 Gbps\"",
    "nic.pcie.max_read=4096",
    "traffic.load=1.0",
    "traffic.sizes={fixed=\"1518 B\"}",
    "traffic.flows.count=2000",
    "function.forward.prefixes=2000",
    "nic.rx_descriptors=1024",
    "nic.tx_descriptors=512",
    "run.packets=40000",
    "run.warmup=60000",
];

const SHORT: &str = "traffic.sizes={fixed=\"64 B\"}";

/// What a run did, of what the papers speak of.
#[derive(Debug)]
struct Seen {
    mpps: f64,
    sojourn_ns: f64,
    /// Of DMA writes, in place.
    written_in_place: f64,
    /// Bytes of DRAM for each received one.
    dram_read: f64,
    dram_written: f64,
}

fn seen(document: &Value) -> Seen {
    let ddio = document["levels"].as_array().unwrap().iter().find(|level| level["name"] == "DDIO").unwrap();
    let bytes = 1514.0 * number(document, "/packets");
    Seen {
        mpps: number(document, "/carried_mpps"),
        sojourn_ns: number(document, "/sojourn_ns/mean"),
        written_in_place: number(ddio, "/hit_rate"),
        dram_read: 64.0 * number(document, "/dram/reads") / bytes,
        dram_written: 64.0 * number(document, "/dram/writes") / bytes,
    }
}

const SHARED: &str = "nic.rings=shared";
/// As small as ShRing's ring, all cores together: 8 x 128.
const BISECTED: [&str; 3] = ["nic.rings=bisected", "nic.rx_descriptors=128", "nic.deliveries=4096"];
/// One channel, so that what leaks past the LLC meets the bandwidth of DRAM, as four DIMMs beside a co-runner do on the paper's bed.
const ONE_CHANNEL: &str = "machine.dram.channels=1";

/// ShRing (OSDI 2023): to 1.27 times the throughput, and latency to 1/38 where rings of one's own are overloaded and the shared one is not.
#[test]
fn a_ring_that_cores_share_keeps_its_buffers_in_the_llc() {
    let private = seen(&document(&[&WIDE]));
    let shared = seen(&document(&[&WIDE, &[SHARED]]));
    println!("{private:?}\n{shared:?}");
    assert!(private.written_in_place < 0.2 && shared.written_in_place > 0.8);
    assert!(private.dram_written > 0.9 && shared.dram_written < 0.25);
    // The lock, and lines that cores write in turn, cost what memory with bandwidth to spare does not give back.
    assert!(shared.sojourn_ns > private.sojourn_ns && shared.sojourn_ns < 1.3 * private.sojourn_ns);
    let (short, shared) =
        (seen(&document(&[&WIDE, &[ONE_CHANNEL]])), seen(&document(&[&WIDE, &[ONE_CHANNEL, SHARED]])));
    println!("{short:?}\n{shared:?}");
    assert!(shared.mpps > 1.27 * short.mpps && 15.0 * shared.sojourn_ns < short.sojourn_ns);
}

/// rxBisect (OSDI 2025): where one core gets more than the others, a shared ring loses packets of all, and rings apart do not.
#[test]
fn a_busy_core_keeps_the_buffers_of_all_in_a_shared_ring_and_not_in_rings_apart() {
    let uneven = [
        "traffic.flows.count=400",
        "traffic.flows.popularity={zipf=1.1}",
        "traffic.arrivals=poisson",
        "traffic.load=0.7",
        "function.kind=work",
        "function.work.packet_instructions=2000",
    ];
    let lost = |set: &[&str]| {
        let found = document(&[&WIDE, &uneven, set]);
        (number(&found, "/lost") / number(&found, "/packets"), found)
    };
    let ((private, _), (shared, _), (apart, found)) = (lost(&[]), lost(&[SHARED]), lost(&BISECTED));
    println!("{private} {shared} {apart} {}", found["placing"]);
    assert!(shared > 2.0 * private, "{shared} and {private}");
    assert!(apart < 1.1 * private, "{apart} and {private}");
    assert!(number(&found, "/placing/foreign_buffers") > 100.0);
    // Evenly spread, empty buffers bound what the LLC has to hold, and arrivals do not.
    // With caches of the pool no longer than two bursts few mbufs are in use, and fit into the I/O ways wherever they lie.
    let even = |deliveries: &str| seen(&document(&[&WIDE, &BISECTED[..2], &["mempool.cache=64", deliveries]]));
    let (few, many) = (even("nic.deliveries=256"), even("nic.deliveries=8192"));
    assert!(few.written_in_place > 0.9 && (few.written_in_place - many.written_in_place).abs() < 0.02);
}

/// Sweeper (MICRO 2022): what is dead is not written back, so that a received byte makes no byte of DRAM traffic; peak throughput to 2.6
/// times where DRAM is short.
#[test]
fn dead_lines_that_are_given_up_are_not_written_back() {
    let drop = "nic.drop_dead=true";
    let (kept, swept) = (seen(&document(&[&WIDE])), seen(&document(&[&WIDE, &[drop]])));
    println!("{kept:?}\n{swept:?}");
    assert!(kept.dram_written > 0.9 && swept.dram_written < 0.1 && swept.dram_read <= kept.dram_read + 0.01);
    let (short, swept) = (seen(&document(&[&WIDE, &[ONE_CHANNEL]])), seen(&document(&[&WIDE, &[ONE_CHANNEL, drop]])));
    println!("{short:?}\n{swept:?}");
    assert!(swept.mpps > 1.2 * short.mpps);
    // Rings that fit leave nothing to spare. Caches of the pool that are as long as a burst's two leave few mbufs in use.
    let fits = ["nic.rx_descriptors=128", "nic.tx_descriptors=128", "mempool.size=4096", "mempool.cache=64"];
    let fit = seen(&document(&[&WIDE, &fits]));
    assert!(
        fit.dram_written < 0.1
            && (seen(&document(&[&WIDE, &fits, &[drop]])).sojourn_ns / fit.sojourn_ns - 1.0).abs() < 0.1
    );
}

/// IDIO (MICRO 2022) and steering tags: headers and completions that come to L2 are met there, and with dead lines given up little is
/// written back from L2 and LLC.
#[test]
fn what_comes_to_l2_is_found_there() {
    let tags = "nic.targets={descriptors=\"l2\", header=\"l2\"}";
    let (plain, tagged) = (document(&[&WIDE]), document(&[&WIDE, &[tags]]));
    println!("{:?}\n{:?} {}", seen(&plain), seen(&tagged), tagged["placing"]);
    assert!(seen(&tagged).sojourn_ns < seen(&plain).sojourn_ns);
    let packets = number(&tagged, "/packets");
    assert!((number(&tagged, "/placing/l2_lines") / packets - 2.0).abs() < 0.05);
    let lookups = |of: &Value| of["llc_by_cores"][0]["lookups"].as_f64().unwrap_or(0.0) / packets;
    assert!(lookups(&plain) - lookups(&tagged) > 1.5, "{} and {}", lookups(&plain), lookups(&tagged));
    // Without I/O ways a tag is worth more: the core's first look would go to DRAM.
    let no_ways = "machine.llc.io_ways=0";
    let (past, tagged) = (seen(&document(&[&WIDE, &[no_ways]])), seen(&document(&[&WIDE, &[no_ways, tags]])));
    println!("{past:?}\n{tagged:?}");
    assert!(past.sojourn_ns - tagged.sojourn_ns > 50.0);
    // Payload that no core reads gains nothing from any cache, and takes none of it past them.
    let idle = document(&[&WIDE, &["nic.targets={descriptors=\"l2\", header=\"l2\", payload=\"memory\"}"]]);
    assert!((number(&idle, "/placing/memory_lines") / packets - 23.0).abs() < 0.1, "{}", idle["placing"]);
}

/// CacheDirector (EuroSys 2019): tails of 90 to 99 % to -21.5 %. On a ring of eight slices the first line of each packet is met sooner. It is
/// no more than 2 ns of 1,750 here: the paper's tails come from the queue of a machine at its knee, and there this one hides
/// the look at a header behind others of its burst.
#[test]
fn a_header_in_the_nearest_slice_is_met_sooner() {
    let ring = [
        "machine.llc.slices=8",
        "machine.llc.interconnect={topology=\"ring\", hop=\"0.8 ns\"}",
        "function.forward.lookup.lookup=single",
        "function.forward.lookup.prefetch=false",
        SHORT,
        "traffic.arrivals=poisson",
        "mempool.size=16384",
        "traffic.load=0.02",
    ];
    let near = "mempool.start={near_slice=8}";
    let (plain, near) = (document(&[&WIDE, &ring]), document(&[&WIDE, &ring, &[near]]));
    println!("{:?} {}\n{:?} {}", seen(&plain), plain["attribution_ns"], seen(&near), near["attribution_ns"]);
    let waited = |of: &Value| number(of, "/attribution_ns/interconnect") + number(of, "/attribution_ns/llc");
    assert!(waited(&plain) - waited(&near) > 1.0, "{} and {}", waited(&plain), waited(&near));
    assert!(number(&near, "/sojourn_ns/mean") < number(&plain, "/sojourn_ns/mean"));
}

/// A stride of a power of two puts all packets' first lines into one channel, which eight places undo. 37 lines spread them anyway
/// (DPDK's `rte_mempool`), and a line more with each mbuf then leaves two channels of four.
#[test]
fn staggered_starts_use_all_channels_where_the_stride_uses_one() {
    let short = [
        SHORT,
        "machine.llc.io_ways=0",
        "machine.dram.channels=4",
        "traffic.load=0.6",
        "mempool.size=16384",
        "function.kind=program",
        "function.program.stages=[{name=\"io\", instructions=30, touches=[\"load mbuf 0\"]}]",
    ];
    let carried = |set: &[&str]| seen(&document(&[&WIDE, &short, set])).mpps;
    let even = "mempool.element=4096 B";
    let (power, staggered) = (carried(&[even]), carried(&[even, "mempool.start={stagger=1}"]));
    let (odd, odd_staggered) = (carried(&[]), carried(&["mempool.start={stagger=1}"]));
    println!("{power} {staggered} {odd} {odd_staggered}");
    assert!(staggered > 1.2 * power, "{staggered} and {power}");
    assert!((staggered / odd - 1.0).abs() < 0.1 && odd_staggered < 0.9 * odd, "{odd_staggered} and {odd}");
}

/// CEIO (SIGCOMM 2025): throughput to 2.9 times, p99.9 to 1/1.9. With as many descriptors as the LLC holds, what comes beyond them waits in
/// the NIC and is not lost; the LLC keeps its hits, which long rings lose, and with them, where DRAM is short, the rate.
#[test]
fn what_finds_no_descriptor_waits_in_the_nic_and_the_llc_keeps_its_hits() {
    let bursts = [
        "machine.dram.channels=1",
        "nic.rx_descriptors=128",
        "nic.tx_descriptors=128",
        "traffic.phases=[{time=\"60 us\", rate=3.0}, {time=\"120 us\", rate=0.3}]",
        "traffic.load=0.3",
        "function.kind=work",
        "function.work.packet_instructions=9000",
        "run.warmup=40000",
    ];
    let (lossy, elastic) = (document(&[&WIDE, &bursts]), document(&[&WIDE, &bursts, &["nic.elastic={}"]]));
    println!("{:?} {}\n{:?} {}", seen(&lossy), lossy["lost"], seen(&elastic), elastic["placing"]);
    assert!(number(&lossy, "/lost") > 200.0);
    assert!(number(&elastic, "/lost") == 0.0 && number(&elastic, "/placing/held_packets") > 200.0);
    assert!(seen(&elastic).written_in_place > 0.9 && seen(&elastic).sojourn_ns > seen(&lossy).sojourn_ns);
    let long = document(&[&WIDE, &bursts, &["nic.rx_descriptors=4096", "mempool.size=65536"]]);
    println!("{:?} {}", seen(&long), long["lost"]);
    // What it puts out of the LLC waits for the one channel, and packets for that in the NIC.
    assert!(seen(&long).written_in_place < 0.1 && seen(&long).sojourn_ns > seen(&elastic).sojourn_ns);
    assert!(number(&long, "/lost") > 20.0);
    assert!(seen(&long).mpps < seen(&elastic).mpps);
    // A memory too small loses what it has no room for.
    let small = document(&[&WIDE, &bursts, &["nic.elastic.memory=8 KiB"]]);
    assert!(number(&small, "/lost") > 0.0 && number(&small, "/lost") < number(&lossy, "/lost"));
}

/// nicmem (ASPLOS 2022): NFV with headers alone, throughput to +19 % and latency to -23 %. What crosses PCIe and memory no longer depends on
/// the packet's length; short packets gain nothing, and who reads payload loses.
#[test]
fn payload_that_stays_in_the_nic_crosses_neither_pcie_nor_memory() {
    let keeps = "nic.payload_memory={size=\"4 MiB\"}";
    let (host, kept) = (document(&[&WIDE]), document(&[&WIDE, &[keeps]]));
    println!("{:?} {}\n{:?} {} {}", seen(&host), host["pcie"], seen(&kept), kept["pcie"], kept["placing"]);
    assert!(number(&kept, "/placing/kept_packets") > 0.99 * number(&kept, "/packets"));
    assert!(number(&kept, "/pcie/to_host_gbps") < 0.2 * number(&host, "/pcie/to_host_gbps"));
    assert!(seen(&kept).sojourn_ns < seen(&host).sojourn_ns && seen(&kept).dram_written < 0.2);
    let short = |set: &[&str]| seen(&document(&[&WIDE, &[SHORT, "traffic.load=0.1"], set])).sojourn_ns;
    assert_eq!(short(&[]), short(&[keeps]), "a packet of 60 B has no payload apart");
    let reads = ["function.copy={}", "traffic.load=0.05", "run.packets=5000", "run.warmup=5000"];
    let copied = |set: &[&str]| seen(&document(&[&WIDE, &reads, set])).sojourn_ns;
    let (here, there) = (copied(&[]), copied(&[keeps]));
    println!("{here} {there}");
    assert!(there > 1.5 * here, "{there} and {here}");
    // What finds no room goes to the host whole.
    let little = document(&[&WIDE, &["nic.payload_memory={size=\"16 KiB\"}"]]);
    let share = number(&little, "/placing/kept_packets") / number(&little, "/packets");
    assert!((0.01..0.9).contains(&share), "{share}");
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let refused = |set: &[&str]| read(&[set]).map(|_| ()).unwrap_err().to_string();
    let said = refused(&["nic.rings=shared"]);
    assert!(said.contains("which lies in another core's ring"), "{said}");
    let said = refused(&["nic.driver=\"mlx5\"", "nic.deliveries=512"]);
    assert!(said.contains("nic.deliveries = given: allowed is with rings = \"bisected\""), "{said}");
    let said = refused(&["nic.driver=\"mlx5\"", "nic.rings=shared", "nic.rx_descriptors=128", "machine.cores=8"]);
    assert!(said.contains("nic.rings: shared: 8 queues keep up to 64 descriptors"), "{said}");
    let said = refused(&["nic.targets.header_lines=0"]);
    assert!(said.contains("nic.targets.header_lines = 0: allowed is 1 to 24"), "{said}");
    let said = refused(&["buffer.allocation=cells", "nic.drop_dead=true"]);
    assert!(
        said.contains(
            "nic.drop_dead: true with buffer: allowed is one of them: the NIC gives cells of a packet buffer back"
        ),
        "{said}"
    );
    let said = refused(&["mempool.start={near_slice=4}"]);
    assert!(said.contains("mempool.start.near_slice: all slices are equally far"), "{said}");
    let said = refused(&["mempool.start={stagger=2}"]);
    assert!(said.contains("mempool.start.stagger = 14 lines later at the most: allowed is 1 to 8 lines"), "{said}");
}
