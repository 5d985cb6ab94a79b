//! What does not let a system carry what is offered.
//!
//! Each resource is asked how busy all of the offered packets would keep it, were none blocked: its busy time by the share that
//! came in. The one that this is most of is what limits (operational analysis: P. J. Denning and J. P. Buzen, ACM Computing Surveys 10(3),
//! 1978, whose bound on throughput is servers by demand). A core is held while its packet waits elsewhere: of that time, waits at
//! others are no demand of it, or it would look busier than what it waits for.

use super::spec::SlicesSpec;
use super::totals::{Snapshot, Totals};

/// From this use on a resource counts as saturated.
const SATURATED: f64 = 0.98;
/// More than this share of blocked packets is told of, though every resource could serve them.
const BLOCKED: f64 = 0.10;

/// What limits, if anything does: see [`super::SlicesOutcome::saturated`]. `all` is what was counted over all runs.
pub(super) fn saturated(spec: &SlicesSpec, all: &Snapshot) -> Option<&'static str> {
    let t = all.all();
    if t.arrived == 0 || all.now == 0 {
        return None;
    }
    let blocked = t.blocked as f64 / t.arrived as f64;
    if blocked >= 1.0 {
        return Some("limit");
    }
    let offered = |busy: u64, servers: u64| busy as f64 / (all.now as f64 * servers as f64) / (1.0 - blocked);
    // Without waits at others.
    let demand = |t: &Totals| {
        let headers = spec.header_read.map_or(0, |read| t.begun * read.taken().0);
        t.held.saturating_sub(t.slice_wait + t.bank_wait + t.header.saturating_sub(headers))
    };
    let contexts = |n: usize| u64::from(spec.applications[n].cores) * u64::from(spec.outstanding);
    let header = spec.header_read.map_or(0.0, |read| offered(t.begun * read.taken().0, read.channels.into()));
    let most = |each: &mut dyn Iterator<Item = f64>| each.fold(0.0, f64::max);
    let each = [
        ("banks", most(&mut all.banks.iter().map(|busy| offered(*busy, spec.dram.channels.into())))),
        ("slices", most(&mut all.slices.iter().map(|busy| offered(*busy, 1)))),
        ("packet buffer", header),
        ("cores", most(&mut all.applications.iter().enumerate().map(|(n, t)| offered(demand(t), contexts(n))))),
        ("limit", offered(demand(&t), spec.limit.into())),
    ];
    // Of equals the first.
    let (name, use_of_it) = each.into_iter().rev().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut held = all.applications.iter().enumerate().map(|(n, t)| offered(t.held, contexts(n)));
    if use_of_it >= SATURATED || most(&mut held) >= SATURATED {
        return Some(name);
    }
    (blocked > BLOCKED).then_some("limit")
}
