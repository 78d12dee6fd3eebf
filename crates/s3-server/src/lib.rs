//! The embedded S3 test server, with fault rules.
