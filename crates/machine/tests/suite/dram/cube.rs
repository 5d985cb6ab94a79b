//! A cube once more, tick by tick: in every one each link asks whether it may send and each vault what came to its door.
//! What it sends and answers, and when, is what the simulation has to.

use std::collections::BTreeSet;

use machine::dram::hmc::CubeSpec;
use machine::dram::map::Decoder;
use units::Ps;

use super::naive::{Naive, Request};

/// Bytes of a flit.
const FLIT_BYTES: u64 = 16;

/// Flits of a packet: a head and tail of one flit, beside 64 bytes of data where it has them.
fn flits(data: bool) -> u64 {
    if data { 64 / FLIT_BYTES + 1 } else { 1 }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// By request, when its first flit is sent and when the last of its answer has come. Requests are offered at
/// [`Request::offered`], in clocks of the vaults.
pub fn run(spec: &CubeSpec, decoder: &Decoder, requests: &[Request]) -> (Vec<Ps>, Vec<Ps>) {
    let (clock, flit) = (spec.clock().0, spec.flit().0);
    // Links send and have sent at multiples of this alone.
    let tick = greatest_common_divisor(clock, flit);
    let links = spec.links as usize;
    let vault_of: Vec<usize> = requests.iter().map(|r| decoder.decode(r.address).channel as usize).collect();
    let mut vaults: Vec<Naive> =
        (0..spec.vaults.channels).map(|_| Naive::new(&spec.vaults, &spec.controller, requests.len())).collect();
    // What is on the way to a vault or at its door: the clock in which it arrives, and its number.
    let mut doors: Vec<BTreeSet<(u64, usize)>> = vec![BTreeSet::new(); vaults.len()];
    let mut sent: Vec<Option<u64>> = vec![None; requests.len()];
    let mut answered: Vec<Option<u64>> = vec![None; requests.len()];
    let mut free = vec![[0; 2]; links];
    let mut now = 0;
    while answered.iter().any(Option::is_none) {
        for (vault, door) in vaults.iter_mut().zip(&mut doors) {
            vault.step(now);
            if let Some(&(arrived, id)) = door.first()
                && arrived <= now
                && vault.offer(now, id, decoder.decode(requests[id].address), requests[id].write)
            {
                door.pop_first();
            }
        }
        for id in 0..requests.len() {
            if vaults[vault_of[id]].completions[id] == now && now > 0 {
                let free = &mut free[id % links][1];
                *free = (*free).max((now + u64::from(spec.crossbar)) * clock) + flits(!requests[id].write) * flit;
                answered[id] = Some(*free);
            }
        }
        for at in (now * clock..(now + 1) * clock).step_by(tick as usize) {
            for (link, free) in free.iter_mut().enumerate() {
                let Some(id) = (link..requests.len()).step_by(links).find(|&id| sent[id].is_none()) else { continue };
                let out = (link..id).step_by(links).filter(|&id| answered[id].is_none_or(|back| back > at)).count();
                if requests[id].offered * clock > at || free[0] > at || out >= spec.tags as usize {
                    continue;
                }
                sent[id] = Some(at);
                free[0] = at + flits(requests[id].write) * flit;
                doors[vault_of[id]].insert((free[0].div_ceil(clock) + u64::from(spec.crossbar), id));
            }
        }
        now += 1;
    }
    let times = |of: Vec<Option<u64>>| of.into_iter().map(|at| Ps(at.expect("all are answered"))).collect();
    (times(sent), times(answered))
}
