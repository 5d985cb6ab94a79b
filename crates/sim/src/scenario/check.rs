//! What no single component can check, and each component: all that is wrong with a scenario.

use std::collections::BTreeMap;

use machine::buffer::PacketBuffer;
use machine::memory::MAX_CORES;
use machine::nic::{PacketStart, RxRings};
use units::LINE_BYTES;

use super::clos::{CLASSES, number};
use super::error::{ScenarioError, ScenarioFaults};
use super::functions::FunctionKind;
use super::spec::{LifeSpec, RunSpec, SamplingSpec, Scenario};

/// The longest frame with preamble and gap.
const MOST_FRAME_BYTES: u32 = 1538;

impl Scenario {
    /// Checks what no single component can, and each component: all that is wrong.
    pub(super) fn check(&self, origin: &str) -> Vec<ScenarioError> {
        let mut found = ScenarioFaults { origin, errors: Vec::new() };
        self.check_pairs(&mut found);
        self.check_traffic(&mut found);
        // Before what hangs on it: a pool for so many cores would be blamed.
        let cores = self.machine.cores;
        let cores_fit = (1..=MAX_CORES).contains(&cores);
        if !cores_fit {
            let allowed = format!("{cores}: allowed are 1 to {MAX_CORES} (simulated cores, not those of this host)");
            found.add("machine.cores", allowed);
        }
        self.run.check(&mut found);
        self.check_function(&mut found);
        self.check_machine(&mut found);
        self.check_gpu(&mut found);
        if cores_fit {
            self.check_server(&mut found);
        }
        found.errors
    }

    fn check_traffic(&self, found: &mut ScenarioFaults) {
        let t = &self.traffic;
        if let Some(load) = t.load
            && !(load > 0.0 && load <= 1.0)
        {
            found.add("traffic.load", format!("{load}: allowed is a share of line rate, above 0 up to 1"));
        }
        if let Some(speed) = t.speed {
            if t.capture.is_none() {
                let message = "only a capture has timestamps (set traffic.capture, or give load or rate)";
                found.add("traffic.speed", message.into());
            }
            if !(speed > 0.0 && speed <= 1e9) {
                found.add("traffic.speed", format!("{speed}: allowed is above 0 up to 1e9"));
            }
        }
        self.check_span(found);
    }

    /// That the last packet comes before simulated time ends.
    fn check_span(&self, found: &mut ScenarioFaults) {
        let t = &self.traffic;
        let bits = f64::from(MOST_FRAME_BYTES) * 8.0;
        let line = self.nic.rate.gbps() * 1e9;
        let (path, per_second) = match (t.load, t.rate, t.packet_rate) {
            (Some(load), ..) => ("traffic.load", load * line / bits),
            (_, Some(rate), _) => ("traffic.rate", rate.gbps() * 1e9 / bits),
            (.., Some(rate)) => ("traffic.packet_rate", rate.mpps() * 1e6),
            _ => return,
        };
        if let Some(message) = self.run.outlasts_time(per_second) {
            found.add(path, message);
        }
    }

    fn check_function(&self, found: &mut ScenarioFaults) {
        let f = &self.function.forward;
        if !(1..=4_000_000).contains(&f.prefixes) {
            found.add("function.forward.prefixes", format!("{}: allowed are 1 to 4000000", f.prefixes));
        }
        if !(1..=1_000_000).contains(&f.next_hops) {
            found.add("function.forward.next_hops", format!("{}: allowed are 1 to 1000000", f.next_hops));
        }
        if let Err((path, message)) = self.function.check_applications() {
            found.add(path, message);
        }
        let (copy, socket) = (&self.function.copy, &self.function.socket);
        for (path, checked) in [
            ("function.copy", copy.as_ref().map(|copy| copy.check("function.copy"))),
            ("function.socket", socket.as_ref().map(|socket| socket.check("function.socket"))),
        ] {
            if let Some(Err(e)) = checked {
                let (path, message) = match e {
                    functions::FunctionError::Value { path, came, allowed } => (path, format!("{came}: {allowed}")),
                    other => (path.into(), other.to_string()),
                };
                found.add(path, message);
            }
        }
        if self.function.has(FunctionKind::Program)
            && let Err(functions::FunctionError::Value { path, came, allowed }) =
                self.function.program.check("function.program")
        {
            found.add(path, format!("{came}: {allowed}"));
        }
        if self.function.kind != FunctionKind::Program
            && self.function.has(FunctionKind::Program)
            && self.function.program.instructions.is_some()
        {
            let message =
                "goes with function.kind = \"program\" alone (remove it, or give the stages their instructions)";
            found.add("function.program.instructions", message.into());
        }
        if self.function.kind == FunctionKind::Upf {
            let u = &self.function.upf;
            found.take(u.load.check("load").map_err(ScenarioError::UserPlane));
            if !(0.0..=1.0).contains(&u.uplink) {
                found.add("function.upf.uplink", format!("{}: allowed is a share of 0 to 1", u.uplink));
            }
        }
    }

