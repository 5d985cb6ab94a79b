//! Allocation at a frontier within a page, with a ring of empty pages.

use std::collections::VecDeque;

/// A frontier within the page that was taken last, and a ring of empty pages. Pages come back as soon
/// as they are empty, so a packet that stays holds up its own page alone.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Piecewise {
    cells_per_page: u32,
    /// The page that was taken last, and its first free cell.
    page: Option<(u32, u32)>,
    /// By page, cells that packets have.
    used: Vec<u32>,
    free: VecDeque<u32>,
}

impl Piecewise {
    pub(super) fn new(pages: u32, cells_per_page: u32) -> Piecewise {
        Piecewise { cells_per_page, page: None, used: vec![0; pages as usize], free: (0..pages).collect() }
    }

    pub(super) fn free_mut(&mut self) -> &mut [u32] {
        self.free.make_contiguous()
    }

    pub(super) fn allocate(&mut self, count: u32, cells: &mut Vec<u32>) -> bool {
        let (page, at) = match self.page {
            Some((page, at)) if at + count <= self.cells_per_page => (page, at),
            left => {
                // An empty page that is left goes to the end of the ring, where it may be the only one.
                if let Some((left, _)) = left
                    && self.used[left as usize] == 0
                {
                    self.free.push_back(left);
                    self.page = None;
                }
                let Some(page) = self.free.pop_front() else { return false };
                (page, 0)
            }
        };
        let first = page * self.cells_per_page + at;
        cells.extend(first..first + count);
        self.used[page as usize] += count;
        self.page = Some((page, at + count));
        true
    }

    pub(super) fn free(&mut self, base: u32, cells: &[u32]) {
        // A packet lies within one page.
        let Some(&first) = cells.first() else { return };
        let page = (first - base) / self.cells_per_page;
        let used = &mut self.used[page as usize];
        *used -= cells.len() as u32;
        if *used == 0 && self.page.is_none_or(|(latest, _)| latest != page) {
            self.free.push_back(page);
        }
    }

    pub(super) fn taken_cells(&self) -> u64 {
        (self.used.len() - self.free.len()) as u64 * u64::from(self.cells_per_page)
    }
}
