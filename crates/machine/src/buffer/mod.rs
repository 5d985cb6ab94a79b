//! Packet-buffer allocators: where in DRAM the bytes of a packet lie.
//!
//! Models four ways to cut memory up: one fixed buffer a packet, a stack of cells ([`BufferAllocation::Cells`]),
//! a frontier that goes round the whole memory and waits for the next page ([`BufferAllocation::Linear`]), and
//! a frontier within the page that was taken last ([`BufferAllocation::Piecewise`]). State is free of time: an
//! allocator knows cells, pages and who is empty, and says no where its user has to wait. Memory may be
//! split into equal pools that take turns, as network processors do that want odd and even banks to
//! alternate. [`RowWindow`] tells how many rows a stream of references touches.
//!
//! Left out: what the software of an allocator costs, which is its user's to charge; packets that are
//! larger than a page of the piece-wise allocator or than a fixed buffer, which are refused (a chain of
//! buffers would need a descriptor each).
//!
//! **Source**: Hasan, Chandra, Vijaykumar, "Efficient use of memory bandwidth to improve network processor
//! throughput", ISCA 2003, sections 4.1 (allocators), 6.2 (odd and even pools), 6.5 (rows touched).

mod cells;
mod fixed;
mod linear;
mod piecewise;
mod rows;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Addr, Size};

pub use rows::{RowSeries, RowWindow};

use crate::MachineError;
use cells::Cells;
use fixed::FixedBuffers;
use linear::Linear;
use piecewise::Piecewise;

/// How memory is given to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BufferAllocation {
    /// One buffer of a page's size each, from a stack.
    Fixed,
    /// As many cells as the packet needs, wherever they are, from a stack.
    Cells,
    /// At a frontier that goes round the memory; it waits where the next page is not empty.
    Linear,
    /// At a frontier within the page that was taken last; pages are free as soon as they are empty.
    #[default]
    Piecewise,
}

impl BufferAllocation {
    /// Every way, in the order of the paper.
    pub const ALL: [BufferAllocation; 4] =
        [BufferAllocation::Fixed, BufferAllocation::Cells, BufferAllocation::Linear, BufferAllocation::Piecewise];

    /// The name in scenarios and tables.
    pub const fn name(self) -> &'static str {
        match self {
            BufferAllocation::Fixed => "fixed",
            BufferAllocation::Cells => "cells",
            BufferAllocation::Linear => "linear",
            BufferAllocation::Piecewise => "piecewise",
        }
    }

    /// The way of that name.
    pub fn named(name: &str) -> Option<BufferAllocation> {
        BufferAllocation::ALL.into_iter().find(|each| each.name() == name)
    }

    /// Bytes of a page in the paper: buffers of 2 KiB, pages of 4 KiB (linear) and 2 KiB (piece-wise).
    pub const fn usual_page(self) -> u64 {
        match self {
            BufferAllocation::Linear => 4096,
            _ => 2048,
        }
    }
}

/// A packet buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BufferSpec {
    /// How it is given to packets.
    pub allocation: BufferAllocation,
    /// All of it.
    pub size: Size,
    /// The unit of allocation.
    pub cell: Size,
    /// A fixed buffer, or what is reclaimed at a time by a frontier. Left out: 2 KiB, with a linear
    /// frontier 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<Size>,
    /// Equal parts that take turns; 2 where odd and even banks shall alternate.
    pub pools: u32,
    /// Whether stacks and page rings start in random order, as after a long time in use.
    pub shuffled: bool,
    /// The longest packet that will come.
    pub longest: Size,
}

impl Default for BufferSpec {
    fn default() -> BufferSpec {
        BufferSpec {
            allocation: BufferAllocation::Piecewise,
            size: Size::from_bytes(8 << 20),
            cell: Size::from_bytes(64),
            page: None,
            pools: 1,
            shuffled: false,
            longest: Size::from_bytes(packet::USUAL_FRAME_BYTES),
        }
    }
}

/// Why cells cannot be given back: the books of whoever gives them are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cell {cell} of a buffer of {cells} cells is given back, but nobody has it")]
pub struct NotHeld {
    /// The cell.
    pub cell: u32,
    /// Cells of the buffer.
    pub cells: u32,
}

/// What a packet buffer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub, Serialize, JsonSchema)]
pub struct BufferCounters {
    /// Packets that got memory.
    pub packets: u64,
    /// Requests that had to wait: there was no memory, or the frontier's next page was not empty.
    pub stalls: u64,
    /// Requests that had to wait although enough cells were free somewhere.
    pub stalls_with_room: u64,
    /// Requests for more than the longest packet that the buffer was built for; they are among the stalls.
    pub too_long: u64,
    /// Bytes of packets, summed over all grants while they were held: see [`BufferCounters::fragmentation`].
    #[serde(skip)]
    used: u64,
    /// Bytes that nobody else could have, summed likewise.
    #[serde(skip)]
    taken: u64,
}