    fn check_machine(&self, found: &mut ScenarioFaults) {
        let m = &self.machine;
        found.take(m.memory().check_times("machine"));
        found.take(m.core.check("machine.core"));
        found.take(m.dram.energy("machine.dram"));
        if let Some(prefetcher) = &m.stream_prefetcher {
            found.take(prefetcher.check("machine.stream_prefetcher"));
        }
        if let Some(sockets) = &m.sockets {
            found.take(sockets.check("machine.sockets"));
        }
        if let Some(iommu) = &m.iommu {
            found.take(iommu.check("machine.iommu"));
        }
    }

    fn check_server(&self, found: &mut ScenarioFaults) {
        found.take(self.nic.check("nic"));
        let queues = self.receiving_cores().saturating_mul(self.nic.queues_per_core);
        if queues > MOST_QUEUES {
            let message = format!(
                "{}: {queues} queues in all, allowed are {MOST_QUEUES} (RSS has so many entries; lower it, or take fewer cores)",
                self.nic.queues_per_core
            );
            found.add("nic.queues_per_core", message);
        }
        let (held, descriptors) = (queues.saturating_mul(self.nic.driver.rx_bulk), self.nic.rx_descriptors);
        if self.nic.rings == RxRings::Shared && held > descriptors {
            let message = format!(
                "shared: {queues} queues keep up to {} descriptors each that they have not posted yet, allowed are fewer than {descriptors} \
                 in all (nic.rx_descriptors = {held}, or fewer cores)",
                self.nic.driver.rx_bulk
            );
            found.add("nic.rings", message);
        }
        let credits = self.nic.elastic.as_ref().and_then(|elastic| elastic.credits.as_ref());
        if credits.is_some_and(|credits| credits.total.is_none()) && self.flow_credits() == Some(0) {
            let message = "left out, and the LLC's I/O ways hold no full frame: allowed are 1 to 16777216 (give how many packets the host is \
                 to hold, or machine.llc.io_ways)";
            found.add("nic.elastic.credits.total", message.into());
        }
        if let Some(pipeline) = &self.pipeline {
            found.take(pipeline.check("pipeline", self.machine.cores));
        }
        if let Some(policy) = &self.policy
            && let Err((field, message)) = policy.check(self.machine.llc.ways)
        {
            found.add(format!("policy.{field}"), message);
        }
        for (i, neighbour) in self.neighbours.iter().enumerate() {
            if let Err((field, message)) = neighbour.check() {
                found.add(format!("neighbours[{i}].{field}"), message);
            }
            if neighbour.routes.is_some() && !self.function.has_dir24() {
                let message = "this function has no routes in DIR-24-8: allowed with function.kind = \"forward\", or \"lookup\" with \
                     function.lookup.structure = \"dir24\", alone or in a chain";
                found.add(format!("neighbours[{i}].routes"), message.into());
            }
        }
        if let Err((path, message)) = check_classes(self) {
            found.add(path, message);
        }
        let ways = self.machine.llc.ways;
        if (1..=32).contains(&ways) {
            for (key, class) in &self.machine.clos {
                found.take(class.ways.lowest(&format!("machine.clos.{key}.ways"), ways));
            }
            for (name, application) in &self.machine.applications {
                let path = format!("machine.applications.{name}.ways");
                found.take(application.ways.map_or(Ok(()), |own| own.lowest(&path, ways).map(drop)));
            }
        }
        found.take(self.mempool.check("mempool", &self.holders()));
        self.check_start(found);
        if let Some(buffer) = &self.buffer {
            if buffer.cell.bytes() < LINE_BYTES {
                let allowed = "allowed are 64 B or more (a server's memory works in lines)";
                found.add("buffer.cell", format!("{}: {allowed}", buffer.cell));
            } else {
                found.take(PacketBuffer::new(buffer, "buffer", |_| 0));
            }
        }
    }
}

