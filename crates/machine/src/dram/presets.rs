//! Shipped standards. Every number has its source beside it; "assumed" where none could be checked.

use std::collections::BTreeMap;

use super::standard::{Currents, DramCommand, Page, Refresh, Row, Standard, TimingScope};
use DramCommand::{Act, Pre, Rd, Ref, RefBank, RefSame, Wr};
use TimingScope::{Bank, Group, OtherRank, Rank};

/// Names of all presets, for messages and loops.
pub const NAMES: [&str; 16] = [
    "sdram-100-2",
    "sdram-100-4",
    "ddr3-1600k",
    "ddr4-2133p",
    "ddr4-2400u",
    "ddr4-2666v",
    "ddr4-2933y",
    "ddr4-3200aa",
    "ddr5-4800b",
    "ddr5-5600b",
    "ddr5-6400b",
    "lpddr5x-8533",
    "gddr5-8000",
    "hbm2-2000",
    "hbm3-6400",
    "hmc-2.1-vault",
];

/// The preset of that name.
pub fn preset(name: &str) -> Option<Standard> {
    Some(match name {
        "sdram-100-2" => sdram_100(2),
        "sdram-100-4" => sdram_100(4),
        "ddr3-1600k" => ddr3_1600k(),
        "ddr4-2133p" => ddr4_2133p(),
        "ddr4-2400u" => ddr4_2400u(),
        "ddr4-2666v" => ddr4_2666v(),
        "ddr4-2933y" => ddr4_2933y(),
        "ddr4-3200aa" => ddr4_3200aa(),
        "ddr5-4800b" => ddr5_4800b(),
        "ddr5-5600b" => ddr5_5600b(),
        "ddr5-6400b" => ddr5_6400b(),
        "lpddr5x-8533" => lpddr5x_8533(),
        "gddr5-8000" => gddr5_8000(),
        "hbm2-2000" => hbm2_2000(),
        "hbm3-6400" => hbm3_6400(),
        "hmc-2.1-vault" => hmc_vault(),
        _ => return None,
    })
}

fn row(prev: &[DramCommand], next: &[DramCommand], level: TimingScope, clocks: &str) -> Row {
    Row { prev: prev.into(), next: next.into(), level, clocks: clocks.into(), window: 1 }
}

/// Rows that all standards share (JESD79-4, section 4: state diagram and command timing; the same
/// pairs in JESD79-3, JESD79-5, JESD212, JESD235, JESD238).
fn common() -> Vec<Row> {
    vec![
        row(&[Act], &[Pre], Bank, "RAS"),
        row(&[Act], &[Act, Ref, RefBank], Bank, "RC"),
        row(&[Pre], &[Act, Ref, RefBank], Bank, "RP"),
        row(&[Rd], &[Pre], Bank, "RTP"),
        row(&[Wr], &[Pre], Bank, "CWL + BL + WR"),
        row(&[Ref], &[Act, Ref, RefBank], Rank, "RFC"),
        row(&[Rd], &[Rd], Rank, "CCD_S"),
        row(&[Wr], &[Wr], Rank, "CCD_S"),
        row(&[Rd], &[Wr], Rank, "CL + BL + RTW - CWL"),
        row(&[Wr], &[Rd], Rank, "CWL + BL + WTR_S"),
        row(&[Act], &[Act], Rank, "RRD_S"),
    ]
}

/// Ranks share the data bus; RTRS is the gap in which drivers change.
fn ranks() -> Vec<Row> {
    vec![
        row(&[Rd], &[Rd], OtherRank, "BL + RTRS"),
        row(&[Wr], &[Wr], OtherRank, "BL + RTRS"),
        row(&[Rd], &[Wr], OtherRank, "CL + BL + RTRS - CWL"),
        row(&[Wr], &[Rd], OtherRank, "CWL + BL + RTRS - CL"),
    ]
}

/// tRCD of reads and writes together.
fn one_rcd() -> Row {
    row(&[Act], &[Rd, Wr], Bank, "RCD")
}

/// tRCD of GDDR5 and HBM: writes may follow sooner. RCD is the reads'.
fn two_rcd() -> Vec<Row> {
    vec![row(&[Act], &[Rd], Bank, "RCD"), row(&[Act], &[Wr], Bank, "RCD_WR")]
}

fn four_activates() -> Row {
    Row { window: 4, ..row(&[Act], &[Act], Rank, "FAW") }
}

/// Bank groups (DDR4 and later).
fn groups() -> Vec<Row> {
    vec![
        row(&[Rd], &[Rd], Group, "CCD_L"),
        row(&[Wr], &[Wr], Group, "CCD_L"),
        row(&[Wr], &[Rd], Group, "CWL + BL + WTR_L"),
        row(&[Act], &[Act], Group, "RRD_L"),
    ]
}

