//! What a device's write waits for.

use machine::memory::Hierarchy;
use units::{Line, Ps};

use super::core::hierarchy;

/// Lines that the ways of devices hold, and twice that: each write puts out a dirty line from then on.
const FULL: u64 = 2 * (24 << 10) / 12 / 64;

/// Devices' ways are full of dirty lines, and DRAM is idle at this time.
fn full() -> (Hierarchy, Ps) {
    let mut memory = hierarchy(None, None);
    for line in 0..FULL {
        memory.dma_write(Line(line), 1, Ps(line * 1_000_000));
    }
    (memory, Ps(FULL * 1_000_000))
}

#[test]
fn a_device_write_that_puts_out_a_dirty_line_waits_where_dram_has_many_before_it() {
    let (mut memory, now) = full();
    let idle = memory.dma_write(Line(FULL), 1, now) - now;
    assert_eq!(memory.counters().writebacks, 1);
    let now = now + Ps(1_000_000);
    // All at once: the two channels have 64 writes each before one more is held up.
    let took: Vec<Ps> = (0..1200).map(|i| memory.dma_write(Line(2 * FULL + i), 1, now) - now).collect();
    let interval = Ps(1_000);
    let unloaded = |i: usize| idle + interval * i as u64;
    assert!((0..128).all(|i| took[i] == unloaded(i)), "{took:?}");
    assert!((1000..1200).all(|i| took[i] > unloaded(i)), "{took:?}");
    // What is there already puts out nothing.
    let (mut memory, now) = full();
    let took: Vec<Ps> = (0..300).map(|i| memory.dma_write(Line(FULL - 1 - i % 8), 1, now) - now).collect();
    assert!((0..300).all(|i| took[i] == unloaded(i)), "{took:?}");
    assert_eq!(memory.counters().writebacks, 0);
}
