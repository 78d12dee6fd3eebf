//! Epochs, steps and the simulated accelerator.
