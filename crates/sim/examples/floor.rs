//! What a simulated packet costs this host at least, whatever turns its references into time:
//! `cargo run --release -p wirespeed-sim --example floor [SCENARIO] [PATH=VALUE]...`
//!
//! Four passes over the same packets, one core, a packet a burst unless `PACKETS_A_BURST` says otherwise. The first makes
//! packets; the second takes them through the packet function with the null probe; the third through driver, function and
//! mempool with every reference recorded; the fourth looks these references and the NIC's lines up in tags of three levels, with
//! no time, queue, DRAM, directory or attribution. What the last one takes is below what any model of them all can take that
//! looks each line up once.

use std::time::Instant;

use functions::{Function, PacketFunction, Verdict};
use machine::cache::{CacheChain, CacheTrace, LevelSpec, Origin, Vectors, simulate_with};
use machine::nic::{Mempool, RX_RING, Received, RxQueue, ServerLayout, TX_RING, TxQueue};
use packet::Packet;
use probe::{Layout, Null, Placed, Script};
use sim::scenario::{SCENARIOS, find};
use sim::{Overrides, Scenario};
use units::{Addr, Clos, CoreId, LINE_BYTES, Line, PacketId, Ps};

const PACKETS: u64 = 400_000;
const CORE: CoreId = CoreId(0);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).peekable();
    let name = args.next_if(|a| !a.contains('=')).unwrap_or_else(|| SCENARIOS[0].name.into());
    let preset = find(SCENARIOS, &name).ok_or("no such scenario")?;
    let scenario =
        Scenario::read(preset.text, preset.name, &Overrides { set: args.collect(), ..Overrides::default() })?;
    let burst: usize = std::env::var("PACKETS_A_BURST").map_or(Ok(1), |n| n.parse())?;
    let loaded = sim::run::predict::load_one(&scenario)?;
    println!("{PACKETS} packets of {}, {burst} a burst", preset.name);
    let mut addresses = Vec::new();
    for depth in [Depth::Traffic, Depth::Function, Depth::Driver, Depth::Tags] {
        let start = Instant::now();
        let lines = pass(&scenario, &loaded, burst.max(1), depth, None)?;
        let ns = start.elapsed().as_nanos() as f64 / PACKETS as f64;
        println!(
            "{:<66} {ns:7.1} ns a packet, {:.2}M/s, {:.1} lines",
            depth.what(),
            1e3 / ns,
            lines as f64 / PACKETS as f64
        );
    }
    pass(&scenario, &loaded, burst.max(1), Depth::Tags, Some(&mut addresses))?;
    let trace = CacheTrace { addresses: &addresses, ..CacheTrace::default() };
    let levels = levels(&scenario)?;
    for vectors in Vectors::all() {
        let start = Instant::now();
        simulate_with(&levels, &trace, 0, vectors)?;
        let ns = start.elapsed().as_nanos() as f64 / PACKETS as f64;
        println!("{:<66} {ns:7.1} ns a packet", format!("the same lines alone, as loads from an array ({vectors:?})"));
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Depth {
    Traffic,
    Function,
    Driver,
    Tags,
}

impl Depth {
    fn what(self) -> &'static str {
        match self {
            Depth::Traffic => "packets are made",
            Depth::Function => "... and go through the function, null probe",
            Depth::Driver => "... and through driver and mempool, every reference recorded",
            Depth::Tags => "... and every line is looked up in L1, L2 and LLC, without time",
        }
    }
}

fn levels(scenario: &Scenario) -> Result<[LevelSpec; 3], machine::MachineError> {
    let m = scenario.machine.memory();
    let llc = m.llc.size.bytes() / u64::from(m.llc.ways) / LINE_BYTES;
    Ok([
        LevelSpec::new(m.l1.sets("machine.l1")?, m.l1.ways),
        LevelSpec::new(m.l2.sets("machine.l2")?, m.l2.ways),
        LevelSpec::new(llc, m.llc.ways),
    ])
}

/// Where the lines of a pass go: looked up, or kept for later.
struct LookUps<'a> {
    chain: CacheChain,
    kept: Option<&'a mut Vec<u64>>,
    lines: u64,
}

