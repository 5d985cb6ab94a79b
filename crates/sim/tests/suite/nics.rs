//! What NICs, drivers and systems take, on whole runs.

use engine::Seed;
use functions::{Function, Program};
use sim::server::{Departure, DepartureObserver, Loss, PacketFate, Pause, Server};
use sim::{Overrides, Scenario};
use stats::Reason;
use traffic::Blueprint;
use units::{Line, Ps};

#[derive(Default)]
struct Ends {
    sent: u64,
    lost: Vec<Loss>,
    /// Of the first and of the last packet that was sent: when it left.
    first: Option<Ps>,
    last: Ps,
    sojourn: Ps,
    /// Of that, inside the NIC, and in PCIe.
    in_nic: u64,
    in_pcie: u64,
    /// And before PCIe.
    for_pcie: u64,
    /// Lines of packets that the NIC read.
    read: u64,
}

impl DepartureObserver for Ends {
    fn departure(&mut self, d: &Departure) {
        match d.fate {
            PacketFate::Sent(_) => {
                assert_eq!(d.attribution.total(), d.sojourn, "what its sojourn was spent on");
                assert!(d.attribution[Reason::Pcie] > 0);
                self.sent += 1;
                self.sojourn += d.sojourn;
                self.in_nic += d.attribution[Reason::Nic];
                self.in_pcie += d.attribution[Reason::Pcie];
                self.for_pcie += d.attribution[Reason::PcieQueue];
                self.first.get_or_insert(d.arrival + d.sojourn);
                self.last = self.last.max(d.arrival + d.sojourn);
            }
            PacketFate::Lost(loss) => self.lost.push(loss),
            PacketFate::Rejected(reason) => panic!("{reason:?}"),
        }
    }

    fn packet_lines(&mut self, _: Line, lines: u64, write: bool) {
        self.read += if write { 0 } else { lines };
    }
}

const L2: &str = "function.program.stages=[{name=\"io\", instructions=30, touches=[\"load mbuf 0\"]}]";

fn set_of(set: &[&str]) -> Scenario {
    let quick = ["function.kind=program", L2, "traffic.profile=min64", "machine.cores=1", "nic.ports=2"];
    let set = quick.iter().chain(set).map(|s| s.to_string()).collect();
    Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap()
}

/// Packets of 60 bytes through a program that does not look at them.
fn run(set: &[&str], packets: u64) -> (Ends, Server) {
    let scenario = set_of(set);
    let blueprint = Blueprint::new(&scenario.traffic.source(), None).unwrap();
    let source = blueprint.source(5, &scenario.traffic.offered(scenario.nic.rate)).unwrap();
    let program = Program::new(&scenario.function.program, std::iter::empty(), None, 2).unwrap();
    let mut server = Server::new(&scenario, Function::Program(program), source, packets, Seed(9)).unwrap();
    let mut ends = Ends::default();
    let pause = Pause { offered: u64::MAX, at: Ps::MAX };
    while server.advance(100_000, pause, &mut ends) {}
    assert_eq!(ends.sent + ends.lost.len() as u64, packets);
    (ends, server)
}

fn mpps(ends: &Ends) -> f64 {
    (ends.sent - 1) as f64 / (ends.last - ends.first.unwrap()).as_ns() * 1e3
}

#[test]
fn a_queue_and_a_nic_take_packets_at_their_rate_and_lose_what_finds_no_room() {
    let loaded = ["traffic.packet_rate=30 Mpps", "nic.fifo=4 KiB"];
    let rate = |more: &[&str]| {
        let (ends, _) = run(&[&loaded[..], more].concat(), 20_000);
        let full = ends.lost.iter().all(|loss| *loss == Loss::NicFifoFull);
        (mpps(&ends), full && !ends.lost.is_empty())
    };
    assert!(rate(&[]).0 > 29.0);
    // 60 bytes and a descriptor of 32, with 24 of framing, at 115.8 Gbps are 8.01 ns.
    let (queue, lost) = rate(&["nic.queue_interval=72 ns"]);
    assert!((queue / (1e3 / 80.01) - 1.0).abs() < 0.01 && lost, "{queue}");
    let (nic, lost) = rate(&["nic.packet_interval=50 ns"]);
    assert!((nic / 20.0 - 1.0).abs() < 0.01 && lost, "{nic}");
    let (two, lost) = rate(&["nic.queue_interval=72 ns", "nic.queues_per_core=2"]);
    assert!((two / queue - 2.0).abs() < 0.1 && lost, "{two}: two queues of a core take twice as much");
}

