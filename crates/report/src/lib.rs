//! Result files and tables.
