//! Allocation at a frontier that goes round all pages in order.

/// A frontier that goes round all pages. It enters a page only when that is empty, and skips none: a
/// packet that stays holds everything up that comes round to its page.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Linear {
    cells_per_page: u32,
    /// The next cell.
    frontier: u32,
    /// By page, cells that packets have.
    used: Vec<u32>,
    /// Pages with a cell in use, but for the frontier's.
    pages_used: u32,
}

impl Linear {
    pub(super) fn new(pages: u32, cells_per_page: u32) -> Linear {
        Linear { cells_per_page, frontier: 0, used: vec![0; pages as usize], pages_used: 0 }
    }

    pub(super) fn allocate(&mut self, count: u32, cells: &mut Vec<u32>) -> bool {
        let all = self.used.len() as u32 * self.cells_per_page;
        // Pages that begin within the new cells are entered by them.
        let mut next = self.frontier.next_multiple_of(self.cells_per_page);
        while next < self.frontier + count {
            if self.used[(next % all / self.cells_per_page) as usize] != 0 {
                return false;
            }
            next += self.cells_per_page;
        }
        for cell in self.frontier..self.frontier + count {
            let cell = if cell >= all { cell - all } else { cell };
            let used = &mut self.used[(cell / self.cells_per_page) as usize];
            self.pages_used += u32::from(*used == 0);
            *used += 1;
            cells.push(cell);
        }
        self.frontier = (self.frontier + count) % all;
        true
    }

    pub(super) fn free(&mut self, base: u32, cells: &[u32]) {
        for cell in cells {
            let used = &mut self.used[((cell - base) / self.cells_per_page) as usize];
            *used -= 1;
            self.pages_used -= u32::from(*used == 0);
        }
    }

    pub(super) fn taken_cells(&self) -> u64 {
        u64::from(self.pages_used) * u64::from(self.cells_per_page)
    }
}