/// Refresh of one bank while others work (GDDR5, HBM): to the same bank tRFCb, to others tRREFD.
fn bank_refresh() -> Vec<Row> {
    vec![
        row(&[RefBank], &[Act, RefBank, Ref], Bank, "RFC_B"),
        row(&[RefBank], &[Act, RefBank], Rank, "RREFD"),
        row(&[Act], &[RefBank], Rank, "RRD_S"),
    ]
}

/// Refresh of the same bank in each bank group (JESD79-5, REFsb command scheduling; tRFCsb and tREFSBRD in ns as
/// Ramulator 2.0's DDR5 has them): to those banks tRFCsb, as to the next such refresh, to others tREFSBRD. It comes in fine
/// granularity only, in which each bank is due every tREFI2, half of tREFI.
fn same_bank_refresh() -> Vec<Row> {
    vec![
        row(&[Act], &[RefSame], Bank, "RC"),
        row(&[Pre], &[RefSame], Bank, "RP"),
        row(&[Act], &[RefSame], Rank, "RRD_L"),
        row(&[Ref], &[RefSame], Rank, "RFC"),
        row(&[RefSame], &[Act], Bank, "RFC_SB"),
        row(&[RefSame], &[RefSame, Ref], Rank, "RFC_SB"),
        row(&[RefSame], &[Act], Rank, "REFSBRD"),
    ]
}

fn timings(list: &[(&str, u32)]) -> BTreeMap<String, u32> {
    list.iter().map(|&(name, clocks)| (name.to_string(), clocks)).collect()
}

fn rows(parts: impl IntoIterator<Item = Vec<Row>>) -> Vec<Row> {
    parts.into_iter().flatten().collect()
}

/// Single-data-rate SDRAM at 100 MHz on 64 bits, with rows of 4 KiB: PC100 devices with 2 or 4 banks.
///
/// Micron 64Mb SDRAM data sheet, speed grade -8E (PC100 2-2-2); 4-KiB rows and the bus width as in
/// Hasan, Chandra, Vijaykumar (ISCA 2003). Bursts of 8 words carry a 64-byte cell.
pub fn sdram_100(banks: u32) -> Standard {
    Standard {
        name: format!("sdram-100-{banks}"),
        source: "PC100 SDRAM 2-2-2 (Micron 64Mb -8E); bus and rows as in Hasan et al., ISCA 2003".into(),
        clock_mhz: 100,
        transfers: 1,
        channels: 1,
        ranks: 1,
        groups: 1,
        banks,
        rows: 4096,      // 64 Mb device with 12 row bits
        row_bytes: 4096, // Hasan et al.
        access_bytes: 64,
        split_command_bus: false,
        page: Page::Open,
        refresh: Refresh::AllBank,
        command_clocks: BTreeMap::new(),
        timings: timings(&[
            ("BL", 8),      // 8 words of 8 B
            ("CL", 2),      // PC100 2-2-2
            ("CWL", 0),     // write data go with the command
            ("RCD", 2),     // 20 ns
            ("RP", 2),      // 20 ns
            ("RAS", 5),     // 50 ns
            ("RC", 7),      // 70 ns
            ("RRD_S", 2),   // 20 ns
            ("RTP", 8),     // precharge CL - 1 clocks before the last word, which then still comes
            ("WR", 1),      // tDPL of 2 clocks counts from the last word's clock, which BL holds already
            ("CCD_S", 8),   // bursts are not interrupted
            ("RTW", 1),     // one clock for the bus to change direction
            ("WTR_S", 0),   // a read may follow the last written word
            ("RTRS", 1),    // assumed; one rank here
            ("RFC", 7),     // 70 ns
            ("REFI", 1562), // 64 ms / 4096 rows
        ]),
        constraints: rows([common(), ranks(), vec![one_rcd()]]),
        currents: None,
    }
}

/// DDR3-1600 11-11-11, 4 Gb x8, 64 bits.
pub fn ddr3_1600k() -> Standard {
    Standard {
        name: "ddr3-1600k".into(),
        source: "JESD79-3F DDR3-1600K, 4 Gb x8; currents: DRAMsim3 DDR3_8Gb_x8_1600".into(),
        clock_mhz: 800,
        transfers: 2,
        channels: 1,
        ranks: 1,
        groups: 1,
        banks: 8,
        rows: 1 << 16,
        row_bytes: 8192, // 1 KiB page, 8 devices
        access_bytes: 64,
        split_command_bus: false,
        page: Page::Open,
        refresh: Refresh::AllBank,
        command_clocks: BTreeMap::new(),
        timings: timings(&[
            ("BL", 4),      // BL8 at double data rate
            ("CL", 11),     // speed bin K
            ("CWL", 8),     // at 1600 MT/s
            ("RCD", 11),    // 13.75 ns
            ("RP", 11),     // 13.75 ns
            ("RAS", 28),    // 35 ns
            ("RC", 39),     // 48.75 ns
            ("RRD_S", 5),   // 6 ns, 1 KiB page
            ("FAW", 24),    // 30 ns, 1 KiB page
            ("RTP", 6),     // 7.5 ns
            ("WR", 12),     // 15 ns
            ("CCD_S", 4),   // 4 clocks
            ("RTW", 2),     // preambles
            ("WTR_S", 6),   // 7.5 ns
            ("RTRS", 2),    // assumed, as Ramulator's nCS
            ("RFC", 208),   // 260 ns, 4 Gb
            ("REFI", 6240), // 7.8 us
        ]),
        constraints: rows([common(), ranks(), vec![one_rcd(), four_activates()]]),
        currents: Some(Currents {
            devices: 8,
            vdd: 1.35,
            idd0: 67.0,
            idd2n: 36.0,
            idd3n: 51.0,
            idd4r: 125.0,
            idd4w: 125.0,
            idd5: 245.0,
        }),
    }
}

