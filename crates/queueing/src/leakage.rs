//! DMA leakage: the share of a NIC's packet lines that leave the last-level cache before a core has read
//! them; and where the mbufs of a pool are.
//!
//! Two models of leakage. [`balls_into_bins`] is equation 1 of 5GC2ache: packets as balls, the
//! cache as bins, each ball beyond the first of a bin a leak. It has no sets, no ways and no order of
//! replacement. [`cyclic_leakage`] has them: the buffers of a ring come round in a circle; their lines
//! fall into sets by chance; a set with no more of them than I/O ways loses none, one with more loses
//! what random replacement loses under a circular scan. Lines that a core reads (headers) move into its
//! private caches and come back into its own ways, where the next write finds them.
//!
//! Left out of both: other lines that cores bring into the I/O ways, and time. What a read by the NIC
//! finds is another question: leakage here is of writes.
//!
//! Source: "5GC2ache: Improving 5G UPF Performance via Cache Optimization", equations 1 and 2 and
//! appendix A. That sets are filled by chance and victims are random is what public measurements of a
//! server show (`validation/ddio`).

use crate::error::{QueueError, rate};

/// Leakage by equation 1 of 5GC2ache: 1 - (1 - e^-a) / a, with a the ring's bytes over the I/O ways' bytes.
///
/// `descriptors` buffers of `packet_bytes` bytes, `io_bytes` bytes of cache that devices may fill. The paper's
/// 36.16 % and 1.51 % are those of 4096 and 128 descriptors of 1500 bytes in 6 MiB.
///
/// # Errors
/// [`QueueError::Rate`] for a value that is not positive.
pub fn balls_into_bins(descriptors: f64, packet_bytes: f64, io_bytes: f64) -> Result<f64, QueueError> {
    let balls = rate("descriptors", descriptors)? * rate("packet_bytes", packet_bytes)?;
    let a = balls / rate("io_bytes", io_bytes)?;
    // 1 - (1 - e^-a) / a loses all digits where a is small.
    Ok(if a < 1e-4 { a / 2.0 - a * a / 6.0 } else { 1.0 + (-a).exp_m1() / a })
}

/// The part of a set-associative cache that device writes may fill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DdioWays {
    /// Sets of the whole cache, all slices together.
    pub sets: f64,
    /// Ways of each set that device writes may fill.
    pub ways: u32,
}

/// Buffers that come round in a circle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CyclicBuffers {
    /// How many: descriptors, and mbufs that are used in between.
    pub buffers: f64,
    /// Cache lines of each that a device writes.
    pub lines: f64,
    /// Of these, lines that a core reads; they hit.
    pub touched: f64,
}

/// The share of device writes that miss.
///
/// A line shares its set with a number of others that is Poisson. Of k lines in w < k ways a miss puts out one
/// at random; if m is the share of misses, a line that was written j writes ago is still there with probability
/// q^j, q = (1 - 1/w)^m, and since w lines are, the sum of q^j over j < k is w. That gives q and m. Within 3
/// points of an exact simulation, and above it.
///
/// # Errors
/// [`QueueError::Rate`] for buffers, lines or sets that are not positive, or more lines that are touched than there are;
/// [`QueueError::NoServer`] without a way.
pub fn cyclic_leakage(of: &CyclicBuffers, cache: &DdioWays) -> Result<f64, QueueError> {
    let lines = rate("lines", of.lines)?;
    let written = rate("lines - touched", lines - of.touched.max(0.0))?;
    let mean = rate("buffers", of.buffers)? * written / rate("sets", cache.sets)?;
    if cache.ways == 0 {
        return Err(QueueError::NoServer);
    }
    let deviation = mean.sqrt();
    // Beyond ten standard deviations nothing is left.
    let first = (mean - 10.0 * deviation).max(0.0) as u32;
    let last = (mean + 10.0 * deviation + 20.0).min(1e6) as u32;
    let (mut misses, mut all) = (0.0, 0.0);
    // Relative to the mode, so that no term is lost where the mean is large.
    let mode = mean.floor();
    let log_of = |k: f64| k * mean.ln() - log_factorial(k);
    for others in first..=last.max(first) {
        let probability = (log_of(others.into()) - log_of(mode)).exp();
        misses += probability * circular_misses(others + 1, cache.ways);
        all += probability;
    }
    Ok(misses / all * written / lines)
}

/// Misses of a circular scan over `lines` lines in one set of `ways` ways with random replacement.
fn circular_misses(lines: u32, ways: u32) -> f64 {
    if lines <= ways {
        return 0.0;
    }
    if ways == 1 {
        return 1.0;
    }
    let (k, w) = (f64::from(lines), f64::from(ways));
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let q: f64 = (low + high) / 2.0;
        if (1.0 - q.powf(k)) / (1.0 - q) < w { low = q } else { high = q }
    }
    (f64::ln(low) / f64::ln(1.0 - 1.0 / w)).min(1.0)
}

