//! What a DRAM has done: latencies, where the data bus's time went, rows, energy.

use ::stats::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::channel::ChannelController;
pub use super::counters::Gap;
use super::counters::{Counters, GAPS};
pub use super::energy::Energy;
use super::energy::EnergyModel;
use super::standard::Standard;

/// Shares of the data buses' peak; they sum to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// Data.
    pub data: f64,
    /// [`Gap::Turnaround`].
    pub turnaround: f64,
    /// [`Gap::BankGroup`].
    pub bank_group: f64,
    /// [`Gap::RowMiss`].
    pub row_miss: f64,
    /// [`Gap::BankConflict`].
    pub bank_conflict: f64,
    /// [`Gap::Refresh`].
    pub refresh: f64,
    /// [`Gap::Idle`].
    pub idle: f64,
}

/// Latencies from acceptance to the end of the data, in clocks; NaN and 0 of none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latencies {
    /// How many.
    pub n: u64,
    /// Their mean.
    pub mean: f64,
    /// Half are not greater.
    pub p50: u64,
    /// 90 % are not greater.
    pub p90: u64,
    /// 99 % are not greater.
    pub p99: u64,
    /// 99.9 % are not greater.
    pub p999: u64,
    /// The greatest.
    pub max: u64,
}

impl Latencies {
    pub(super) fn of(histogram: &Histogram) -> Latencies {
        let quantile = |q| histogram.quantile(q).map_or(0, |clocks| clocks.0);
        Latencies {
            n: histogram.n(),
            mean: histogram.mean(),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: histogram.max().map_or(0, |clocks| clocks.0),
        }
    }
}

/// What a simulation found.
#[derive(Clone, Debug, PartialEq)]
pub struct DramReport {
    /// Clocks from 0 to the end of the last data.
    pub clocks: u64,
    /// Bytes that went over the data buses.
    pub bytes: u64,
    /// Bytes a second over the whole run.
    pub bytes_per_s: f64,
    /// Where the data buses' time went.
    pub shares: Shares,
    /// The same in clocks of all channels: data, then by [`Gap`]; they sum to clocks times channels.
    pub clocks_by_cause: [u64; 7],
    /// Reads.
    pub read_latency: Latencies,
    /// Writes.
    pub write_latency: Latencies,
    /// Requests that found their row open.
    pub row_hits: u64,
    /// Requests that opened their row in a closed bank.
    pub row_misses: u64,
    /// Requests that had another row closed first.
    pub row_conflicts: u64,
    /// Reads answered from the write queue.
    pub forwarded: u64,
    /// Activates.
    pub activates: u64,
    /// Refresh commands.
    pub refreshes: u64,
    /// Starts and ends of write drains.
    pub drain_switches: u64,
    /// Hits, misses and conflicts by bank, channel by channel.
    pub heat: Vec<[u64; 3]>,
    /// Each channel.
    pub channels: Vec<ChannelLoad>,
    /// Where the standard has currents.
    pub energy: Option<Energy>,
}

/// How much of the work a channel had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ChannelLoad {
    /// Bursts that went over its data bus.
    pub bursts: u64,
    /// Share of its time in which the bus carried data.
    pub data: f64,
    /// Share of its time in which it had nothing to do.
    pub idle: f64,
}

/// A channel that is idle for less than this share of its time has no time left.
pub const CHANNEL_FULL: f64 = 0.05;

impl DramReport {
    /// The channel with the least idle time, if it has none left while all together have: its number and its load.
    pub fn overloaded_channel(&self) -> Option<(usize, ChannelLoad)> {
        let busiest = self.channels.iter().copied().enumerate().min_by(|a, b| a.1.idle.total_cmp(&b.1.idle))?;
        (busiest.1.idle < CHANNEL_FULL && self.shares.idle >= 2.0 * CHANNEL_FULL).then_some(busiest)
    }

    /// The share of all bursts that `channel` had.
    pub fn share_of(&self, channel: &ChannelLoad) -> f64 {
        channel.bursts as f64 / self.channels.iter().map(|c| c.bursts).sum::<u64>().max(1) as f64
    }
}

/// Gathers channels into a report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Gathered {
    counters: Vec<(Counters, u64)>,
    latency: [Histogram; 2],
    heat: Vec<[u64; 3]>,
}

impl Gathered {
    pub fn add<const G: usize>(&mut self, channel: &ChannelController<G>) {
        self.counters.push((channel.counters(), channel.end()));
        for (all, one) in self.latency.iter_mut().zip(&channel.account.latency) {
            all.merge(one);
        }
        self.heat.extend_from_slice(&channel.account.heat);
    }