impl LookUps<'_> {
    fn take(&mut self, line: Line, how: How) {
        self.lines += 1;
        match &mut self.kept {
            Some(kept) => kept.push(line.0 * LINE_BYTES),
            None => match how {
                How::Load => self.chain.load(line, Origin::default()),
                How::Store => self.chain.store(line, Origin::default()),
                How::DmaWrite => self.chain.dma_write(line),
                How::DmaRead => self.chain.dma_read(line),
            },
        }
    }
}

/// One core, its rings and its pool.
struct Way {
    pool: Mempool,
    layout: ServerLayout,
    rx: RxQueue,
    tx: Vec<TxQueue>,
    /// Bytes that tell of what is sent.
    told_bytes: u64,
    script: Script,
    frames: Vec<Packet>,
    mbuf_of: Vec<u32>,
}

impl Way {
    fn new(scenario: &Scenario, function: &Function) -> Result<Way, Box<dyn std::error::Error>> {
        let nic = &scenario.nic;
        let mut pool = Mempool::new(&scenario.mempool, 1);
        let (mbufs, stride) = (scenario.mempool.size, scenario.mempool.stride());
        let layout = ServerLayout::new(1, (mbufs, stride), pool.ring_bytes(), nic, &function.regions(), |_, _| 4096)?;
        let rx = RxQueue::new(nic, 0, stride, CORE, &mut pool).ok_or("the pool is smaller than the ring")?;
        let tx = (0..nic.ports).map(|port| TxQueue::new(nic, port)).collect();
        let told_bytes = nic.driver.tx_completion.into();
        Ok(Way { pool, layout, rx, tx, told_bytes, script: Script::new(), frames: Vec::new(), mbuf_of: Vec::new() })
    }

    /// The NIC writes a packet.
    fn write(&mut self, packet: Packet, look_ups: Option<&mut LookUps>) -> Result<(), Box<dyn std::error::Error>> {
        let (descriptor, mbuf) = self.rx.take_descriptor().ok_or("no descriptor")?;
        if let Some(look_ups) = look_ups {
            let lines = of_bytes(self.layout.data(mbuf), packet.frame_bytes.into());
            lines.for_each(|line| look_ups.take(line, How::DmaWrite));
            look_ups.take(self.layout.address(RX_RING, self.rx.offset(descriptor), 0).line(), How::DmaWrite);
        }
        let visible = packet.arrival;
        self.rx.complete(Received { packet, mbuf, visible, ..Received::default() });
        Ok(())
    }

    /// The core takes a burst, and the NIC what leaves.
    fn serve(&mut self, function: &mut Function, now: Ps, burst: usize, mut look_ups: Option<&mut LookUps>) {
        let Way { pool, layout, rx, tx, told_bytes, script, frames, mbuf_of } = self;
        let (mut received, mut verdicts, mut freed) = (Vec::new(), Vec::new(), Vec::new());
        script.clear();
        rx.receive(now, burst, &mut received, script);
        for one in received {
            frames.push(one.packet);
            mbuf_of.push(one.mbuf);
        }
        function.process_burst(now, frames, script, &mut verdicts);
        let mut sent = Vec::with_capacity(burst);
        for ((packet, verdict), &mbuf) in frames.iter().zip(&verdicts).zip(mbuf_of.iter()) {
            match *verdict {
                Verdict::Forward { port } => {
                    let port = usize::from(port.0) % tx.len();
                    tx[port].reclaim(now, CORE, pool, layout.mbuf_stride(), &mut Vec::new(), script);
                    if tx[port].send(packet.id, packet.frame_bytes, mbuf, script) {
                        sent.push((port, mbuf, packet.frame_bytes));
                    }
                }
                Verdict::Drop(_) => freed.push(mbuf),
            }
        }
        if !freed.is_empty() {
            pool.put_bulk(CORE, &freed, script);
        }
        rx.refill(CORE, pool, None, script);
        rx.doorbell(None);
        if let Some(look_ups) = &mut look_ups {
            replay(script, layout, frames, mbuf_of, look_ups);
        }
        tx.iter_mut().for_each(TxQueue::rung);
        for (port, mbuf, bytes) in sent {
            let descriptor = tx[port].fetch();
            if let Some(look_ups) = &mut look_ups {
                look_ups.take(layout.address(TX_RING, descriptor, 0).line(), How::DmaRead);
                of_bytes(layout.data(mbuf), bytes.into()).for_each(|line| look_ups.take(line, How::DmaRead));
            }
            if let Some((region, offset)) = tx[port].read() {
                if let Some(look_ups) = &mut look_ups {
                    let written = of_bytes(layout.address(region, offset, 0), *told_bytes);
                    written.for_each(|line| look_ups.take(line, How::DmaWrite));
                }
                tx[port].told(now);
            }
        }
        mbuf_of.clear();
    }
}

