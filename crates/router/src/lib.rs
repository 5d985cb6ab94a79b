//! A router that runs: packets from a source through packet functions to a sink, on CPU threads or on a GPU.
