//! A server whose time somebody else turns: who changes ways, classes and traffic from outside while packets go on, as the made
//! machine of the daemon's tests does.
//!
//! It is the server of every run; nothing is warmed up or cut, and packets come without end.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use control::Allocation;
use engine::Seed;
use machine::memory::LevelCounters;
use units::{Cbm, Clos, LINE_BYTES, Ps};

use crate::load::{self, Loaded, Stock};
use crate::scenario::{Scenario, ScenarioError};
use crate::server::{Departure, DepartureObserver, Pause, Server};

/// Running totals of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerTotals {
    /// Simulated time.
    pub now: Ps,
    /// Packets that receiving cores took.
    pub received: u64,
    /// Packets lost, for want of anything.
    pub lost: u64,
    /// Device writes by line: of lines that a cache has, and of others.
    pub device_writes: LevelCounters,
    /// Bytes over PCIe: to the host, from the host.
    pub pcie_bytes: (u64, u64),
    /// Bytes that DRAM read and wrote.
    pub memory_bytes: u64,
    /// Lookups of packet cores in the LLC.
    pub llc: LevelCounters,
    /// Time in bursts of all packet cores.
    pub busy: Ps,
}

/// The server. A clone goes on from where this stands, apart from it.
#[derive(Clone)]
pub struct Stepped {
    server: Server,
    stock: Arc<Stock>,
    /// Packet cores, and then those of each neighbour.
    cores: Vec<Range<usize>>,
    /// All the time that was let pass.
    until: Ps,
}

/// Between two looks at the time.
const EVENTS: usize = 256;

struct Nobody;

impl DepartureObserver for Nobody {
    fn departure(&mut self, _: &Departure) {}
}

impl Stepped {
    /// The server of `scenario`, with nothing in its caches. Masks may have gaps.
    ///
    /// # Errors
    /// Input that cannot be read, a machine that cannot be built.
    pub fn new(scenario: &Scenario) -> Result<Stepped, ScenarioError> {
        let stock = Arc::new(Stock::new());
        let loaded = loaded(scenario, &stock)?;
        let source = source(scenario, &loaded)?;
        let mut server = Server::new(scenario, loaded.function, source, u64::MAX, Seed(scenario.run.seed))?;
        server.accept_gaps();
        let (mut cores, mut first) = (Vec::new(), 0);
        for count in iter::once(scenario.machine.cores).chain(scenario.neighbours.iter().map(|n| n.cores)) {
            cores.push(first..first + count as usize);
            first += count as usize;
        }
        Ok(Stepped { server, stock, cores, until: Ps::ZERO })
    }

    /// Programs: the packet cores together, and then each neighbour.
    pub fn programs(&self) -> usize {
        self.cores.len()
    }

    /// The traffic of `scenario` follows the packet that is on its way; nothing else of it counts.
    ///
    /// # Errors
    /// Traffic that cannot be.
    pub fn offer(&mut self, scenario: &Scenario) -> Result<(), ScenarioError> {
        let loaded = loaded(scenario, &self.stock)?;
        self.server.replace_source(source(scenario, &loaded)?);
        Ok(())
    }

    /// Puts a program into a class of service from its next request on.
    pub fn set_clos(&mut self, program: usize, clos: Clos) {
        for core in self.cores.get(program).cloned().unwrap_or_default() {
            self.server.set_clos(core, clos);
        }
    }

    /// Sets the ways that devices and classes may fill from now on: all, or nothing.
    ///
    /// # Errors
    /// Ways that the LLC has not; none for a class.
    pub fn set_ways(&mut self, io: Cbm, classes: &[(Clos, Cbm)]) -> Result<(), machine::MachineError> {
        self.server.set_ways(&Allocation { io_ways: Some(io), classes: classes.to_vec() })
    }

    /// Lets `by` of its time pass, to the first arrival after that; the next call takes so much less.
    pub fn advance(&mut self, by: Ps) {
        self.until += by;
        let at = self.until;
        let pause = Pause { offered: u64::MAX, at };
        while self.server.now() < at && self.server.advance(EVENTS, pause, &mut Nobody) {}
    }

    /// Bytes in the LLC that a class has brought in.
    pub fn class_bytes(&self, clos: Clos) -> u64 {
        self.server.memory().class(clos).lines * LINE_BYTES
    }

    /// Bytes that misses of a class have fetched.
    pub fn class_fetched(&self, clos: Clos) -> u64 {
        self.server.memory().class(clos).llc.misses * LINE_BYTES
    }

