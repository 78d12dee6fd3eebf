//! Who am I among how many: barrier, gather and broadcast over the ranks of a job.