/// The logarithm of k factorial: exact for small k, Stirling's series beyond.
fn log_factorial(k: f64) -> f64 {
    if k < 20.0 {
        return (2..=k as u32).map(|i| f64::from(i).ln()).sum();
    }
    k * k.ln() - k + 0.5 * (std::f64::consts::TAU * k).ln() + 1.0 / (12.0 * k) - 1.0 / (360.0 * k.powi(3))
}

/// Where the mbufs of a pool are (5GC2ache, equation 2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MbufShares {
    /// In receive descriptors, empty or filled.
    pub descriptors: f64,
    /// Of these, filled by the NIC and not yet taken.
    pub filled: f64,
    /// In queues between the receiving core and the workers.
    pub queued: f64,
    /// Sent, and waiting to be freed.
    pub sent: f64,
    /// In the pool.
    pub empty: f64,
    /// Packets lost so far for want of a descriptor.
    pub lost: f64,
}

impl MbufShares {
    /// All mbufs: equation 2 has it constant.
    pub fn total(&self) -> f64 {
        self.descriptors + self.queued + self.sent + self.empty
    }
}

/// A pipeline of one receiving core and workers, as a fluid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FluidPipeline {
    /// Mbufs of the pool.
    pub mbufs: f64,
    /// Descriptors of the receive ring.
    pub descriptors: f64,
    /// Room of the queues in between.
    pub queue: f64,
    /// Sent mbufs that wait to be freed, at most.
    pub lazy_free: f64,
    /// Packets a unit of time that the receiving core takes.
    pub receive: f64,
    /// Packets a unit of time that the workers send.
    pub work: f64,
}