    /// Moves this mark so that `since` it leaves out what has happened from `before` to `after`, in so many clocks.
    pub fn leave_out(&mut self, before: &Gathered, after: &Gathered, clocks: u64, standard: &Standard) {
        let burst = u64::from(standard.timings.get("BL").copied().unwrap_or(1));
        let of_channels = self.counters.iter_mut().zip(before.counters.iter().zip(&after.counters));
        for ((mark, start), ((before, _), (after, _))) in of_channels {
            let charged: [u64; GAPS] = std::array::from_fn(|i| after.gaps[i] - before.gaps[i]);
            let gaps = std::array::from_fn(|i| mark.gaps[i].wrapping_add(charged[i]));
            *mark = Counters { gaps, ..after.since(&before.since(mark)) };
            let data = (0..2).map(|way| after.columns[way] - before.columns[way]).sum::<u64>() * burst;
            // Since the last data before and after it, the time up to now is idle until the next data come. That is charged then,
            // so that this may count more as idle than was charged yet, or less.
            let rest = clocks.wrapping_sub(data + charged.iter().sum::<u64>());
            let idle = &mut mark.gaps[Gap::Idle as usize];
            *idle = idle.wrapping_add(rest);
            *start += clocks;
        }
        for (mark, (before, after)) in self.heat.iter_mut().zip(before.heat.iter().zip(&after.heat)) {
            *mark = std::array::from_fn(|i| after[i] - (before[i] - mark[i]));
        }
    }

    pub fn report(&self, standard: &Standard) -> DramReport {
        self.since(&Gathered::default(), 0, standard)
    }

    /// What has happened since `from`, of the same channels, up to `clock` or the last data. Latencies are all that
    /// were recorded. A channel's time since `from` begins with the end of its data before.
    pub fn since(&self, from: &Gathered, clock: u64, standard: &Standard) -> DramReport {
        let until = self.counters.iter().map(|&(_, end)| end).max().unwrap_or(0).max(clock);
        let burst = u64::from(standard.timings.get("BL").copied().unwrap_or(1));
        let mut sum = Counters::default();
        let mut by_cause = [0u64; 7];
        let mut total = 0;
        let mut channels = Vec::with_capacity(self.counters.len());
        for (i, (counters, end)) in self.counters.iter().enumerate() {
            let (before, start) = from.counters.get(i).copied().unwrap_or_default();
            let counters = counters.since(&before);
            let span = until.saturating_sub(start);
            total += span;
            for (all, one) in by_cause[1..].iter_mut().zip(counters.gaps) {
                *all = all.wrapping_add(one);
            }
            by_cause[1 + Gap::Idle as usize] = by_cause[1 + Gap::Idle as usize].wrapping_add(until - end);
            let bursts = counters.columns[0] + counters.columns[1];
            let of_time = |clocks: u64| if span == 0 { 0.0 } else { clocks as f64 / span as f64 };
            let idle = of_time(counters.gaps[Gap::Idle as usize].wrapping_add(until - end));
            by_cause[0] += bursts * burst;
            channels.push(ChannelLoad { bursts, data: of_time(bursts * burst), idle });
            for (all, one) in sum.columns.iter_mut().zip(counters.columns) {
                *all += one;
            }
            sum.forwarded += counters.forwarded;
            sum.activates += counters.activates;
            sum.refreshes += counters.refreshes;
            sum.bank_refreshes += counters.bank_refreshes;
            sum.same_bank_refreshes += counters.same_bank_refreshes;
            sum.switches += counters.switches;
            sum.open_clocks += counters.open_clocks;
        }
        let clocks = total / (self.counters.len() as u64).max(1);
        let share = |i: usize| if total == 0 { 0.0 } else { by_cause[i] as f64 / total as f64 };
        let before = |i: usize| from.heat.get(i).copied().unwrap_or_default();
        let heat: Vec<[u64; 3]> =
            self.heat.iter().enumerate().map(|(i, bank)| std::array::from_fn(|k| bank[k] - before(i)[k])).collect();
        let rows = heat.iter().fold([0; 3], |sum, bank| std::array::from_fn(|i| sum[i] + bank[i]));
        let bytes = (sum.columns[0] + sum.columns[1]) * u64::from(standard.access_bytes);
        let seconds = clocks as f64 / (f64::from(standard.clock_mhz) * 1e6);
        DramReport {
            clocks,
            bytes,
            bytes_per_s: if clocks == 0 { 0.0 } else { bytes as f64 / seconds },
            shares: Shares {
                data: share(0),
                turnaround: share(1),
                bank_group: share(2),
                row_miss: share(3),
                bank_conflict: share(4),
                refresh: share(5),
                idle: share(6),
            },
            clocks_by_cause: by_cause,
            read_latency: Latencies::of(&self.latency[0]),
            write_latency: Latencies::of(&self.latency[1]),
            row_hits: rows[0],
            row_misses: rows[1],
            row_conflicts: rows[2],
            forwarded: sum.forwarded,
            activates: sum.activates,
            refreshes: sum.refreshes,
            drain_switches: sum.switches,
            heat,
            channels,
            energy: EnergyModel::of_standard(standard).map(|model| model.of(&sum.work(standard, total))),
        }
    }
}
