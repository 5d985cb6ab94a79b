//! Which rows a packet buffer's references touch: the mean over a window that slides, and a grid of time and rows.
//!
//! References are those of the network processor at work on the traffic, in the order in which they are issued.

use engine::Seed;
use machine::buffer::{BufferAllocation, RowSeries, RowWindow};
use machine::microengines::{MicroenginesSpec, NetworkProcessor, Watched};
use rand::RngExt;
use serde_json::{Value, json};
use units::Size;

use super::traffic::PacketTrace;
use super::work::{NetprocApplication, workload};
use sim::ScenarioError;

/// References of the heat map, and its columns and bands.
const SHOWN: u64 = 24_000;
const COLUMNS: usize = 120;
const BANDS: usize = 96;
const WARM_UP: u64 = 4000;

struct Rows {
    shift: u32,
    both: RowWindow,
    series: RowSeries,
    /// References before these are not shown.
    skip: u64,
    seen: u64,
}

impl Watched for Rows {
    fn reference(&mut self, _: u64, addr: u64, _: u32, _: bool) {
        let row = (addr >> self.shift) as u32;
        self.both.touch(row);
        self.seen += 1;
        if self.seen > self.skip && self.seen <= self.skip + SHOWN {
            self.series.touch(row);
        }
    }
}

/// Rows touched in windows of `window` references by the traffic `traffic`, for each way to allocate, with rows of
/// `row` bytes in a buffer of `buffer`.
///
/// # Errors
/// Traffic that cannot be read, a window or row that cannot be.
pub fn rows(
    traffic: &str,
    window: usize,
    packets: u64,
    row: Size,
    buffer: Size,
    seed: u64,
) -> Result<Value, ScenarioError> {
    let trace = PacketTrace::parse(traffic)?.packets(20_000, seed)?;
    let (work, note) = workload(NetprocApplication::L3fwd16, 16, &trace)?;
    let longest = work.works.iter().map(|work| work.bytes).max().unwrap_or(0).max(packet::USUAL_FRAME_BYTES as u32);
    let mut found = Vec::new();
    for allocation in BufferAllocation::ALL {
        let mut spec = MicroenginesSpec::ixp1200(16).row_aware(allocation);
        spec.sdram.row = row;
        spec.buffer.size = buffer;
        spec.buffer.longest = Size::from_bytes(u64::from(longest));
        let rows = buffer.bytes().div_ceil(row.bytes().max(1)) as u32;
        let watched = Rows {
            shift: row.bytes().max(1).trailing_zeros(),
            both: RowWindow::new(window)?,
            series: RowSeries::new(SHOWN, rows, COLUMNS, BANDS),
            skip: 2 * WARM_UP * 9,
            seen: 0,
        };
        let mut order = Seed(seed).stream("netproc.buffer");
        let mut machine = NetworkProcessor::watched(&spec, &work, window, |n| order.random_range(0..n), watched)?;
        let broken = |e: machine::buffer::NotHeld| super::traffic::wrong("buffer", &e.to_string(), "cells held");
        let outcome = machine.run(WARM_UP, packets).map_err(broken)?;
        let watched = machine.into_watched();
        found.push(json!({
            "allocation": allocation.name(),
            "rows_input": outcome.rows[0],
            "rows_output": outcome.rows[1],
            "rows_both": watched.both.mean(),
            "row_hit_rate": (outcome.sdram.reads.row_hits + outcome.sdram.writes.row_hits) as f64
                / (outcome.sdram.reads.transfers + outcome.sdram.writes.transfers).max(1) as f64,
            "fragmentation": outcome.buffer.fragmentation(),
            "stalls": outcome.buffer.stalls,
            "heat": {
                "references_per_column": watched.series.references_per_column(),
                "rows_per_band": watched.series.rows_per_band(),
                "cells": watched.series.cells().map(|(column, band, n)| json!([column, band, n])).collect::<Vec<_>>(),
            },
        }));
    }
    Ok(json!({
        "schema": "wirespeed.rows/1",
        "traffic": traffic,
        "note": note,
        "window": window,
        "row_bytes": row.bytes(),
        "buffer_bytes": buffer.bytes(),
        "allocations": found,
    }))
}