/// DDR4-2400 17-17-17, 8 Gb x8, 64 bits.
pub fn ddr4_2400u() -> Standard {
    Standard {
        name: "ddr4-2400u".into(),
        source: "JESD79-4C DDR4-2400U, 8 Gb x8; currents: Micron MT40A1G8 -083E as in DRAMsim3".into(),
        clock_mhz: 1200,
        transfers: 2,
        channels: 1,
        ranks: 1,
        groups: 4,
        banks: 4,
        rows: 1 << 16,
        row_bytes: 8192, // 1 KiB page, 8 devices
        access_bytes: 64,
        split_command_bus: false,
        page: Page::Open,
        refresh: Refresh::AllBank,
        command_clocks: BTreeMap::new(),
        timings: timings(&[
            ("BL", 4),      // BL8 at double data rate
            ("CL", 17),     // speed bin U
            ("CWL", 12),    // first set at 2400 MT/s
            ("RCD", 17),    // 14.16 ns
            ("RP", 17),     // 14.16 ns
            ("RAS", 39),    // 32 ns
            ("RC", 56),     // 46.16 ns
            ("RRD_S", 4),   // 3.3 ns, 1 KiB page
            ("RRD_L", 6),   // 4.9 ns, 1 KiB page
            ("FAW", 26),    // 21 ns, 1 KiB page
            ("RTP", 9),     // 7.5 ns
            ("WR", 18),     // 15 ns
            ("CCD_S", 4),   // 4 clocks
            ("CCD_L", 6),   // 5 ns
            ("RTW", 2),     // preambles
            ("WTR_S", 3),   // 2.5 ns
            ("WTR_L", 9),   // 7.5 ns
            ("RTRS", 2),    // assumed, as Ramulator's nCS
            ("RFC", 420),   // tRFC1 350 ns, 8 Gb
            ("REFI", 9360), // 7.8 us
        ]),
        constraints: rows([common(), ranks(), groups(), vec![one_rcd(), four_activates()]]),
        currents: Some(Currents {
            devices: 8,
            vdd: 1.2,
            idd0: 48.0,
            idd2n: 34.0,
            idd3n: 43.0,
            idd4r: 135.0,
            idd4w: 123.0,
            idd5: 250.0,
        }),
    }
}

/// DDR4-2133 15-15-15, 8 Gb x8, 64 bits.
pub fn ddr4_2133p() -> Standard {
    Standard {
        name: "ddr4-2133p".into(),
        source: "JESD79-4C DDR4-2133P, 8 Gb x8; currents: DRAMsim3 DDR4_8Gb_x8_2133".into(),
        clock_mhz: 1066,
        timings: timings(&[
            ("BL", 4),      // BL8 at double data rate
            ("CL", 15),     // speed bin P
            ("CWL", 11),    // first set at 2133 MT/s
            ("RCD", 15),    // 14.06 ns
            ("RP", 15),     // 14.06 ns
            ("RAS", 36),    // 33 ns
            ("RC", 51),     // 47.06 ns
            ("RRD_S", 4),   // 3.7 ns, 1 KiB page
            ("RRD_L", 6),   // 5.3 ns, 1 KiB page
            ("FAW", 23),    // 21 ns, 1 KiB page
            ("RTP", 8),     // 7.5 ns
            ("WR", 16),     // 15 ns
            ("CCD_S", 4),   // 4 clocks
            ("CCD_L", 6),   // 5.36 ns
            ("RTW", 2),     // preambles
            ("WTR_S", 3),   // 2.5 ns
            ("WTR_L", 8),   // 7.5 ns
            ("RTRS", 2),    // assumed, as Ramulator's nCS
            ("RFC", 374),   // tRFC1 350 ns, 8 Gb
            ("REFI", 8320), // 7.8 us
        ]),
        currents: Some(Currents {
            devices: 8,
            vdd: 1.2,
            idd0: 45.0,
            idd2n: 33.0,
            idd3n: 40.0,
            idd4r: 125.0,
            idd4w: 115.0,
            idd5: 250.0,
        }),
        ..ddr4_2400u()
    }
}

