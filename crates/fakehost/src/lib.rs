//! A host for tests: resctrl and model-specific registers backed by the simulated plant.