/// Takes [`PACKETS`] packets as deep as `depth`; the lines that were looked up, which go to `kept` instead where it is given.
fn pass(
    scenario: &Scenario,
    loaded: &sim::Loaded,
    burst: usize,
    depth: Depth,
    kept: Option<&mut Vec<u64>>,
) -> Result<u64, Box<dyn std::error::Error>> {
    let load = scenario.traffic.offered(scenario.nic.rate);
    let mut source = loaded.blueprint.source(scenario.run.seed, &load)?;
    let mut function = loaded.function.clone();
    let mut way = Way::new(scenario, &function)?;
    let mut look_ups = LookUps { chain: CacheChain::new(&levels(scenario)?, 0, "machine")?, kept, lines: 0 };
    let (mut verdicts, mut spare): (Vec<Verdict>, Vec<Packet>) = Default::default();
    let mut taken = 0;
    while taken < PACKETS {
        let mut now = Ps::ZERO;
        while way.frames.len() + way.rx.waiting() < burst {
            let mut packet = spare.pop().unwrap_or_default();
            if !source.next(&mut packet) {
                return Err("the traffic ends too early".into());
            }
            packet.id = PacketId(taken);
            taken += 1;
            now = packet.arrival;
            if depth < Depth::Driver {
                way.frames.push(packet);
            } else {
                way.write(packet, (depth == Depth::Tags).then_some(&mut look_ups))?;
            }
        }
        if depth == Depth::Function {
            verdicts.clear();
            function.process_burst(now, &mut way.frames, &mut Null, &mut verdicts);
        } else if depth > Depth::Function {
            way.serve(&mut function, now, burst, (depth == Depth::Tags).then_some(&mut look_ups));
        }
        spare.append(&mut way.frames);
    }
    Ok(look_ups.lines)
}

#[derive(Clone, Copy)]
enum How {
    Load,
    Store,
    DmaWrite,
    DmaRead,
}

fn of_bytes(start: Addr, bytes: u64) -> impl Iterator<Item = Line> {
    (start.line().0..=Addr(start.0 + bytes.max(1) - 1).line().0).map(Line)
}

/// Looks up the lines of the references that were recorded.
fn replay(script: &Script, layout: &ServerLayout, frames: &[Packet], mbufs: &[u32], look_ups: &mut LookUps) {
    let nowhere = Placed { packet: PacketId(0), core: CORE, clos: Clos(0), mbuf: Addr(0), data: Addr(0), cells: &[] };
    let mut placed = nowhere;
    let mut at = 0;
    while let Some(step) = script.step(at) {
        let Some(r) = step.reference() else {
            let (act, next) = script.act(at);
            if let probe::Act::Begin(id) = act {
                let i = frames.iter().position(|frame| frame.id == id).unwrap_or(0);
                placed = Placed { packet: id, mbuf: layout.mbuf(mbufs[i]), data: layout.data(mbufs[i]), ..nowhere };
            }
            at = next;
            continue;
        };
        if let Some(addr) = layout.place_line(&r, &placed) {
            look_ups.take(addr.line(), if r.access.writes() { How::Store } else { How::Load });
        } else if let Some(addr) = layout.place_line(&probe::Ref { bytes: 1, ..r }, &placed) {
            let how = if r.access.writes() { How::Store } else { How::Load };
            of_bytes(addr, r.bytes.into()).for_each(|line| look_ups.take(line, how));
        }
        at += 1;
    }
}