state::state!(BufferCounters {
    values: [packets, stalls, stalls_with_room, too_long, used, taken],
    arrays: [],
    parts: [],
    built: [],
});

impl BufferCounters {
    /// The share of the memory taken that holds no byte of a packet, averaged over the grants.
    pub fn fragmentation(&self) -> f64 {
        if self.taken == 0 { 0.0 } else { 1.0 - self.used as f64 / self.taken as f64 }
    }
}

/// Memory for packets. A packet has cells, numbered through the buffer; cell `c` lies at `c` times the
/// size of a cell.
#[derive(Clone, Debug)]
pub struct PacketBuffer {
    pools: Vec<AllocatorKind>,
    cells_per_pool: u32,
    turn: usize,
    cell_bytes: u32,
    longest: u32,
    /// A bit a cell: somebody has it.
    held: Vec<u64>,
    cells_held: u64,
    bytes_used: u64,
    counters: BufferCounters,
}

state::state!(PacketBuffer {
    values: [pools, turn, held, cells_held, bytes_used],
    arrays: [],
    parts: [counters],
    built: [cells_per_pool, cell_bytes, longest],
});

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
enum AllocatorKind {
    Fixed(FixedBuffers),
    Cells(Cells),
    Linear(Linear),
    Piecewise(Piecewise),
}

impl PacketBuffer {
    /// Builds a buffer; `draw(n)` gives a number below `n` for what is shuffled.
    ///
    /// # Errors
    /// Cells or pages of no size, a page smaller than a cell, a buffer or page smaller than a packet, pools
    /// that have not a page each.
    pub fn new(
        spec: &BufferSpec,
        path: &str,
        mut draw: impl FnMut(usize) -> usize,
    ) -> Result<PacketBuffer, MachineError> {
        let error = |field: &str, came: String, allowed: String, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        let (size, cell, longest) = (spec.size.bytes(), spec.cell.bytes(), spec.longest.bytes());
        let page = spec.page.map_or(spec.allocation.usual_page(), Size::bytes);
        let show = Size::from_bytes;
        if !cell.is_power_of_two() || !(8..=4096).contains(&cell) {
            return error("cell", show(cell).to_string(), "a power of two from 8 B to 4 KiB".into(), "64 B is usual");
        }
        if page < cell || !page.is_multiple_of(cell) {
            let came = format!("{} with cells of {}", show(page), show(cell));
            return error("page", came, "a multiple of the cell".into(), "enlarge the page or take smaller cells");
        }
        if spec.pools == 0 || spec.pools > 64 {
            return error("pools", spec.pools.to_string(), "1 to 64".into(), "2 for odd and even banks");
        }
        let pool = size / u64::from(spec.pools);
        if pool < page || size >= 1 << 37 || size / cell >= u64::from(u32::MAX) {
            let came = format!("{} in {} pools with pages of {}", show(size), spec.pools, show(page));
            let allowed = "a page or more a pool, and less than 4,294,967,295 cells".to_string();
            return error("size", came, allowed, "enlarge the buffer, or take smaller pages");
        }
        let room = match spec.allocation {
            BufferAllocation::Fixed | BufferAllocation::Piecewise => page,
            BufferAllocation::Cells | BufferAllocation::Linear => pool / page * page,
        };
        if longest > room || longest == 0 {
            let what = if room == page { "a page" } else { "the buffer" };
            let came = format!("packets of up to {longest} bytes, {what} of {room} bytes");
            return error("longest", came, format!("1 to {room} bytes"), "enlarge the page or drop longer packets");
        }
        let pages = (pool / page) as u32;
        let cells_per_page = (page / cell) as u32;
        let mut pools = Vec::with_capacity(spec.pools as usize);
        for _ in 0..spec.pools {
            pools.push(match spec.allocation {
                BufferAllocation::Fixed => {
                    let mut pool = FixedBuffers::new(pages, cells_per_page);
                    if spec.shuffled {
                        shuffle(pool.free_mut(), &mut draw);
                    }
                    AllocatorKind::Fixed(pool)
                }
                BufferAllocation::Cells => {
                    let mut pool = Cells::new(pages * cells_per_page);
                    if spec.shuffled {
                        shuffle(pool.free_mut(), &mut draw);
                    }
                    AllocatorKind::Cells(pool)
                }
                BufferAllocation::Linear => AllocatorKind::Linear(Linear::new(pages, cells_per_page)),
                BufferAllocation::Piecewise => {
                    let mut pool = Piecewise::new(pages, cells_per_page);
                    if spec.shuffled {
                        shuffle(pool.free_mut(), &mut draw);
                    }
                    AllocatorKind::Piecewise(pool)
                }
            });
        }
        let cells = pages * cells_per_page * spec.pools;
        Ok(PacketBuffer {
            pools,
            cells_per_pool: pages * cells_per_page,
            turn: 0,
            cell_bytes: cell as u32,
            longest: longest as u32,
            held: vec![0; (cells as usize).div_ceil(64)],
            cells_held: 0,
            bytes_used: 0,
            counters: BufferCounters::default(),
        })
    }

