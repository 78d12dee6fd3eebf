//! File names, shards, shuffles, formats and generation of a data set.
