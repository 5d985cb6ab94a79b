//! Statistics of a network interface's driver, as `ethtool -S` shows them: losses that `/sys/class/net` does not have, such as
//! `rx_out_of_buffer` of mlx5.

use std::io;

use crate::HostError;
use crate::calls::{self, MOST_STATISTICS, NAME_BYTES};

/// What a driver answers.
pub trait EthtoolCalls: Send {
    /// How many statistics there are.
    ///
    /// # Errors
    /// As the system's: ENODEV for no such interface, EOPNOTSUPP for a driver without.
    fn count(&self, interface: &str) -> io::Result<usize>;
    /// Their names, 32 bytes each.
    ///
    /// # Errors
    /// As of the count.
    fn names(&self, interface: &str) -> io::Result<Vec<u8>>;
    /// Their values.
    ///
    /// # Errors
    /// As of the count.
    fn values(&self, interface: &str, n: usize) -> io::Result<Vec<u64>>;
}

/// The drivers of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelEthtool;

impl EthtoolCalls for KernelEthtool {
    fn count(&self, interface: &str) -> io::Result<usize> {
        calls::statistics_count(interface)
    }

    fn names(&self, interface: &str) -> io::Result<Vec<u8>> {
        calls::statistics_names(interface)
    }

    fn values(&self, interface: &str, n: usize) -> io::Result<Vec<u64>> {
        calls::statistics_values(interface, n)
    }
}

/// So often statistics that change in number are read again.
const TRIES: u32 = 3;
/// Names that a message lists, at most.
const MOST_LISTED: usize = 30;
/// What is listed first, since it is what is looked for.
const LOSSES: [&str; 5] = ["miss", "drop", "buf", "discard", "error"];

/// The statistics of an interface, in the driver's order.
///
/// # Errors
/// No such interface, a driver without statistics, one that changes their number all the time.
pub fn statistics(calls: &dyn EthtoolCalls, interface: &str) -> Result<Vec<(String, u64)>, HostError> {
    let path = || format!("statistics of {interface}");
    let fault = |e| HostError::system("reading", path(), e);
    for _ in 0..TRIES {
        let n = calls.count(interface).map_err(fault)?;
        if n == 0 || n > MOST_STATISTICS {
            return Err(HostError::form(path(), &format!("{n}"), format!("1 to {MOST_STATISTICS} of them")));
        }
        let names = calls.names(interface).map_err(fault)?;
        let values = calls.values(interface, n).map_err(fault)?;
        if names.len() != n * NAME_BYTES || values.len() != n {
            continue;
        }
        let name = |bytes: &[u8]| {
            let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(bytes).trim().to_string()
        };
        return Ok(names.chunks_exact(NAME_BYTES).map(name).zip(values).collect());
    }
    Err(HostError::form(path(), "another number each time", "names and values that fit"))
}

/// The sum of those of these names; a `*` in a name stands for anything (`rx_queue_*_drops`).
///
/// # Errors
/// A name that fits nothing, with those that there are.
pub fn sum(statistics: &[(String, u64)], names: &[String], interface: &str) -> Result<u64, HostError> {
    let mut sum = 0u64;
    for name in names {
        let mut fitting = statistics.iter().filter(|(known, _)| fits(name, known)).peekable();
        if fitting.peek().is_none() {
            return Err(HostError::Key {
                path: format!("statistics of {interface}"),
                key: name.clone(),
                known: listed(statistics),
            });
        }
        sum = fitting.fold(sum, |sum, (_, value)| sum.wrapping_add(*value));
    }
    Ok(sum)
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail),
    }
}