/// DDR4-2933 21-21-21, 8 Gb x8, 64 bits.
pub fn ddr4_2933y() -> Standard {
    Standard {
        name: "ddr4-2933y".into(),
        source: "JESD79-4C DDR4-2933Y, 8 Gb x8; currents: DRAMsim3 DDR4_8Gb_x8_2933".into(),
        clock_mhz: 1466,
        timings: timings(&[
            ("BL", 4),       // BL8 at double data rate
            ("CL", 21),      // speed bin Y
            ("CWL", 16),     // as DRAMsim3 has it at 2933 MT/s
            ("RCD", 21),     // 14.32 ns
            ("RP", 21),      // 14.32 ns
            ("RAS", 47),     // 32 ns
            ("RC", 68),      // 46.32 ns
            ("RRD_S", 4),    // 2.7 ns, 1 KiB page
            ("RRD_L", 8),    // 4.9 ns, 1 KiB page
            ("FAW", 31),     // 21 ns, 1 KiB page
            ("RTP", 11),     // 7.5 ns
            ("WR", 22),      // 15 ns
            ("CCD_S", 4),    // 4 clocks
            ("CCD_L", 8),    // 5 ns
            ("RTW", 2),      // preambles
            ("WTR_S", 4),    // 2.5 ns
            ("WTR_L", 11),   // 7.5 ns
            ("RTRS", 2),     // assumed, as Ramulator's nCS
            ("RFC", 514),    // tRFC1 350 ns, 8 Gb
            ("REFI", 11440), // 7.8 us
        ]),
        currents: Some(Currents {
            devices: 8,
            vdd: 1.2,
            idd0: 54.0,
            idd2n: 36.0,
            idd3n: 49.0,
            idd4r: 157.0,
            idd4w: 141.0,
            idd5: 250.0,
        }),
        ..ddr4_2400u()
    }
}

/// DDR4-2666 19-19-19, 8 Gb x8, 64 bits.
pub fn ddr4_2666v() -> Standard {
    Standard {
        name: "ddr4-2666v".into(),
        source: "JESD79-4C DDR4-2666V, 8 Gb x8; currents: DRAMsim3 DDR4_8Gb_x8_2666".into(),
        clock_mhz: 1333,
        transfers: 2,
        channels: 1,
        ranks: 1,
        groups: 4,
        banks: 4,
        rows: 1 << 16,
        row_bytes: 8192, // 1 KiB page, 8 devices
        access_bytes: 64,
        split_command_bus: false,
        page: Page::Open,
        refresh: Refresh::AllBank,
        command_clocks: BTreeMap::new(),
        timings: timings(&[
            ("BL", 4),       // BL8 at double data rate
            ("CL", 19),      // speed bin V
            ("CWL", 14),     // first set at 2666 MT/s
            ("RCD", 19),     // 14.25 ns
            ("RP", 19),      // 14.25 ns
            ("RAS", 43),     // 32 ns
            ("RC", 62),      // 46.25 ns
            ("RRD_S", 4),    // 3 ns, 1 KiB page
            ("RRD_L", 7),    // 4.9 ns, 1 KiB page
            ("FAW", 28),     // 21 ns, 1 KiB page
            ("RTP", 10),     // 7.5 ns
            ("WR", 20),      // 15 ns
            ("CCD_S", 4),    // 4 clocks
            ("CCD_L", 7),    // 5 ns
            ("RTW", 2),      // preambles
            ("WTR_S", 4),    // 2.5 ns
            ("WTR_L", 10),   // 7.5 ns
            ("RTRS", 2),     // assumed, as Ramulator's nCS
            ("RFC", 467),    // tRFC1 350 ns, 8 Gb
            ("REFI", 10400), // 7.8 us
        ]),
        constraints: rows([common(), ranks(), groups(), vec![one_rcd(), four_activates()]]),
        currents: Some(Currents {
            devices: 8,
            vdd: 1.2,
            idd0: 51.0,
            idd2n: 35.0,
            idd3n: 46.0,
            idd4r: 146.0,
            idd4w: 132.0,
            idd5: 250.0,
        }),
    }
}