    /// Gives a packet of `bytes` its cells, which are appended to `cells` in the packet's order. False: it
    /// has to wait, and nothing has changed but the count of stalls. Packets longer than those that the
    /// buffer was built for always wait.
    pub fn allocate(&mut self, bytes: u32, cells: &mut Vec<u32>) -> bool {
        let count = bytes.div_ceil(self.cell_bytes).max(1);
        let from = cells.len();
        let pools = self.pools.len();
        for k in 0..pools {
            let at = (self.turn + k) % pools;
            if bytes <= self.longest && self.pools[at].allocate(count, cells) {
                let base = at as u32 * self.cells_per_pool;
                for cell in &mut cells[from..] {
                    *cell += base;
                    self.held[*cell as usize / 64] |= 1 << (*cell % 64);
                }
                self.turn = (at + 1) % pools;
                self.cells_held += u64::from(count);
                self.bytes_used += u64::from(bytes);
                self.counters.packets += 1;
                self.counters.used += self.bytes_used;
                self.counters.taken += self.taken_cells() * u64::from(self.cell_bytes);
                return true;
            }
        }
        self.counters.stalls += 1;
        self.counters.too_long += u64::from(bytes > self.longest);
        let free = self.cells_per_pool as u64 * pools as u64 - self.cells_held;
        self.counters.stalls_with_room += u64::from(bytes <= self.longest && free >= u64::from(count));
        false
    }

    /// Takes the cells of a packet of `bytes` back, all of them as they were given.
    ///
    /// # Errors
    /// A cell that nobody has; cells before it in the list are back then.
    pub fn free(&mut self, bytes: u32, cells: &[u32]) -> Result<(), NotHeld> {
        let Some(&first) = cells.first() else { return Ok(()) };
        for &cell in cells {
            match self.held.get_mut(cell as usize / 64) {
                Some(word) if *word >> (cell % 64) & 1 == 1 => *word &= !(1 << (cell % 64)),
                _ => return Err(NotHeld { cell, cells: self.cells() }),
            }
        }
        let at = (first / self.cells_per_pool) as usize;
        self.pools[at].free(at as u32 * self.cells_per_pool, cells);
        self.cells_held -= cells.len() as u64;
        self.bytes_used = self.bytes_used.saturating_sub(u64::from(bytes));
        Ok(())
    }

    /// Where a cell lies, from the start of the buffer.
    pub fn addr(&self, cell: u32) -> Addr {
        Addr(u64::from(cell) * u64::from(self.cell_bytes))
    }

    /// Cells of the buffer.
    pub fn cells(&self) -> u32 {
        self.cells_per_pool * self.pools.len() as u32
    }

    /// Bytes of a cell.
    pub fn cell_bytes(&self) -> u32 {
        self.cell_bytes
    }

    /// Cells that packets have.
    pub fn cells_held(&self) -> u64 {
        self.cells_held
    }

    /// What it has done.
    pub fn counters(&self) -> BufferCounters {
        self.counters
    }

    /// Forgets what it has done, but not who has what.
    pub fn reset_counters(&mut self) {
        self.counters = BufferCounters::default();
    }

    fn taken_cells(&self) -> u64 {
        self.pools.iter().map(AllocatorKind::taken_cells).sum()
    }
}

impl AllocatorKind {
    #[inline]
    fn allocate(&mut self, count: u32, cells: &mut Vec<u32>) -> bool {
        match self {
            AllocatorKind::Fixed(pool) => pool.allocate(count, cells),
            AllocatorKind::Cells(pool) => pool.allocate(count, cells),
            AllocatorKind::Linear(pool) => pool.allocate(count, cells),
            AllocatorKind::Piecewise(pool) => pool.allocate(count, cells),
        }
    }

    #[inline]
    fn free(&mut self, base: u32, cells: &[u32]) {
        match self {
            AllocatorKind::Fixed(pool) => pool.free(base, cells),
            AllocatorKind::Cells(pool) => pool.free(base, cells),
            AllocatorKind::Linear(pool) => pool.free(base, cells),
            AllocatorKind::Piecewise(pool) => pool.free(base, cells),
        }
    }

    /// Cells that nobody else can have now.
    fn taken_cells(&self) -> u64 {
        match self {
            AllocatorKind::Fixed(pool) => pool.taken_cells(),
            AllocatorKind::Cells(pool) => pool.taken_cells(),
            AllocatorKind::Linear(pool) => pool.taken_cells(),
            AllocatorKind::Piecewise(pool) => pool.taken_cells(),
        }
    }
}

/// Fisher and Yates.
fn shuffle(free: &mut [u32], draw: &mut impl FnMut(usize) -> usize) {
    for i in (1..free.len()).rev() {
        free.swap(i, draw(i + 1) % (i + 1));
    }
}