fn listed(statistics: &[(String, u64)]) -> String {
    let names = || statistics.iter().map(|(name, _)| name.as_str());
    let is_loss = |name: &&str| LOSSES.iter().any(|word| name.contains(word));
    let all: Vec<&str> = names().filter(is_loss).chain(names().filter(|name| !is_loss(name))).collect();
    let more = if all.len() > MOST_LISTED { format!(", and {} more", all.len() - MOST_LISTED) } else { String::new() };
    format!("{}{more}", all[..all.len().min(MOST_LISTED)].join(", "))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use super::*;

    /// A driver that answers what it is told to, and another number of values so many times first.
    struct Made {
        count: usize,
        names: Vec<u8>,
        values: Vec<u64>,
        grows: Cell<u32>,
    }

    impl EthtoolCalls for Made {
        fn count(&self, interface: &str) -> io::Result<usize> {
            if interface == "eth0" { Ok(self.count) } else { Err(io::Error::from_raw_os_error(19)) }
        }
        fn names(&self, _: &str) -> io::Result<Vec<u8>> {
            Ok(self.names.clone())
        }
        fn values(&self, _: &str, n: usize) -> io::Result<Vec<u64>> {
            if self.grows.get() > 0 {
                self.grows.set(self.grows.get() - 1);
                return Ok(vec![9; n + 1]);
            }
            Ok(self.values.clone())
        }
    }

    fn made(names: &[&str], values: &[u64], grows: u32) -> Made {
        let bytes = names.iter().flat_map(|name| {
            let mut bytes = [0u8; NAME_BYTES];
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            bytes
        });
        let names: Vec<u8> = bytes.collect();
        Made { count: values.len(), names, values: values.to_vec(), grows: Cell::new(grows) }
    }

    const NAMES: [&str; 5] = ["rx_packets", "rx_queue_0_drops", "rx_queue_1_drops", "rx_out_of_buffer", "tx_bytes"];

    fn read(grows: u32) -> Result<Vec<(String, u64)>, String> {
        statistics(&made(&NAMES, &[100, 1, 2, 40, 5], grows), "eth0").map_err(|e| e.to_string())
    }

    fn sum_of(names: &[&str]) -> Result<u64, String> {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        sum(&read(0)?, &names, "eth0").map_err(|e| e.to_string())
    }

    #[test]
    fn statistics_of_a_driver_are_added_up_by_name() {
        assert_eq!(sum_of(&["rx_out_of_buffer"]), Ok(40));
        assert_eq!(sum_of(&["rx_out_of_buffer", "rx_queue_*_drops"]), Ok(43));
        assert_eq!(sum_of(&[]), Ok(0));
        let unknown = sum_of(&["rx_missed"]).unwrap_err();
        let expected = "statistics of eth0: there is no \"rx_missed\"; there are rx_queue_0_drops, rx_queue_1_drops, \
                        rx_out_of_buffer, rx_packets, tx_bytes";
        assert_eq!(unknown, expected, "what may be losses comes first");
        assert!(sum_of(&["rx_packets*rx_packets"]).is_err(), "the ends of a name do not overlap");
    }

    #[test]
    fn a_number_that_changes_is_read_again_and_one_that_cannot_be_is_refused() {
        assert_eq!(read(2).unwrap().len(), 5);
        assert!(read(3).unwrap_err().contains("another number each time"));
        let error = |made: Made, of| statistics(&made, of).unwrap_err().to_string();
        assert!(error(made(&[], &[], 0), "eth0").contains("\"0\" came where 1 to 16384"));
        assert!(error(Made { count: usize::MAX, ..made(&NAMES, &[1], 0) }, "eth0").contains("1 to 16384"));
        assert!(error(Made { names: vec![0; 31], ..made(&NAMES, &[1], 0) }, "eth0").contains("names and values"));
        assert!(error(made(&NAMES, &[1], 0), "eth7").starts_with("reading statistics of eth7"));
    }

    #[test]
    fn the_kernel_tells_of_this_machines_interfaces_as_many_names_and_values_as_it_counts() {
        let ask = |interface: &str| (KernelEthtool.count(interface), statistics(&KernelEthtool, interface));
        let (count, told) = ask("lo");
        assert_eq!(count.unwrap(), 0, "the loopback's driver has none");
        assert!(told.unwrap_err().to_string().contains("\"0\" came where 1 to "));
        let nobody = calls::statistics_count("wirespeed-none").unwrap_err();
        assert_eq!(nobody.raw_os_error(), Some(libc::ENODEV));
        for interface in std::fs::read_dir("/sys/class/net").unwrap() {
            let interface = interface.unwrap().file_name().into_string().unwrap();
            // A driver without any, or a file among the interfaces that is none.
            let (Ok(count @ 1..), told) = ask(&interface) else { continue };
            let told = told.unwrap();
            let names: BTreeSet<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(told.len(), count, "{interface}");
            assert!(!names.contains("") && names.iter().all(|name| name.len() <= NAME_BYTES), "{interface}: {names:?}");
        }
        let name = calls::statistics_count("a-name-that-is-too-long").unwrap_err();
        assert_eq!(name.kind(), io::ErrorKind::InvalidInput);
    }
}
