//! From a list of files to ready batches: shard, window, prefetch, backpressure.