#[test]
fn a_nics_pipelines_are_in_every_packets_sojourn() {
    let slow = ["traffic.packet_rate=1 Mpps"];
    let mean = |more: &[&str]| {
        let (ends, _) = run(&[&slow[..], more].concat(), 2_000);
        let each = |time: u64| time as f64 / 1e3 / ends.sent as f64;
        (each(ends.sojourn.0), each(ends.in_nic), each(ends.in_pcie))
    };
    let (short, none, link) = mean(&[]);
    let (long, in_nic, same) = mean(&["nic.rx_pipeline=700 ns", "nic.tx_pipeline=300 ns"]);
    assert!((long - short - 1000.0).abs() < 25.0, "{long}: but for the polls that it meets");
    assert_eq!((none, in_nic), (0.0, 1000.0));
    assert!((same / link - 1.0).abs() < 0.01, "{same}: PCIe takes what it took, {link}");
}

#[test]
fn what_an_idle_link_takes_is_told_apart_from_the_wait_for_a_busy_one() {
    let each = |set: &[&str]| {
        let (ends, _) = run(&[&["nic.burst=1", "nic.pcie.rate=20 Gbps"], set].concat(), 2_000);
        [ends.in_pcie, ends.for_pcie].map(|time| time as f64 / 1e3 / ends.sent as f64)
    };
    let fixed = "traffic.arrivals=\"fixed\"";
    let [idle, none] = each(&["traffic.packet_rate=0.5 Mpps", fixed]);
    assert_eq!(none, 0.0, "each is alone on the link");
    // 60 bytes and a completion of 32 with 24 of framing are 46.4 ns at 20 Gbps, and one comes each 25 ns for 2 us in 8.
    let [busy, waits] = each(&["traffic.packet_rate=10 Mpps", "traffic.arrivals={on_off={on=\"2 us\", off=\"6 us\"}}"]);
    assert!((busy / idle - 1.0).abs() < 1e-9, "{busy}, {idle}: a packet takes the link as long");
    assert!(waits > 300.0, "{waits}: some forty come while the link is busy with those before");
    // A write that is alone has all credits.
    let [same, credits] = each(&["traffic.packet_rate=0.5 Mpps", fixed, "nic.pcie.credits=256 B"]);
    assert_eq!((same, credits), (idle, 0.0));
}

#[test]
fn packet_memory_holds_packets_and_not_what_else_the_link_carries() {
    // Half as much again as the link takes: the memory is full of packets of 60 bytes, and each waits for all before it. The link
    // takes some 120 bytes for each; packets to send are in their descriptors, so that nothing else is short.
    let wait = |memory: &str, more: &[&str]| {
        let link = ["nic.pcie.rate=7 Gbps", "nic.driver.tx_copied=64", "nic.rx_descriptors=8192"];
        let (ends, _) = run(&[&link[..], &["traffic.packet_rate=12 Mpps", memory], more].concat(), 30_000);
        let others = ends.lost.iter().find(|loss| **loss != Loss::NicFifoFull);
        assert!(others.is_none() && ends.lost.len() > 8_000, "{others:?} of {}", ends.lost.len());
        (ends.for_pcie as f64 / 1e3 / ends.sent as f64, 1e3 / mpps(&ends))
    };
    for (memory, bytes) in [("nic.fifo=12 KiB", 12288.0), ("nic.fifo=24 KiB", 24576.0)] {
        let (waited, each) = wait(memory, &[]);
        let full = bytes / 60.0 * each;
        assert!((waited / full - 1.0).abs() < 0.05, "{memory}: {waited} ns of {full}");
    }
    let (waited, each) = wait("nic.fifo=12 KiB", &["nic.driver.single_write_backs=true"]);
    assert!((waited / (12288.0 / 60.0 * each) - 1.0).abs() < 0.05, "headers of completions take link, and no room");
}

