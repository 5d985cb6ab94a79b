//! Which DRAM rows the packets of a scenario's server touch: the same run with packets in mbufs and in a buffer of each
//! allocation.
//!
//! References are the NIC's, line by line in the order in which it makes them: it writes each packet (input) and reads it
//! to send it (output). Where a line lies is what the scenario's DRAM says, its channels, banks and rows, and with a
//! controller its map. Left out: references of cores, which find what the NIC has just written in caches; that caches
//! answer most of the NIC's, too, is told by the lines that DRAM moves for a packet and by how many of all its lines
//! found their row open. Of several sockets, lines are taken to lie as in one.

use std::collections::HashMap;

use engine::Seed;
use machine::MachineError;
use machine::buffer::{BufferAllocation, BufferSpec, RowSeries, RowWindow};
use machine::dram::map::Decoder;
use machine::dram::{DramPart, DramSpec};
use serde_json::{Value, json};
use units::{LINE_BYTES, Line, Ps, Size};

use crate::load::Loaded;
use crate::run::steer::{Steer, advance};
use crate::scenario::{Scenario, ScenarioError};
use crate::server::{Departure, DepartureObserver, PacketFate, Pause, Server};

/// References of the heat map, and its columns and bands.
const SHOWN: usize = 24_000;
const COLUMNS: usize = 120;
const BANDS: usize = 96;
/// Before what is counted, the pool is used once, but for no more than this many times the packets.
const MOST_FOR_THE_POOL: u64 = 4;