impl Scenario {
    /// What stands against `mempool.start`.
    fn check_start(&self, found: &mut ScenarioFaults) {
        let Some(start) = self.mempool.start else { return };
        if let PacketStart::NearSlice(_) = start {
            let path = "mempool.start.near_slice";
            if self.machine.llc.interconnect.is_none() {
                let message = "all slices are equally far from a core (give machine.llc.interconnect)";
                found.add(path, message.into());
            }
        }
    }
}

/// Entries of the table that RSS spreads packets by.
const MOST_QUEUES: u32 = machine::nic::Toeplitz::ENTRIES as u32;

/// Of a run, or of its warm-up.
const MOST_PACKETS: u64 = 1_000_000_000_000;
/// Packets of a run, at least.
pub(crate) const LEAST_PACKETS: u64 = 1_000;

impl RunSpec {
    fn check(&self, found: &mut ScenarioFaults) {
        if !(LEAST_PACKETS..=MOST_PACKETS).contains(&self.packets) {
            found.add("run.packets", format!("{}: allowed are {LEAST_PACKETS} to 1e12", self.packets));
        }
        if let Some(n) = self.warmup.filter(|n| *n > MOST_PACKETS) {
            found.add("run.warmup", format!("{n}: allowed are 0 to 1e12"));
        }
        if let Some(trace) = &self.trace {
            trace.check(self, found);
        }
        if let Some(sampling) = &self.sampling {
            sampling.check(self.packets, found);
        }
        for (i, x) in self.curve.iter().enumerate().filter(|(_, x)| !(**x > 0.0 && **x <= 1.0)) {
            found.add(format!("run.curve[{i}]"), format!("{x}: allowed is a share of line rate, above 0 up to 1"));
        }
        if self.curve.len() > 1000 {
            found.add("run.curve", format!("{} points: allowed are up to 1000", self.curve.len()));
        }
        for (path, n) in [("run.curve_packets", Some(self.curve_packets)), ("run.search_packets", self.search_packets)]
        {
            if let Some(n) = n.filter(|n| !(1_000..=1_000_000_000).contains(n)) {
                found.add(path, format!("{n}: allowed are 1000 to 1e9"));
            }
        }
        if !(self.search_resolution >= 1e-5 && self.search_resolution <= 0.5) {
            found.add("run.search_resolution", format!("{}: allowed are 1e-5 to 0.5", self.search_resolution));
        }
        if !(self.loss_limit >= 0.0 && self.loss_limit < 1.0) {
            found.add("run.loss_limit", format!("{}: allowed is a share of 0 to less than 1", self.loss_limit));
        }
    }
}

impl LifeSpec {
    fn check(&self, run: &RunSpec, found: &mut ScenarioFaults) {
        let most = LifeSpec::MOST;
        let both = [("slowest", self.slowest, most), ("losses", self.losses, LifeSpec::MOST_LOSSES)];
        for (path, n, most) in both.map(|(name, n, most)| (format!("run.trace.{name}"), n, most)) {
            if n > most {
                found.add(
                    path,
                    format!("{n}: allowed are up to {most} (each packet that is kept takes some kilobytes)"),
                );
            }
        }
        let least = run.packets.div_ceil(u64::from(most)).max(1);
        if let Some(every) = self.every.filter(|every| *every < least) {
            let message =
                format!("{every}: allowed are {least} or more, as {most} of {} packets can be kept", run.packets);
            found.add("run.trace.every", message);
        }
        if self.slowest == 0 && self.losses == 0 && self.every.is_none() {
            found.add("run.trace", "no packet is asked for: give slowest, losses or every".into());
        }
    }
}

impl SamplingSpec {
    /// Whether a run of `packets` packets has room for the windows.
    fn check(&self, packets: u64, found: &mut ScenarioFaults) {
        let (least, length) = (u64::from(SamplingSpec::LEAST), self.length());
        if self.packets == 0 {
            found.add("run.sampling.packets", "0: allowed are 1 or more".into());
        }
        if !(self.error > 0.0 && self.error <= 1.0) {
            found.add("run.sampling.error", format!("{}: allowed is a share above 0 up to 1", self.error));
        }
        let windows = u64::from(self.windows);
        if windows < least {
            found.add(
                "run.sampling.windows",
                format!("{windows}: allowed are {least} or more (half-widths come from them)"),
            );
        } else if windows.saturating_mul(length) > packets {
            let room = packets / length.max(1);
            let wanted = least.saturating_mul(length);
            let remedy = match room < least {
                true if wanted > MOST_PACKETS => "lower run.sampling.packets and warmup".into(),
                true => format!("raise run.packets to {wanted} or more, or lower run.sampling.packets and warmup"),
                false => "lower windows, packets or warmup, or raise run.packets".into(),
            };
            let message = format!(
                "{windows} windows of {} + {} packets are {}, and run.packets is {packets}: allowed are up to {room} ({remedy})",
                self.warmup,
                self.packets,
                windows.saturating_mul(length),
            );
            found.add("run.sampling.windows", message);
        }
    }
}