/// Bytes of the link that a packet of 60 bytes takes each way, by hand.
#[test]
fn a_packet_takes_of_each_way_what_it_is_and_what_is_asked_for() {
    let each = |set: &[&str]| {
        let quick =
            ["nic.ports=1", "nic.rx_descriptors=1024", "traffic.packet_rate=2 Mpps", "nic.driver.rx_descriptor=16"];
        let (ends, server) = run(&[&quick, set].concat(), 4_096);
        assert_eq!(ends.sent, 4_096, "{:?}", ends.lost);
        let of_each = |(to, from): (u64, u64)| [to as f64 / 4_096.0, from as f64 / 4_096.0];
        let doorbells = server.cores().iter().map(|core| core.doorbells).sum::<u64>() as f64 / 4_096.0;
        let nic = set_of(&[&quick, set].concat()).nic;
        (of_each(server.pcie_carried()), of_each(server.pcie_bytes()), doorbells, nic)
    };
    let (header, packet, line) = (24.0, 60.0 + 24.0, 64.0 + 24.0);
    // From the host come a line of four descriptors of the receive ring, those to send, in so many lines, the packet, and doorbells
    // of 8 bytes. To it go the packet, what tells of it and of 32 that were sent, and requests for all three.
    let check = |set: &[&str], told: f64, read: f64, asked: f64| {
        let ([up, down], [_, from], doorbells, nic) = each(set);
        // The last packet may still be on its way.
        let last = (packet + header) / 4_096.0;
        let rung = (8.0 + header) * doorbells;
        let sent_in = (down - line / 4.0 - 16.0 - read - rung) / header;
        assert!((0.25..=1.0).contains(&sent_in), "{set:?}: {sent_in} lines of descriptors to send");
        let of_sent = match nic.driver.tx_completion_every {
            0 => (f64::from(nic.driver.tx_completion) + header) * (doorbells - 1.0 / 32.0),
            every => (f64::from(nic.driver.tx_completion) + header) / f64::from(every),
        };
        let to_host = packet + told + of_sent + header * (0.25 + sent_in) + asked;
        assert!((up - to_host).abs() < last, "{set:?}: {up} to the host");
        assert!((from - (16.0 + 16.0 + read - asked + 8.0 * doorbells)).abs() < 1e-9, "{set:?}: {from} of payload");
        // What full bursts take: the same, with descriptors to send by the line and a doorbell a burst.
        let less = header * (sent_in - 0.25);
        let [full_up, full_down] = nic.link_bytes(60, 60, doorbells);
        if nic.driver.tx_completion_every > 0 {
            assert!((up - less - full_up).abs() < last, "{set:?}: {full_up} to the host");
        }
        assert!((down - less - full_down).abs() < 1e-9, "{set:?}: {full_down} from it");
        assert!(nic.doorbells() <= doorbells, "{set:?}: {} in whole bursts, {doorbells} here", nic.doorbells());
    };
    check(&[], line / 4.0, packet, header);
    check(&["nic.driver.single_write_backs=true"], 16.0 + header, packet, header);
    check(&["nic.driver.rx_completion=64"], line, packet, header);
    // Eight to a line.
    check(&["nic.driver.rx_completion=64", "nic.driver.compressed=true"], line / 8.0, packet, header);
    // It came with its descriptor, be it in blocks.
    check(&["nic.driver.tx_copied=64"], line / 4.0, 0.0, 0.0);
    check(&["nic.driver.tx_copied=64", "nic.output_block=4"], line / 4.0, 0.0, 0.0);
    check(&["nic.output_block=4"], line / 4.0, packet, header);
    // What was sent is told of by the line, or with each burst in a ring of its own.
    check(&["nic.driver.tx_completion_every=4", "nic.driver.tx_completion=64"], line / 4.0, packet, header);
    let by_burst = ["nic.driver.tx_completion_every=0", "nic.driver.tx_completion=64"];
    check(&[&by_burst[..], &["nic.driver.tx_completion_to=ring"]].concat(), line / 4.0, packet, header);
    let head = ["nic.driver.tx_completion_every=4", "nic.driver.tx_completion=4", "nic.driver.tx_completion_to=head"];
    check(&head, line / 4.0, packet, header);
    // A mbuf at a time is posted with one doorbell a burst.
    check(&["nic.driver.rx_bulk=1"], line / 4.0, packet, header);
}