/// DDR4-3200 22-22-22, 8 Gb x8, 64 bits.
pub fn ddr4_3200aa() -> Standard {
    Standard {
        name: "ddr4-3200aa".into(),
        source: "JESD79-4C DDR4-3200AA, 8 Gb x8; currents: DRAMsim3 DDR4_8Gb_x8_3200".into(),
        clock_mhz: 1600,
        timings: timings(&[
            ("BL", 4),       // BL8 at double data rate
            ("CL", 22),      // speed bin AA
            ("CWL", 16),     // first set at 3200 MT/s
            ("RCD", 22),     // 13.75 ns
            ("RP", 22),      // 13.75 ns
            ("RAS", 52),     // 32 ns
            ("RC", 74),      // 45.75 ns
            ("RRD_S", 4),    // 2.5 ns, 1 KiB page
            ("RRD_L", 8),    // 4.9 ns, 1 KiB page
            ("FAW", 34),     // 21 ns, 1 KiB page
            ("RTP", 12),     // 7.5 ns
            ("WR", 24),      // 15 ns
            ("CCD_S", 4),    // 4 clocks
            ("CCD_L", 8),    // 5 ns
            ("RTW", 2),      // preambles
            ("WTR_S", 4),    // 2.5 ns
            ("WTR_L", 12),   // 7.5 ns
            ("RTRS", 2),     // assumed, as Ramulator's nCS
            ("RFC", 560),    // tRFC1 350 ns, 8 Gb
            ("REFI", 12480), // 7.8 us
        ]),
        currents: Some(Currents {
            devices: 8,
            vdd: 1.2,
            idd0: 57.0,
            idd2n: 37.0,
            idd3n: 52.0,
            idd4r: 168.0,
            idd4w: 150.0,
            idd5: 250.0,
        }),
        ..ddr4_2400u()
    }
}

/// DDR5-4800 40-39-39, 16 Gb x8: the two 32-bit sub-channels of a module.
pub fn ddr5_4800b() -> Standard {
    Standard {
        name: "ddr5-4800b".into(),
        source: "JESD79-5 DDR5-4800B, 16 Gb x8".into(),
        clock_mhz: 2400,
        transfers: 2,
        channels: 2,
        ranks: 1,
        groups: 8,
        banks: 4,
        rows: 1 << 16,
        row_bytes: 4096, // 1 KiB page, 4 devices
        access_bytes: 64,
        split_command_bus: false,
        page: Page::Open,
        refresh: Refresh::AllBank,
        command_clocks: two_clock_commands(),
        timings: timings(&[
            ("BL", 8),        // BL16 at double data rate
            ("CL", 40),       // speed bin B
            ("CWL", 38),      // CL - 2
            ("RCD", 39),      // 16 ns
            ("RP", 39),       // 16 ns
            ("RAS", 77),      // 32 ns
            ("RC", 116),      // 48 ns
            ("RRD_S", 8),     // 8 clocks
            ("RRD_L", 12),    // 5 ns
            ("FAW", 32),      // 32 clocks, 1 KiB page
            ("PPD", 2),       // 2 clocks
            ("RTP", 18),      // 7.5 ns
            ("WR", 72),       // 30 ns
            ("CCD_S", 8),     // 8 clocks
            ("CCD_L", 12),    // 5 ns
            ("CCD_L_WR", 24), // tCCD_L_WR2, 10 ns: x8 writes whole code words
            ("RTW", 4),       // preambles of 2 clocks and half a postamble
            ("WTR_S", 6),     // 2.5 ns
            ("WTR_L", 24),    // 10 ns
            ("RTRS", 2),      // assumed, as Ramulator's nCS
            ("RFC", 708),     // tRFC1 295 ns, 16 Gb
            ("REFI", 9360),   // 3.9 us
            ("RFC_SB", 312),  // tRFCsb 130 ns, 16 Gb
            ("REFSBRD", 72),  // tREFSBRD 30 ns
            ("REFI2", 4680),  // tREFI2 1.95 us
        ]),
        constraints: ddr5_rows(),
        currents: None,
    }
}

/// DDR5-5600 46-45-45, 16 Gb x8: the two 32-bit sub-channels of a module.
pub fn ddr5_5600b() -> Standard {
    Standard {
        name: "ddr5-5600b".into(),
        source: "JESD79-5 DDR5-5600B, 16 Gb x8".into(),
        clock_mhz: 2800,
        timings: timings(&[
            ("BL", 8),        // BL16 at double data rate
            ("CL", 46),       // speed bin B
            ("CWL", 44),      // CL - 2
            ("RCD", 45),      // 16 ns
            ("RP", 45),       // 16 ns
            ("RAS", 90),      // 32 ns
            ("RC", 135),      // 48 ns
            ("RRD_S", 8),     // 8 clocks
            ("RRD_L", 14),    // 5 ns
            ("FAW", 32),      // 32 clocks, 1 KiB page
            ("PPD", 2),       // 2 clocks
            ("RTP", 21),      // 7.5 ns
            ("WR", 84),       // 30 ns
            ("CCD_S", 8),     // 8 clocks
            ("CCD_L", 14),    // 5 ns
            ("CCD_L_WR", 28), // tCCD_L_WR2, 10 ns
            ("RTW", 4),       // preambles of 2 clocks and half a postamble
            ("WTR_S", 7),     // 2.5 ns
            ("WTR_L", 28),    // 10 ns
            ("RTRS", 2),      // assumed, as Ramulator's nCS
            ("RFC", 826),     // tRFC1 295 ns, 16 Gb
            ("REFI", 10920),  // 3.9 us
            ("RFC_SB", 364),  // tRFCsb 130 ns, 16 Gb
            ("REFSBRD", 84),  // tREFSBRD 30 ns
            ("REFI2", 5460),  // tREFI2 1.95 us
        ]),
        ..ddr5_4800b()
    }
}