/// Checks `machine.clos` of a scenario; what is wrong begins with its path.
fn check_classes(scenario: &Scenario) -> Result<(), (String, String)> {
    let classes = &scenario.machine.clos;
    let mut of_core = BTreeMap::new();
    let mut of_neighbour = BTreeMap::new();
    for (key, class) in classes {
        let path = format!("machine.clos.{key}");
        if number(key).is_none() {
            return Err((path, format!("allowed are classes 0 to {}", CLASSES - 1)));
        }
        if let Some(rate) = class.bandwidth.filter(|rate| !(0.512..=5120.0).contains(&rate.gbps())) {
            return Err((format!("{path}.bandwidth"), format!("{rate}: allowed are 64 MB/s to 640 GB/s of a core")));
        }
        for &core in &class.cores {
            if core >= scenario.machine.cores {
                let allowed = format!("{core}: allowed are cores 0 to {} (machine.cores)", scenario.machine.cores - 1);
                return Err((format!("{path}.cores"), allowed));
            }
            if let Some(other) = of_core.insert(core, key) {
                return Err((
                    format!("{path}.cores"),
                    format!("core {core} is in class {other}, too: allowed is one class"),
                ));
            }
        }
        for name in &class.neighbours {
            if !scenario.neighbours.iter().any(|n| n.name == *name) {
                let names: Vec<&str> = scenario.neighbours.iter().map(|n| n.name.as_str()).collect();
                let allowed =
                    if names.is_empty() { "none, as there are no neighbours".into() } else { names.join(", ") };
                return Err((format!("{path}.neighbours"), format!("{name:?}: allowed are {allowed}")));
            }
            if let Some(other) = of_neighbour.insert(name, key) {
                let message = format!("{name:?} is in class {other}, too: allowed is one class");
                return Err((format!("{path}.neighbours"), message));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Overrides;

    fn read(set: &[&str]) -> Result<Scenario, String> {
        let set = set.iter().map(|s| s.to_string()).collect();
        Scenario::read("", "t", &Overrides { set, ..Overrides::default() }).map_err(|e| e.to_string())
    }

    #[test]
    fn classes_that_cannot_be_are_refused() {
        let tenant = "neighbours=[{name=\"tenant\", working_set=\"8 MiB\"}]";
        read(&[tenant, "machine.cores=4", "machine.clos.2={ways=\"0b11\", cores=[2, 3], neighbours=[\"tenant\"]}"])
            .unwrap();
        for (set, expected) in [
            (&["machine.clos.16.ways=1"][..], "machine.clos.16: allowed are classes 0 to 15"),
            (&["machine.clos.01.ways=1"], "machine.clos.01: allowed are classes 0 to 15"),
            (&["machine.clos.x.ways=1"], "machine.clos.x: allowed are classes 0 to 15"),
            (
                &["machine.clos.2={ways=1, bandwidth=\"1 MB/s\"}"],
                "machine.clos.2.bandwidth: 8 Mbps: allowed are 64 MB/s to 640 GB/s of a core",
            ),
            (&["machine.clos.2={ways=1, cores=[99]}"], "machine.clos.2.cores: 99: allowed are cores 0 to "),
            (
                &["machine.clos={2={ways=1, cores=[0]}, 3={ways=2, cores=[0]}}"],
                "machine.clos.3.cores: core 0 is in class 2, too: allowed is one class",
            ),
            (
                &["machine.clos.2={ways=1, neighbours=[\"x\"]}"],
                "machine.clos.2.neighbours: \"x\": allowed are none, as there are no neighbours",
            ),
            (&["machine.clos.1.ways=1", "policy={}"], "machine.clos: given with policy: allowed is one of them"),
            (
                &["machine.clos.0.ways=1", "machine.llc.core_ways=3"],
                "machine.clos.0: given with machine.llc.core_ways: allowed is one of them: both are the ways of class 0",
            ),
        ] {
            let error = read(set).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