/// Writes of what is told of sent packets, among those of packets, on a channel that is full.
#[test]
fn all_packets_leave_where_controllers_answer_for_what_is_sent_late() {
    let memory = ["machine.dram.controller={}", "machine.dram.standard=ddr4-2400u", "machine.dram.channels=1"];
    // More than a channel takes, so that writes wait for those before them.
    let full = ["machine.llc.io_ways=0", "traffic.sizes={fixed=\"1024 B\"}", "traffic.packet_rate=10 Mpps"];
    let dirty = [&full[..], &["nic.rx_descriptors=1024"]].concat();
    for every in ["nic.driver.tx_completion_every=1", "nic.driver.tx_completion_every=32"] {
        for more in [&[][..], &["nic.output_block=4"], &["nic.pcie.credits=4 KiB"]] {
            let (ends, _) = run(&[&memory[..], &dirty, &[every], more].concat(), 20_000);
            assert!(ends.sent > 5_000, "{every} {more:?}: {}", ends.sent);
        }
    }
}

#[test]
fn waits_for_a_nics_packet_rate_are_the_nics_either_way() {
    // In a burst one comes each 250 ns, so that its last ones wait for 50 ns of each before.
    let trains = ["traffic.packet_rate=2 Mpps", "traffic.arrivals={on_off={on=\"20 us\", off=\"20 us\"}}"];
    let each = |more: &[&str]| {
        let (ends, _) = run(&[&trains[..], more].concat(), 4_000);
        (ends.in_nic as f64 / 1e3 / ends.sent as f64, ends.in_pcie as f64 / 1e3 / ends.sent as f64)
    };
    let ((none, link), (paced, same)) = (each(&[]), each(&["nic.packet_interval=300 ns"]));
    assert_eq!(none, 0.0);
    assert!(paced > 200.0, "{paced}");
    assert!(same <= link * 1.01, "{same}: what waits in the NIC finds PCIe no busier than {link}");
}

#[test]
fn what_the_driver_copies_the_nic_does_not_read() {
    let lines = |more: &[&str]| run(&[&["traffic.packet_rate=1 Mpps"], more].concat(), 1_000).0.read;
    assert_eq!(lines(&[]), 1_000);
    assert_eq!(lines(&["nic.driver.tx_copied=18", "nic.driver.tx_descriptor=64"]), 1_000);
    assert_eq!(lines(&["nic.driver.tx_copied=64", "nic.driver.tx_descriptor=128"]), 0);
}