/// Equation 2 as a series: where the mbufs are after each interval of length `step`, with `arrivals[i]` packets arriving in
/// interval i.
///
/// The receiving core takes a filled descriptor only with an empty mbuf to put in its place; what it cannot hand on
/// stays in the ring; what finds no empty descriptor is lost. Within an interval flows are constant.
///
/// # Errors
/// [`QueueError::Rate`] for a value that is not positive; [`QueueError::Capacity`] for a pool that cannot fill the ring.
pub fn mbuf_series(of: &FluidPipeline, step: f64, arrivals: &[f64]) -> Result<Vec<MbufShares>, QueueError> {
    rate("step", step)?;
    for (name, value) in [
        ("mbufs", of.mbufs),
        ("descriptors", of.descriptors),
        ("queue", of.queue),
        ("receive", of.receive),
        ("work", of.work),
    ] {
        rate(name, value)?;
    }
    if of.mbufs < of.descriptors {
        return Err(QueueError::Capacity { capacity: of.mbufs as u32, servers: of.descriptors as u32 });
    }
    let mut now = MbufShares { descriptors: of.descriptors, empty: of.mbufs - of.descriptors, ..MbufShares::default() };
    let mut out = Vec::with_capacity(arrivals.len());
    for &arriving in arrivals {
        let sent = (of.work * step).min(now.queued);
        now.queued -= sent;
        now.sent += sent;
        let freed = (now.sent - of.lazy_free).max(0.0);
        now.sent -= freed;
        now.empty += freed;
        // What arrives within the interval can be taken within it.
        let room = (of.queue - now.queued).min(now.empty);
        let taken = (of.receive * step).min(now.filled + arriving).min(room).max(0.0);
        now.filled += arriving - taken;
        now.lost += (now.filled - of.descriptors).max(0.0);
        now.filled = now.filled.min(of.descriptors);
        now.queued += taken;
        now.empty -= taken;
        out.push(now);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: f64 = (1u64 << 20) as f64;

    #[test]
    fn equation_1_gives_the_papers_numbers() {
        let percent =
            |descriptors: f64| format!("{:.2}", 100.0 * balls_into_bins(descriptors, 1500.0, 6.0 * MIB).unwrap());
        assert_eq!((percent(4096.0), percent(128.0)), ("36.16".into(), "1.51".into()));
    }

    #[test]
    fn equation_1_is_smooth_where_it_changes_its_form() {
        let at = |a: f64| balls_into_bins(a, 1.0, 1.0).unwrap();
        assert!((at(0.999e-4) / at(1.001e-4) - 0.998).abs() < 1e-5);
        assert!((at(1e-9) / 0.5e-9 - 1.0).abs() < 1e-6);
        assert!(at(1e9) > 0.999_999);
        assert!(balls_into_bins(0.0, 1.0, 1.0).is_err() && balls_into_bins(1.0, f64::NAN, 1.0).is_err());
    }

    /// Measured on an 11-way, 24.75-MB server: `validation/ddio/reference.csv`, with 96 mbufs beside the ring as there,
    /// and one line of each frame, its headers, read by the forwarding core.
    #[test]
    fn cyclic_leakage_is_nearer_to_the_measured_server_than_equation_1() {
        let sets = 24.75 * MIB / 11.0 / 64.0;
        let ours = |descriptors: f64, lines: f64, ways| {
            let of = CyclicBuffers { buffers: descriptors + 96.0, lines, touched: 1.0 };
            100.0 * cyclic_leakage(&of, &DdioWays { sets, ways }).unwrap()
        };
        for (ways, measured) in [(2, 37.3), (3, 12.0), (4, 2.8), (5, 0.4), (6, 0.05)] {
            let found = ours(4096.0, 16.0, ways);
            println!("{ways} ways: {found:.2} %, measured {measured} %");
            assert!((found - measured).abs() < 2.5, "{ways} ways: {found}");
        }
        let (mut error, mut theirs) = (0.0, 0.0);
        for (descriptors, measured) in
            [(128.0, 1.8), (256.0, 1.7), (512.0, 3.1), (1024.0, 10.7), (2048.0, 18.3), (4096.0, 60.1)]
        {
            let equation = 100.0 * balls_into_bins(descriptors, 1500.0, 4.5 * MIB).unwrap();
            let found = ours(descriptors, 24.0, 2);
            println!("{descriptors} descriptors: {found:.2} %, equation 1 {equation:.2} %, measured {measured} %");
            error += (found - measured).abs() / 6.0;
            theirs += (equation - measured).abs() / 6.0;
        }
        println!("mean error: {error:.2} points, {theirs:.2} of equation 1");
        assert!(error < 2.5 && theirs > 5.5, "{error} {theirs}");
    }

    /// A cache by brute force: lines that come round in a circle, random victims.
    #[test]
    fn cyclic_leakage_matches_a_simulated_cache() {
        let sets = 2048usize;
        let mut random = 1u64;
        let mut draw = |n: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((random >> 33) as usize * n) >> 31
        };
        for (lines, ways) in [(1000usize, 2usize), (3000, 2), (6000, 2), (6000, 4)] {
            let homes: Vec<usize> = (0..lines).map(|_| draw(sets)).collect();
            let mut cache = vec![vec![usize::MAX; ways]; sets];
            let mut misses = 0;
            for round in 0..60 {
                for (line, &set) in homes.iter().enumerate() {
                    if cache[set].contains(&line) {
                        continue;
                    }
                    misses += usize::from(round >= 30);
                    let way = cache[set].iter().position(|l| *l == usize::MAX).unwrap_or_else(|| draw(ways));
                    cache[set][way] = line;
                }
            }
            let found = misses as f64 / (30 * lines) as f64;
            let of = CyclicBuffers { buffers: lines as f64, lines: 1.0, touched: 0.0 };
            let form = cyclic_leakage(&of, &DdioWays { sets: sets as f64, ways: ways as u32 }).unwrap();
            assert!((form - found).abs() < 0.03, "{lines} lines, {ways} ways: {form:.4}, simulated {found:.4}");
        }
    }

    #[test]
    fn a_small_pool_starves_the_ring_and_a_large_one_does_not() {
        let pipeline = |mbufs| FluidPipeline {
            mbufs,
            descriptors: 512.0,
            queue: 4096.0,
            lazy_free: 32.0,
            receive: 40.0,
            work: 30.0,
        };
        let burst: Vec<f64> = (0..200).map(|i| if i % 50 < 25 { 60.0 } else { 0.0 }).collect();
        let lost = |mbufs| mbuf_series(&pipeline(mbufs), 1.0, &burst).unwrap()[199].lost;
        assert!(lost(600.0) > lost(2048.0), "{} {}", lost(600.0), lost(2048.0));
        assert_eq!(lost(2048.0), 0.0);
        assert!(mbuf_series(&pipeline(500.0), 1.0, &burst).is_err());
    }

    proptest! {
        #[test]
        fn mbufs_are_conserved_and_packets_too(
            mbufs in 64.0f64..5000.0, share in 0.1f64..1.0, queue in 1.0f64..4096.0, receive in 0.1f64..50.0, work in 0.1f64..50.0,
            arrivals in prop::collection::vec(0.0f64..80.0, 1..100),
        ) {
            let of = FluidPipeline { mbufs, descriptors: mbufs * share, queue, lazy_free: 32.0, receive, work };
            let series = mbuf_series(&of, 1.0, &arrivals).unwrap();
            for s in &series {
                prop_assert!((s.total() - mbufs).abs() < 1e-6);
                prop_assert!(s.filled >= -1e-9 && s.filled <= s.descriptors + 1e-9);
                prop_assert!(s.queued >= -1e-9 && s.queued <= queue + 1e-9);
                prop_assert!(s.empty >= -1e-9 && s.sent >= -1e-9);
            }
        }

        #[test]
        fn more_ways_leak_less_and_more_lines_more(lines in 10.0f64..100_000.0, sets in 1000.0f64..50_000.0, ways in 1u32..11) {
            let of = |buffers| CyclicBuffers { buffers, lines: 1.0, touched: 0.0 };
            let at = |lines, ways| cyclic_leakage(&of(lines), &DdioWays { sets, ways }).unwrap();
            prop_assert!((0.0..=1.0).contains(&at(lines, ways)));
            prop_assert!(at(lines, ways + 1) <= at(lines, ways) + 1e-9);
            prop_assert!(at(lines * 1.5, ways) >= at(lines, ways) - 1e-9);
        }
    }
}
