//! Which DRAM rows references touch: in a sliding window, and over time.

use crate::MachineError;

/// How many different rows the last references touched: the mean, over all places of a window of `W`
/// references that slides by one reference at a time (Hasan et al., ISCA 2003, table 5, with W = 16).
#[derive(Clone, Debug)]
pub struct RowWindow {
    /// The rows in the window, the oldest at `at` once it is full.
    window: Vec<u32>,
    at: usize,
    full: bool,
    /// By row, references in the window.
    count: Vec<u32>,
    distinct: u32,
    sum: u64,
    places: u64,
}

/// The most references that a window may span.
const WIDEST: usize = 1 << 20;

impl RowWindow {
    /// A window of `references`.
    ///
    /// # Errors
    /// A window of no reference, or of more than 1,048,576.
    pub fn new(references: usize) -> Result<RowWindow, MachineError> {
        if !(1..=WIDEST).contains(&references) {
            return Err(MachineError::new(
                "rows.window",
                references.to_string(),
                format!("1 to {WIDEST} references"),
                "the paper has 16".into(),
            ));
        }
        Ok(RowWindow {
            window: vec![0; references],
            at: 0,
            full: false,
            count: Vec::new(),
            distinct: 0,
            sum: 0,
            places: 0,
        })
    }

    /// A reference to `row`; rows are numbered densely.
    #[inline]
    pub fn touch(&mut self, row: u32) {
        let index = row as usize;
        if index >= self.count.len() {
            self.count.resize(index + 1, 0);
        }
        if self.full {
            let oldest = &mut self.count[self.window[self.at] as usize];
            *oldest -= 1;
            self.distinct -= u32::from(*oldest == 0);
        }
        self.distinct += u32::from(self.count[index] == 0);
        self.count[index] += 1;
        self.window[self.at] = row;
        self.at += 1;
        if self.at == self.window.len() {
            self.at = 0;
            self.full = true;
        }
        if self.full {
            self.sum += u64::from(self.distinct);
            self.places += 1;
        }
    }

    /// Different rows in the window now, also before it is full.
    pub fn distinct(&self) -> u32 {
        self.distinct
    }

    /// The mean over all full windows so far; none before the first is full.
    pub fn mean(&self) -> Option<f64> {
        (self.places > 0).then(|| self.sum as f64 / self.places as f64)
    }

    /// Forgets what was seen, but for the references in the window.
    pub fn reset(&mut self) {
        (self.sum, self.places) = (0, 0);
    }
}

/// References by time and row, in a grid of at most as many columns and bands as asked for: what a heat
/// map shows. Columns are equal numbers of references.
#[derive(Clone, Debug)]
pub struct RowSeries {
    bands: usize,
    rows_per_band: u32,
    per_column: u64,
    seen: u64,
    counts: Vec<u32>,
}

impl RowSeries {
    /// A grid for `references` references to rows below `rows`.
    pub fn new(references: u64, rows: u32, columns: usize, bands: usize) -> RowSeries {
        let (columns, bands) = (columns.max(1), bands.clamp(1, rows.max(1) as usize));
        let rows_per_band = rows.max(1).div_ceil(bands as u32);
        RowSeries {
            bands: rows.max(1).div_ceil(rows_per_band) as usize,
            rows_per_band,
            per_column: references.div_ceil(columns as u64).max(1),
            seen: 0,
            counts: Vec::new(),
        }
    }

    /// A reference to `row`.
    pub fn touch(&mut self, row: u32) {
        let column = (self.seen / self.per_column) as usize;
        self.seen += 1;
        let band = ((row / self.rows_per_band) as usize).min(self.bands - 1);
        let at = column * self.bands + band;
        if at >= self.counts.len() {
            self.counts.resize((column + 1) * self.bands, 0);
        }
        self.counts[at] += 1;
    }

    /// Rows of a band.
    pub fn rows_per_band(&self) -> u32 {
        self.rows_per_band
    }

    /// References of a column.
    pub fn references_per_column(&self) -> u64 {
        self.per_column
    }

    /// References by column and band, where there are any: `(column, band, references)`.
    pub fn cells(&self) -> impl Iterator<Item = (usize, usize, u32)> + '_ {
        let bands = self.bands;
        self.counts.iter().enumerate().filter(|(_, n)| **n > 0).map(move |(i, n)| (i / bands, i % bands, *n))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn row_windows_match_naive(rows in prop::collection::vec(0u32..20, 1..200), width in 1usize..40) {
            let mut window = RowWindow::new(width).unwrap();
            rows.iter().for_each(|&row| window.touch(row));
            let naive: Vec<usize> = rows.windows(width).map(|w| w.iter().collect::<BTreeSet<_>>().len()).collect();
            let mean = (!naive.is_empty()).then(|| naive.iter().sum::<usize>() as f64 / naive.len() as f64);
            prop_assert_eq!(window.mean(), mean);
        }
    }

    #[test]
    fn a_window_of_nothing_is_refused() {
        assert!(RowWindow::new(0).is_err());
    }

    #[test]
    fn a_series_counts_every_reference_once() {
        let mut series = RowSeries::new(1000, 77, 10, 8);
        (0..1000u32).for_each(|i| series.touch(i * 31 % 77));
        assert_eq!(series.cells().map(|(_, _, n)| n).sum::<u32>(), 1000);
        assert!(series.cells().all(|(column, band, _)| column < 10 && band < 8));
    }
}
