//! The real machine as types: resctrl, I/O ways, counters, telemetry. Every root path is an argument.
