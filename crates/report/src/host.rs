//! Facts about the host a result comes from, and whether an endpoint is on that same host.

use std::fs;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::Path;

use feedrate_metrics::process::{hostname, pairs};
use feedrate_metrics::units::ByteCount;
use serde::{Deserialize, Serialize};

use crate::ReportError;

/// `name : value` lines of procfs, in the kernel's order.
type Pairs = Vec<(String, String)>;

/// What a result says about its host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Its name, without the domain unless the kernel's name has one.
    pub hostname: String,
    /// CPUs the kernel knows, hyper-threads counted.
    pub logical_cpus: u32,
    /// The CPU's model name; the architecture where the kernel gives none.
    pub cpu_model: String,
    /// Whether the CPU computes SHA-256 in hardware, which signing and TLS feel: `sha_ni` on x86,
    /// `sha2` on aarch64.
    pub sha_extensions: bool,
    /// Memory in all.
    pub memory: ByteCount,
    /// `/proc/cpuinfo` of the last CPU, without its `processor` line.
    pub cpuinfo: Pairs,
    /// `/proc/meminfo`.
    pub meminfo: Pairs,
}

impl HostFacts {
    /// Of this host, now.
    pub fn read() -> Result<Self, ReportError> {
        let text =
            |path: &str| fs::read_to_string(path).map_err(ReportError::read(Path::new(path)));
        Ok(Self::parse(
            &hostname().map_err(ReportError::read(Path::new("/proc/sys/kernel/hostname")))?,
            &text("/proc/cpuinfo")?,
            &text("/proc/meminfo")?,
        ))
    }

    fn parse(hostname: &str, cpuinfo: &str, meminfo: &str) -> Self {
        let is_processor = |line: &&str| line.split(':').next().unwrap_or("").trim() == "processor";
        // Some kernels end with a block about the board, which is no CPU.
        let last_cpu = cpuinfo
            .rsplit("\n\n")
            .find(|block| block.lines().any(|line| is_processor(&line)))
            .unwrap_or("");
        let mut cpu = pairs(last_cpu);
        cpu.retain(|(name, _)| name != "processor");
        let meminfo = pairs(meminfo);
        let flags = value(&cpu, "flags").or_else(|| value(&cpu, "Features")).unwrap_or("");
        let memory_kib = value(&meminfo, "MemTotal")
            .and_then(|total| total.split_ascii_whitespace().next()?.parse::<u64>().ok());
        Self {
            hostname: hostname.to_owned(),
            logical_cpus: cpuinfo.lines().filter(is_processor).count() as u32,
            cpu_model: value(&cpu, "model name").unwrap_or(std::env::consts::ARCH).to_owned(),
            sha_extensions: flags.split_ascii_whitespace().any(|f| f == "sha_ni" || f == "sha2"),
            memory: ByteCount(memory_kib.unwrap_or(0) * 1024),
            cpuinfo: cpu,
            meminfo,
        }
    }
}

fn value<'a>(pairs: &'a Pairs, name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Whether `host` (a name or an address, IPv6 with or without brackets) is this host: a loopback
/// address or one that a socket can be bound to here. A name that cannot be resolved is not local.
pub(crate) fn is_local_address(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let Ok(addresses) = (host, 0).to_socket_addrs() else { return false };
    addresses.into_iter().any(|address| {
        address.ip().is_loopback()
            || address.ip().is_unspecified()
            || (!address.ip().is_multicast() && TcpListener::bind(address).is_ok())
    })
}

/// The host part of an endpoint URL: `http://me@[::1]:9000/x` gives `::1`.
pub(crate) fn endpoint_host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((host, _)) => host,
        None => host.split_once(':').map_or(host, |(host, _)| host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "processor\t: 0\nmodel name\t: A\nflags\t\t: fpu sha_ni\n\n\
                       processor\t: 1\nmodel name\t: B: x\nflags\t\t: fpu sha_ni\npower management:\n\n";
    const ARM: &str =
        "processor\t: 0\nFeatures\t: fp sha1\nCPU part\t: 0xd0c\n\nHardware\t: Board\n";
    const MEMINFO: &str = "MemTotal:       24684092 kB\nHugePages_Total:       0\n";

    #[test]
    fn the_last_cpu_is_kept_in_order_without_its_number() {
        let host = HostFacts::parse("vm", X86, MEMINFO);
        let names: Vec<&str> = host.cpuinfo.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["model name", "flags", "power management"]);
        assert_eq!(host.cpu_model, "B: x");
        assert_eq!(host.logical_cpus, 2);
        assert!(host.sha_extensions);
        assert_eq!(host.memory, ByteCount(24_684_092 * 1024));
        assert_eq!(host.meminfo[0], ("MemTotal".into(), "24684092 kB".into()));
        assert_eq!(host.meminfo[1].1, "0");
    }

    #[test]
    fn a_board_block_is_not_a_cpu_and_sha1_alone_is_no_sha_256() {
        let host = HostFacts::parse("pi", ARM, MEMINFO);
        assert_eq!(host.logical_cpus, 1);
        assert_eq!(host.cpuinfo[1].0, "CPU part");
        assert!(!host.sha_extensions);
        assert_eq!(host.cpu_model, std::env::consts::ARCH);
    }

    #[test]
    fn this_host_has_cpus_memory_and_a_name() {
        let host = HostFacts::read().unwrap();
        assert!(host.logical_cpus > 0 && host.memory.0 > 0 && !host.hostname.is_empty());
        assert!(!host.cpuinfo.is_empty() && !host.meminfo.is_empty());
    }

    #[test]
    fn loopback_is_local_and_a_documentation_address_is_not() {
        for local in ["127.0.0.1", "127.0.0.9", "localhost", "::1", "[::1]", "0.0.0.0"] {
            assert!(is_local_address(local), "{local}");
        }
        for remote in ["192.0.2.1", "2001:db8::1", "224.0.0.1", ""] {
            assert!(!is_local_address(remote), "{remote}");
        }
    }

    #[test]
    fn the_host_of_an_endpoint_is_found_in_every_form() {
        for (url, host) in [
            ("http://127.0.0.1:9000", "127.0.0.1"),
            ("https://s3.example.com/x", "s3.example.com"),
            ("http://me:word@[::1]:9000/x", "::1"),
            ("localhost:9000", "localhost"),
        ] {
            assert_eq!(endpoint_host(url), host);
        }
    }
}