/// DDR5-6400 52-52-52, 16 Gb x8: the two 32-bit sub-channels of a module.
pub fn ddr5_6400b() -> Standard {
    Standard {
        name: "ddr5-6400b".into(),
        source: "JESD79-5 DDR5-6400B, 16 Gb x8".into(),
        clock_mhz: 3200,
        timings: timings(&[
            ("BL", 8),        // BL16 at double data rate
            ("CL", 52),       // speed bin B
            ("CWL", 50),      // CL - 2
            ("RCD", 52),      // 16.25 ns
            ("RP", 52),       // 16.25 ns
            ("RAS", 103),     // 32 ns
            ("RC", 155),      // 48.25 ns
            ("RRD_S", 8),     // 8 clocks
            ("RRD_L", 16),    // 5 ns
            ("FAW", 32),      // 10 ns, 1 KiB page
            ("PPD", 2),       // 2 clocks
            ("RTP", 24),      // 7.5 ns
            ("WR", 96),       // 30 ns
            ("CCD_S", 8),     // 8 clocks
            ("CCD_L", 16),    // 5 ns
            ("CCD_L_WR", 32), // tCCD_L_WR2, 10 ns
            ("RTW", 4),       // preambles of 2 clocks and half a postamble
            ("WTR_S", 8),     // 2.5 ns
            ("WTR_L", 32),    // 10 ns
            ("RTRS", 2),      // assumed, as Ramulator's nCS
            ("RFC", 944),     // tRFC1 295 ns, 16 Gb
            ("REFI", 12480),  // 3.9 us
            ("RFC_SB", 416),  // tRFCsb 130 ns, 16 Gb
            ("REFSBRD", 96),  // tREFSBRD 30 ns
            ("REFI2", 6240),  // tREFI2 1.95 us
        ]),
        ..ddr5_4800b()
    }
}

fn two_clock_commands() -> BTreeMap<DramCommand, u32> {
    // JESD79-5 command truth table: these carry more address bits than one clock holds.
    [(Act, 2), (Rd, 2), (Wr, 2)].into()
}

fn ddr5_rows() -> Vec<Row> {
    rows([
        common(),
        ranks(),
        groups(),
        same_bank_refresh(),
        vec![one_rcd(), four_activates(), row(&[Wr], &[Wr], Group, "CCD_L_WR"), row(&[Pre], &[Pre], Rank, "PPD")],
    ])
}

/// LPDDR5X-8533, 16 Gb a channel of 16 bits: the four channels of a package of 64 bits.
///
/// Bank-group mode, WCK to CK 4:1, bursts of 16: a line takes two. Two bursts of one bank group start BL/n_max apart, two of
/// others BL/n_min, which is as long as the data take. What differs from the device is in DEVIATIONS.md.
pub fn lpddr5x_8533() -> Standard {
    Standard {
        name: "lpddr5x-8533".into(),
        source: "JESD209-5B bank-group mode, 16 Gb x16; as Ramulator 2.1 LPDDR5 and AMD's DDRMC5 at tCK 938 ps have it"
            .into(),
        clock_mhz: 1066,
        transfers: 8,
        channels: 4,
        ranks: 1,
        groups: 4,
        banks: 4,
        rows: 1 << 16,
        row_bytes: 2048,  // 2 KiB page
        access_bytes: 32, // BL16 on 16 bits
        split_command_bus: false,
        page: Page::Open,
        refresh: Refresh::PerBank,
        command_clocks: [(Act, 2)].into(), // ACT-1 and ACT-2, here back to back
        timings: timings(&[
            ("BL", 2),       // BL/n_min of BL16: 8 bits a pin in a clock
            ("BL_L", 4),     // BL/n_max of BL16
            ("CL", 25),      // RL, DDRMC5
            ("CWL", 12),     // WL, DDRMC5
            ("RCD", 20),     // 18 ns
            ("RP", 20),      // tRPpb 18 ns
            ("RAS", 45),     // 42 ns
            ("RC", 64),      // tRAS + tRPpb, 60 ns
            ("RRD_S", 4),    // 3.75 ns, DDRMC5
            ("RRD_L", 4),    // as tRRD_S
            ("FAW", 16),     // 15 ns, DDRMC5; four tRRD, so it never binds
            ("PPD", 2),      // 2 clocks
            ("RTP", 8),      // 7.5 ns
            ("WR", 37),      // 34 ns
            ("CCD_S", 2),    // BL/n_min
            ("CCD_L", 4),    // BL/n_max
            ("RTW", 2),      // tWCK2DQO, as Ramulator 2.1
            ("WTR_S", 7),    // 6.25 ns
            ("WTR_L", 13),   // 12 ns
            ("RTRS", 2),     // assumed, as Ramulator's nCS
            ("RFC", 299),    // tRFCab 280 ns, 16 Gb
            ("RFC_B", 150),  // tRFCpb 140 ns, 16 Gb
            ("PBR2PBR", 96), // tpbR2pbR 90 ns
            ("RREFD", 8),    // tpbR2act 7.5 ns
            ("REFI", 4164),  // 3.906 us
        ]),
        constraints: rows([
            common(),
            // A read's data come so much later than a write's that a write keeps no read of another rank away.
            ranks().into_iter().filter(|row| row.prev != [Wr] || row.next != [Rd]).collect(),
            groups(),
            bank_refresh(),
            vec![
                one_rcd(),
                four_activates(),
                row(&[Wr], &[Rd], Group, "CWL + BL_L + WTR_L"),
                row(&[RefBank], &[RefBank], Rank, "PBR2PBR"),
                row(&[Pre], &[Pre], Rank, "PPD"),
            ],
        ]),
        currents: None,
    }
}

