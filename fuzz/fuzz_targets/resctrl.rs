//! Texts of resctrl and of processors: any. What is read is written as it was read.

#![no_main]

use host::resctrl::longest_run;
use host::{CpuIdentity, CpuList, GroupMode, MonitorReading, Schemata};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    if let Ok(schemata) = text.parse::<Schemata>() {
        assert_eq!(schemata.to_string().parse::<Schemata>().unwrap(), schemata);
        for (_, mask) in schemata.masks("L3") {
            let run = longest_run(mask);
            assert!(run.0 & !mask.0 == 0 && (run.0 == 0 || run.is_contiguous()));
        }
    }
    if let Ok(cpus) = text.parse::<CpuList>() {
        assert_eq!(cpus.to_string().parse::<CpuList>().unwrap(), cpus);
    }
    let _ = (text.parse::<GroupMode>(), text.parse::<MonitorReading>(), CpuIdentity::parse(&text));
});