#[test]
fn a_stall_of_the_system_costs_what_comes_while_a_short_ring_is_full() {
    let lost = |ring: &str| {
        let stalls = "machine.core.stalls={every=\"200 us\", lengths=[\"20 us\"]}";
        let (ends, server) = run(&["traffic.packet_rate=10 Mpps", ring, stalls], 40_000);
        assert!(ends.lost.iter().all(|loss| *loss == Loss::NoRxDescriptor));
        assert_eq!(server.lost(), ends.lost.len() as u64);
        ends.lost.len()
    };
    // 200 packets come in a stall of 20 us, of which some 18 begin in 4 ms.
    let (short, long) = (lost("nic.rx_descriptors=128"), lost("nic.rx_descriptors=1024"));
    assert!((600..3_000).contains(&short), "{short}");
    assert_eq!(long, 0);
    // As measured on a testbed: 12.3 us at most.
    let stalls = "machine.core.stalls={every=\"200 us\", lengths=\"csit-zn2\"}";
    let (ends, _) = run(&["traffic.packet_rate=10 Mpps", "nic.rx_descriptors=1024", stalls], 40_000);
    let (quiet, _) = run(&["traffic.packet_rate=10 Mpps", "nic.rx_descriptors=1024"], 40_000);
    assert!(ends.lost.is_empty() && ends.sojourn > quiet.sojourn, "{:?} and {:?}", ends.sojourn, quiet.sojourn);
}

#[test]
fn a_packet_takes_the_instructions_that_were_counted_of_the_real_program() {
    // More than the core takes, for so long that transmit rings, from which nothing goes back at first, matter little.
    let each = |set: &[&str]| {
        let (ends, server) = run(set, 100_000);
        assert!(!ends.lost.is_empty(), "bursts are full");
        let core = server.cores()[0];
        core.instructions as f64 / core.packets as f64
    };
    let own = each(&["traffic.load=1"]);
    let given = each(&["traffic.packet_rate=12 Mpps", "function.program.instructions=731"]);
    assert!((95.0..110.0).contains(&own), "{own}");
    assert!((given / 731.0 - 1.0).abs() < 0.02, "{given}");
}

#[test]
fn a_packet_and_a_burst_stall_a_core_for_what_they_say() {
    let busy = |more: &[&str]| {
        let (_, server) = run(&[&["traffic.packet_rate=100 kpps"], more].concat(), 2_000);
        let core = server.cores()[0];
        assert_eq!(core.bursts, core.packets, "one packet a burst");
        let stalled = Ps(core.spent[Reason::Stall]).as_ns() / core.bursts as f64;
        let told: f64 = if more.len() == 1 { 0.0 } else { 230.0 };
        assert!((stalled - told).abs() < 0.5, "charged to a reason of their own: {stalled}");
        core.busy.as_ns() / core.bursts as f64
    };
    let longer = busy(&["machine.core.packet_stall=30 ns", "machine.core.burst_stall=200 ns"])
        - busy(&["machine.core.packet_stall=0 ns"]);
    assert!((longer - 230.0).abs() < 1.0, "{longer}");
}

#[test]
fn what_is_sent_by_flow_rings_a_doorbell_a_run_and_stores_wait_behind_it() {
    // 1,600 instructions of a quarter of a nanosecond, of which a quarter store: 200 go on behind a doorbell.
    let core = ["machine.core.frequency=2 GHz", "machine.core.cpi=0.5", "machine.core.store_share=0.25"];
    let load = ["machine.core.store_buffer=50", "traffic.packet_rate=5 Mpps", "function.program.instructions=1600"];
    let each = |more: &[&str]| {
        let (ends, server) = run(&[&core[..], &load, more].concat(), 20_000);
        assert!(!ends.lost.is_empty(), "bursts are full");
        let core = server.cores()[0];
        (core.busy.as_ns() / core.packets as f64, core.doorbells as f64 / core.packets as f64)
    };
    let interval = "nic.doorbell_interval=200 ns";
    let (together, few) = each(&[]);
    let (one_by_one, many) = each(&["function.program.by_flow=true"]);
    assert!(few < 0.12 && (0.98..1.05).contains(&many), "{few} and {many} doorbells a packet");
    assert!((one_by_one - together).abs() < 2.0, "{one_by_one} ns without a time of their own, {together} together");
    let waits = each(&["function.program.by_flow=true", interval]).0 - one_by_one;
    assert!((145.0..160.0).contains(&waits), "{waits} ns: a doorbell's 200 ns less 50 ns until the buffer is full");
    let few_wait = each(&[interval]).0 - together;
    assert!(few_wait < 15.0, "{few_wait} ns of a packet of a whole burst");
}