/// GDDR5 at 8 Gb/s a pin, 8 Gb x32: one device.
///
/// GDDR5 has two data clocks to a command clock, so a burst of 8 takes two clocks. The window over 32
/// activates is left out.
pub fn gddr5_8000() -> Standard {
    Standard {
        name: "gddr5-8000".into(),
        source: "JESD212C commands; timings and currents: DRAMsim3 GDDR5_8Gb_x32 (there: of no product)".into(),
        clock_mhz: 2000,
        transfers: 4,
        channels: 1,
        ranks: 1,
        groups: 4,
        banks: 4,
        rows: 1 << 14,
        row_bytes: 4096, // 8 Gb over 16 banks of 16384 rows
        access_bytes: 32,
        split_command_bus: false,
        page: Page::Open,
        refresh: Refresh::AllBank,
        command_clocks: BTreeMap::new(),
        timings: timings(&[
            ("BL", 2),      // burst of 8, 4 words a clock
            ("CL", 24),     // DRAMsim3, and so on down to REFI where nothing else is said
            ("CWL", 7),     // same
            ("RCD", 24),    // same, reads
            ("RCD_WR", 20), // same, writes
            ("RP", 24),     // same
            ("RAS", 56),    // same
            ("RC", 80),     // tRAS + tRP
            ("RRD_S", 10),  // same
            ("RRD_L", 10),  // same
            ("FAW", 40),    // same
            ("PPD", 5),     // same
            ("RTP", 2),     // same
            ("WR", 24),     // same
            ("CCD_S", 2),   // same
            ("CCD_L", 3),   // same
            ("RTW", 2),     // preambles
            ("WTR_S", 10),  // same
            ("WTR_L", 10),  // same
            ("RFC", 74),    // same
            ("RFC_B", 30),  // same
            ("RREFD", 10),  // assumed: as tRRD
            ("REFI", 3800), // 1.9 us
        ]),
        constraints: rows([
            common(),
            two_rcd(),
            groups(),
            bank_refresh(),
            vec![four_activates(), row(&[Pre], &[Pre], Rank, "PPD")],
        ]),
        currents: Some(Currents {
            devices: 1,
            vdd: 1.5,
            idd0: 75.0,
            idd2n: 45.0,
            idd3n: 55.0,
            idd4r: 211.0,
            idd4w: 198.0,
            idd5: 286.0,
        }),
    }
}

/// HBM2 at 2 Gb/s a pin: the 16 pseudo-channels of a stack with 4 Gb a channel.
///
/// Pseudo-channels are independent here; in the device two of them share the command buses.
pub fn hbm2_2000() -> Standard {
    Standard {
        name: "hbm2-2000".into(),
        source: "JESD235D organisation and refresh; timings: Ramulator 2.1 HBM2_2000Mbps".into(),
        clock_mhz: 1000,
        transfers: 2,
        channels: 16,
        ranks: 1,
        groups: 4,
        banks: 4,
        rows: 1 << 14,
        row_bytes: 1024,  // 1 KiB page of a pseudo-channel
        access_bytes: 32, // BL4 on 64 bits
        split_command_bus: true,
        page: Page::Open,
        refresh: Refresh::AllBank,
        command_clocks: [(Act, 2)].into(), // JESD235D: activate takes two clocks of the row bus
        timings: timings(&[
            ("BL", 2),      // BL4 at double data rate
            ("CL", 14),     // Ramulator 2.1, and so on down to REFI where nothing else is said
            ("CWL", 5),     // same
            ("RCD", 14),    // same, reads
            ("RCD_WR", 12), // same, writes
            ("RP", 14),     // same
            ("RAS", 34),    // same
            ("RC", 48),     // same
            ("RRD_S", 4),   // same, 4 ns
            ("RRD_L", 4),   // same, 4 ns
            ("FAW", 16),    // 15 ns there; 16 is four tRRD, so it never binds
            ("RTP", 5),     // same
            ("WR", 16),     // same
            ("CCD_S", 2),   // same
            ("CCD_L", 4),   // same
            ("RTW", 2),     // preambles
            ("WTR_S", 6),   // same
            ("WTR_L", 8),   // same
            ("RFC", 160),   // 160 ns, 2 Gb a pseudo-channel
            ("RFC_B", 160), // tRFCSB 160 ns
            ("RREFD", 8),   // tRREFD 8 ns
            ("REFI", 3900), // 3.9 us
        ]),
        constraints: rows([common(), two_rcd(), groups(), bank_refresh(), vec![four_activates()]]),
        currents: Some(Currents {
            // DRAMsim3 HBM2_8Gb_x128, of a channel: half of it a pseudo-channel is left out.
            devices: 1,
            vdd: 1.2,
            idd0: 65.0,
            idd2n: 40.0,
            idd3n: 55.0,
            idd4r: 390.0,
            idd4w: 500.0,
            idd5: 250.0,
        }),
    }
}