    /// Bytes in the LLC that devices have brought in.
    pub fn io_bytes(&self) -> u64 {
        self.server.memory().io_lines() * LINE_BYTES
    }

    /// What it has done so far.
    pub fn totals(&self) -> ServerTotals {
        let server = &self.server;
        let (cores, dram) = (server.cores(), server.memory().dram_counters());
        let counters = server.memory().counters();
        ServerTotals {
            now: server.now(),
            received: cores[..server.receiving_cores()].iter().map(|c| c.packets).sum(),
            lost: server.lost(),
            device_writes: counters.dma_write,
            pcie_bytes: server.pcie_bytes(),
            memory_bytes: (dram.reads + dram.writes) * LINE_BYTES,
            llc: counters.llc,
            busy: Ps(cores.iter().map(|c| c.busy.0).sum()),
        }
    }
}

fn loaded(scenario: &Scenario, stock: &Arc<Stock>) -> Result<Loaded, ScenarioError> {
    let mut all = load::load(std::slice::from_ref(scenario), stock, &mut |_| true)?;
    all.pop().ok_or(ScenarioError::Stopped { during: "loading".into() })
}

fn source(scenario: &Scenario, loaded: &Loaded) -> Result<traffic::Source, ScenarioError> {
    let offered = scenario.traffic.offered(scenario.nic.rate);
    let mut streams = Seed(scenario.run.seed).stream("traffic");
    Ok(loaded.blueprint.source(rand::Rng::next_u64(&mut streams), &offered)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Overrides;

    fn scenario(rate: &str) -> Scenario {
        let set = [
            "function.kind=forward",
            "machine.cores=1",
            "machine.llc.size=\"1408 KiB\"",
            "machine.llc.slices=1",
            "machine.l2.size=\"64 KiB\"",
            "mempool.size=4096",
            "mempool.cache=32",
            "nic.rx_descriptors=512",
            "traffic.flows.count=500",
            "traffic.sizes.fixed=1500",
            "neighbours=[{ working_set = \"8 MiB\", every = \"20 ns\" }]",
        ];
        let set = set.iter().map(|s| s.to_string()).chain([format!("traffic.packet_rate={rate:?}")]).collect();
        Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap()
    }

    #[test]
    fn lines_stay_those_of_the_class_that_brought_them_and_leave_as_others_fill() {
        let mut server = Stepped::new(&scenario("2 Mpps")).unwrap();
        let ms = Ps::from_ns(1_000_000);
        // A mask with a gap, as AMD's.
        server.set_ways(Cbm(0x600), &[(Clos(1), Cbm(0x003)), (Clos(7), Cbm(0x015)), (Clos(8), Cbm(0x1e0))]).unwrap();
        server.set_clos(1, Clos(7));
        server.advance(ms * 2);
        let before = server.class_bytes(Clos(7));
        assert!(before > 300 << 10 && before <= (3 * 128) << 10, "{before} of three ways of 128 KiB");
        server.set_clos(1, Clos(8));
        assert_eq!(server.class_bytes(Clos(7)), before, "nothing moves by itself");
        server.advance(ms / 20);
        let (left, new) = (server.class_bytes(Clos(7)), server.class_bytes(Clos(8)));
        assert!(left > before / 2 && new > 0, "{left} {new}");
        // Ways 2 and 4 are nobody's now: what lies there leaves only for an L2, and comes back under the new class.
        server.advance(ms * 2);
        let (left, new) = (server.class_bytes(Clos(7)), server.class_bytes(Clos(8)));
        assert!(new > 400 << 10 && new <= (4 * 128) << 10, "{new}");
        assert!(left < before / 2, "{left}");
        assert!(server.io_bytes() <= (2 * 128) << 10);
    }

    #[test]
    fn other_traffic_follows_at_its_own_rate() {
        let mut server = Stepped::new(&scenario("2 Mpps")).unwrap();
        let ms = Ps::from_ns(1_000_000);
        server.advance(ms);
        let first = server.totals();
        server.offer(&scenario("0.5 Mpps")).unwrap();
        server.advance(ms);
        let second = server.totals();
        let (one, two) = (first.received + first.lost, second.received + second.lost - first.received - first.lost);
        assert!((1900..=2100).contains(&one) && (430..=570).contains(&two), "{one} {two}");
        assert!(second.now.since(first.now) < ms * 2, "no pause between the two");
    }
}