/// Rows touched in windows of `window` references by `packets` packets of `scenario`. `go_on` is asked now and then;
/// [`None`] if it says no.
///
/// # Errors
/// A window or machine that cannot be, a rate that traffic cannot have, no packets.
pub fn rows(
    scenario: &Scenario,
    loaded: &Loaded,
    window: usize,
    packets: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Value>, ScenarioError> {
    if packets == 0 {
        let (origin, path, message) = ("rows".into(), "packets".into(), "0: allowed is 1 or more".into());
        return Err(ScenarioError::Value { origin, path, message });
    }
    let places = Places::new(&scenario.machine.dram)?;
    let base =
        scenario.buffer.clone().unwrap_or_else(|| as_large_as_the_pool(scenario, loaded.blueprint.longest_frame()));
    let own = scenario.buffer.as_ref().map(|buffer| buffer.allocation);
    let mut found = Vec::new();
    let mut notes = Vec::new();
    for allocation in std::iter::once(None).chain(BufferAllocation::ALL.map(Some)) {
        let mut changed = scenario.clone();
        changed.buffer = allocation.map(|allocation| of(&base, allocation, own));
        let name = allocation.map_or("mbufs", BufferAllocation::name);
        let measured = measure(&changed, loaded, &places, window, packets, go_on);
        let mut row = match measured {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(None),
            // What the scenario does not ask for may not fit its sizes.
            Err(ScenarioError::Machine(refused)) if allocation != own => {
                notes.push(format!("{name}: {refused}"));
                continue;
            }
            Err(error) => return Err(error),
        };
        row["allocation"] = json!(name);
        row["own"] = json!(allocation == own);
        found.push(row);
    }
    Ok(Some(json!({
        "schema": "wirespeed.rows/1",
        "of": "server",
        "traffic": scenario.name,
        "note": format!("{} channels, packets of {}", scenario.machine.dram.channels, source(scenario)),
        "notes": notes,
        "window": window,
        "row_bytes": places.row_bytes,
        "channels": scenario.machine.dram.channels,
        "buffer_bytes": base.size.bytes(),
        "packets": packets,
        "allocations": found,
    })))
}

fn source(scenario: &Scenario) -> String {
    match (&scenario.traffic.capture, &scenario.traffic.profile) {
        (Some(capture), _) => crate::scenario::files::file_name(capture),
        (None, Some(profile)) => format!("profile {profile}"),
        (None, None) => "profile isp".into(),
    }
}

/// A packet buffer of as many pages as the pool has mbufs, for frames of up to `longest` bytes.
fn as_large_as_the_pool(scenario: &Scenario, longest: u32) -> BufferSpec {
    let usual = BufferSpec::default();
    let longest = u64::from(longest).max(usual.longest.bytes());
    let page = longest.next_power_of_two();
    BufferSpec {
        size: Size::from_bytes(u64::from(scenario.mempool.size) * page),
        longest: Size::from_bytes(longest),
        ..usual
    }
}

/// `base` with another allocation than the scenario's own, which has pages that hold a packet, and begins in random order
/// where packets take what is free, as after a long time.
fn of(base: &BufferSpec, allocation: BufferAllocation, own: Option<BufferAllocation>) -> BufferSpec {
    let mut spec = BufferSpec { allocation, ..base.clone() };
    if own == Some(allocation) {
        return spec;
    }
    spec.shuffled = matches!(allocation, BufferAllocation::Fixed | BufferAllocation::Cells);
    let page = spec.page.map_or(allocation.usual_page(), Size::bytes);
    if page < spec.longest.bytes() && matches!(allocation, BufferAllocation::Fixed | BufferAllocation::Piecewise) {
        spec.page = Some(Size::from_bytes(spec.longest.bytes().next_power_of_two()));
    }
    spec
}

fn measure(
    scenario: &Scenario,
    loaded: &Loaded,
    places: &Places,
    window: usize,
    packets: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Value>, ScenarioError> {
    let seed = Seed(scenario.run.seed);
    let load = scenario.traffic.offered(scenario.nic.rate);
    let mut source = loaded.blueprint.source(rand::Rng::next_u64(&mut seed.stream("traffic")), &load)?;
    source.rotate(scenario.run.seed);
    let mut server = Server::new(scenario, loaded.function.clone(), source, u64::MAX, seed)?;
    let mut steer = Steer::new(scenario, seed)?;
    let mbufs = u64::from(scenario.mempool.size);
    let mut first = (packets / 10).max(mbufs.min(packets.saturating_mul(MOST_FOR_THE_POOL)));
    if let Some(all) = loaded.blueprint.packets().filter(|all| *all < first.saturating_add(packets)) {
        // A source that ends keeps nine tenths of its packets to be counted.
        first = first.min(all / 10);
    }
    let windows = || -> Result<_, MachineError> {
        Ok([RowWindow::new(window)?, RowWindow::new(window)?, RowWindow::new(window)?])
    };
    let mut seen = SeenRows {
        places,
        windows: windows()?,
        ids: HashMap::new(),
        shown: Vec::new(),
        counts: false,
        sent: 0,
        lost: 0,
        rejected: 0,
    };
    let mut goes = true;
    while goes && server.offered() < first {
        goes = advance(&mut server, Pause { offered: first, at: Ps::MAX }, &mut seen, &mut steer);
        if !go_on() {
            return Ok(None);
        }
    }
    seen.counts = true;
    let (buffer, dram) = (server.buffer(), server.memory().dram_counters());
    server.offer_in_all(server.offered() + packets);
    while goes {
        goes = advance(&mut server, Pause { offered: u64::MAX, at: Ps::MAX }, &mut seen, &mut steer);
        if !go_on() {
            return Ok(None);
        }
    }
    let dram = server.memory().dram_counters() - dram;
    let buffer = server.buffer().zip(buffer).map(|(to, from)| to - from);
    let opened = dram.row_hits + dram.row_misses + dram.row_conflicts;
    let [input, output, both] = seen.windows.each_ref().map(RowWindow::mean);
    let (heat, shown) = seen.heat();
    Ok(Some(json!({
        "rows_input": input,
        "rows_output": output,
        "rows_both": both,
        "row_hit_rate": (opened > 0).then(|| dram.row_hits as f64 / opened as f64),
        "dram_lines_per_packet": (dram.reads + dram.writes) as f64 / (seen.sent + seen.lost + seen.rejected).max(1) as f64,
        "fragmentation": buffer.map(|b| b.fragmentation()),
        "stalls": buffer.map(|b| b.stalls),
        "sent": seen.sent,
        "lost": seen.lost,
        "rejected": seen.rejected,
        "heat": {
            "references_per_column": heat.references_per_column(),
            "rows_per_band": heat.rows_per_band(),
            "rows": shown,
            "cells": heat.cells().map(|(column, band, n)| json!([column, band, n])).collect::<Vec<_>>(),
        },
    })))
}

/// Where lines lie in a scenario's DRAM.
struct Places {
    row_bytes: u64,
    channels: u64,
    of: Of,
}

enum Of {
    /// Lines go round robin over channels; a row of a bank is filled before the next bank's begins.
    Banks,
    /// By a controller's map, within a channel or over all.
    Map { decoder: Box<Decoder>, round_robin: bool },
}

impl Places {
    fn new(dram: &DramSpec) -> Result<Places, MachineError> {
        let channels = u64::from(dram.channels);
        let Some((controller, mut standard)) =
            dram.controller.as_ref().zip(dram.standard.as_ref().and_then(DramPart::standard))
        else {
            return Ok(Places { row_bytes: dram.row.bytes(), channels, of: Of::Banks });
        };
        let (round_robin, map) = controller.address_map(&mut standard, dram.channels, "machine.dram")?;
        let decoder = Box::new(Decoder::new(&map, &standard)?);
        Ok(Places { row_bytes: u64::from(standard.row_bytes), channels, of: Of::Map { decoder, round_robin } })
    }

    /// The row of a line, as a number that no other row has.
    fn row(&self, line: Line) -> u64 {
        match &self.of {
            Of::Banks => {
                let (within, channel) = (line.0 / self.channels, line.0 % self.channels);
                within / (self.row_bytes / LINE_BYTES).max(1) * self.channels + channel
            }
            Of::Map { decoder, round_robin } => {
                let channels = if *round_robin { self.channels } else { 1 };
                let place = decoder.decode(line.0 / channels * LINE_BYTES % decoder.capacity());
                let channel = if *round_robin { line.0 % channels } else { u64::from(place.channel) };
                (u64::from(place.row) << 32 | u64::from(place.bank)) * self.channels + channel
            }
        }
    }
}

struct SeenRows<'a> {
    places: &'a Places,
    /// Input, output, both.
    windows: [RowWindow; 3],
    /// Rows, numbered in the order in which they were seen.
    ids: HashMap<u64, u32>,
    /// Lines of the heat map.
    shown: Vec<u64>,
    counts: bool,
    sent: u64,
    lost: u64,
    rejected: u64,
}

impl SeenRows<'_> {
    /// References by time and place, rows being as wide as those of all channels together; and how many such rows.
    fn heat(&self) -> (RowSeries, u64) {
        let lines = (self.places.row_bytes / LINE_BYTES).max(1) * self.places.channels;
        let row = |line: u64| line / lines;
        let first = self.shown.iter().copied().min().map_or(0, row);
        let rows = self.shown.iter().copied().max().map_or(1, |last| row(last) - first + 1);
        let mut series = RowSeries::new(self.shown.len().max(1) as u64, rows as u32, COLUMNS, BANDS);
        self.shown.iter().for_each(|&line| series.touch((row(line) - first) as u32));
        (series, rows)
    }
}

impl DepartureObserver for SeenRows<'_> {
    fn departure(&mut self, departure: &Departure) {
        if self.counts {
            match departure.fate {
                PacketFate::Sent(_) => self.sent += 1,
                PacketFate::Lost(_) => self.lost += 1,
                PacketFate::Rejected(_) => self.rejected += 1,
            }
        }
    }

    fn packet_lines(&mut self, first: Line, lines: u64, write: bool) {
        if !self.counts {
            return;
        }
        for line in first.0..first.0 + lines {
            let next = self.ids.len() as u32;
            let row = *self.ids.entry(self.places.row(Line(line))).or_insert(next);
            self.windows[usize::from(!write)].touch(row);
            self.windows[2].touch(row);
            if self.shown.len() < SHOWN {
                self.shown.push(line);
            }
        }
    }
}