/// HBM3 at 6.4 Gb/s a pin: the 32 pseudo-channels of a stack.
pub fn hbm3_6400() -> Standard {
    Standard {
        name: "hbm3-6400".into(),
        source: "JESD238 organisation and refresh; timings: Ramulator 2.1 HBM3_6400Mbps".into(),
        clock_mhz: 1600,
        transfers: 4,
        channels: 32,
        ranks: 1,
        groups: 4,
        banks: 4,
        rows: 1 << 15,
        row_bytes: 1024,  // 1 KiB page of a pseudo-channel
        access_bytes: 32, // BL8 on 32 bits
        split_command_bus: true,
        page: Page::Open,
        refresh: Refresh::AllBank,
        command_clocks: [(Act, 2)].into(), // one and a half clocks, in whole ones
        timings: timings(&[
            ("BL", 2),      // BL8, 4 words a clock
            ("CL", 26),     // Ramulator 2.1, and so on down to REFI where nothing else is said
            ("CWL", 8),     // same
            ("RCD", 26),    // same, reads
            ("RCD_WR", 14), // same, writes
            ("RP", 26),     // same
            ("RAS", 48),    // same
            ("RC", 74),     // same
            ("RRD_S", 8),   // same, 5 ns
            ("RRD_L", 8),   // same, 5 ns
            ("FAW", 32),    // 15 ns there; 32 is four tRRD, so it never binds
            ("PPD", 2),     // same
            ("RTP", 6),     // same
            ("WR", 24),     // same
            ("CCD_S", 2),   // same
            ("CCD_L", 4),   // same
            ("RTW", 2),     // nBTR there
            ("WTR_S", 8),   // same
            ("WTR_L", 12),  // same
            ("RFC", 560),   // 350 ns, 4 Gb a pseudo-channel
            ("RFC_B", 320), // 200 ns
            ("RREFD", 13),  // 8 ns
            ("REFI", 6240), // 3.9 us
        ]),
        constraints: rows([
            common(),
            two_rcd(),
            groups(),
            bank_refresh(),
            vec![four_activates(), row(&[Pre], &[Pre], Rank, "PPD")],
        ]),
        currents: None,
    }
}

/// The vaults of an HMC 2.1 cube of 8 GiB; links and crossbar are in [`super::hmc`].
pub fn hmc_vault() -> Standard {
    Standard {
        name: "hmc-2.1-vault".into(),
        source: "HMC specification 2.1 organisation; timings and currents: DRAMsim3 HMC2_8GB_4Lx16".into(),
        clock_mhz: 1250,
        transfers: 2,
        channels: 32, // vaults
        ranks: 1,
        groups: 1,
        banks: 16,
        rows: 1 << 16,
        row_bytes: 256, // page of a vault
        access_bytes: 64,
        split_command_bus: false,
        page: Page::Closed,
        refresh: Refresh::AllBank,
        command_clocks: BTreeMap::new(),
        timings: timings(&[
            ("BL", 8),      // 64 B over 32 TSVs at 2.5 Gb/s: 10 GB/s a vault
            ("CL", 17),     // DRAMsim3, and so on down to REFI where nothing else is said
            ("CWL", 17),    // same
            ("RCD", 17),    // same
            ("RP", 17),     // same
            ("RAS", 34),    // same
            ("RC", 51),     // tRAS + tRP
            ("RRD_S", 6),   // same
            ("FAW", 27),    // same
            ("RTP", 10),    // same
            ("WR", 19),     // same
            ("CCD_S", 8),   // 6 there; a burst of 64 B takes 8
            ("RTW", 2),     // assumed
            ("WTR_S", 3),   // same
            ("RFC", 420),   // same
            ("REFI", 9364), // same
        ]),
        constraints: rows([common(), vec![one_rcd(), four_activates()]]),
        currents: Some(Currents {
            devices: 1,
            vdd: 1.2,
            idd0: 25.0,
            idd2n: 19.0,
            idd3n: 21.0,
            idd4r: 64.0,
            idd4w: 61.0,
            idd5: 150.0,
        }),
    }
}
