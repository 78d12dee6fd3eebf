//! Two hosts and a server in one machine: network namespaces that a bridge joins. Each host has a name
//! and a shared memory of its own, as the MPI library tells hosts apart by the one and would meet the
//! other's files in the other.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::support::{Call, Place, Server, serve_at};

/// The hosts' addresses.
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
const SERVER: &str = "10.77.0.9";
const SUBNET: &str = "10.77.0.0/24";
/// Makes a host of what runs in its namespace: `$1` is its name, what follows is run.
const AS_HOST: &str = r#"hostname "$1" && mount -t tmpfs none /dev/shm && shift && exec "$@""#;

/// Says so and returns true where these tests are not wanted.
pub(crate) fn is_skipped(test: &str) -> bool {
    let skipped = std::env::var("FEEDRATE_TEST_NO_NETNS").is_ok_and(|value| value == "1");
    if skipped {
        eprintln!("skipped: {test} (FEEDRATE_TEST_NO_NETNS=1)");
    }
    skipped
}

/// Two hosts, and a third namespace with the bridge between them; gone when this is dropped.
pub(crate) struct Network {
    hosts: [String; 2],
    middle: String,
}

impl Network {
    /// Makes it, and panics where that is not possible.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |what: &str| format!("feedrate-{}-{number}-{what}", std::process::id());
        let network = Self { hosts: [name("a"), name("b")], middle: name("m") };
        let middle = &network.middle;
        for space in network.spaces() {
            ip(&format!("netns add {space}"));
            ip(&format!("-n {space} link set lo up"));
        }
        ip(&format!("-n {middle} link add bridge type bridge"));
        ip(&format!("-n {middle} address add {SERVER}/24 dev bridge"));
        ip(&format!("-n {middle} link set bridge up"));
        for ((host, address), port) in network.hosts.iter().zip(ADDRESSES).zip(["to-a", "to-b"]) {
            ip(&format!("link add net netns {host} type veth peer name {port} netns {middle}"));
            ip(&format!("-n {middle} link set {port} master bridge up"));
            ip(&format!("-n {host} address add {address}/24 dev net"));
            ip(&format!("-n {host} link set net up"));
        }
        network
    }

    fn spaces(&self) -> impl Iterator<Item = &String> {
        self.hosts.iter().chain([&self.middle])
    }

    /// The hosts' names.
    pub(crate) fn hosts(&self) -> [&str; 2] {
        [&self.hosts[0], &self.hosts[1]]
    }

    /// A server that both hosts reach, and that records GETs. It answers a test [`beside_the_server`].
    ///
    /// [`beside_the_server`]: Self::beside_the_server
    pub(crate) fn serve(&self) -> Server {
        let words = ["ip", "netns", "exec", &self.middle];
        serve_at(&format!("{SERVER}:9000")).by(&words).start()
    }

    /// What `look` finds when it looks from where the server is.
    pub(crate) fn beside_the_server<T: Send>(&self, look: impl FnOnce() -> T + Send) -> T {
        let space = fs::File::open(format!("/run/netns/{}", self.middle)).unwrap();
        thread::scope(|scope| {
            let looking = scope.spawn(|| {
                // This moves the thread alone.
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(space.as_fd(), network).unwrap();
                look()
            });
            looking.join().unwrap()
        })
    }

    /// `mpirun` on the first host, called in `place`: half of the `processes` on each host, the first
    /// ones here. The second host is reached as by `ssh`: nothing of the environment comes along.
    pub(crate) fn mpirun(&self, place: &Place, processes: u32, program: &str, line: &str) -> Call {
        let home = place.home();
        let [first, second] = &self.hosts;
        let agent = home.join("agent");
        let temporary = home.join("second");
        fs::create_dir_all(&temporary).unwrap();
        let script = format!(
            "#!/bin/sh\n\
             [ \"$1\" = {address} ] || {{ echo \"there is no host $1\" >&2; exit 1; }}\n\
             shift\n\
             exec env -i PATH=\"$PATH\" TMPDIR={temporary} ip netns exec {second} \
             unshare --uts --mount sh -c '{AS_HOST}' sh {second} sh -c \"$*\"\n",
            address = ADDRESSES[1],
            temporary = temporary.display(),
        );
        fs::write(&agent, script).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        let slots = processes / 2;
        let [a, b] = ADDRESSES;
        place
            .call("ip")
            .env("TMPDIR", &home)
            .args(&format!("netns exec {first} unshare --uts --mount sh -c"))
            .arg(AS_HOST)
            .args(&format!("sh {first} mpirun --allow-run-as-root --mca plm_rsh_agent"))
            .arg(agent)
            // Without these, the launcher waits long for a host that is gone.
            .args("--mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1")
            .args("--mca oob_tcp_keepalive_probes 2")
            .args(&format!("--mca btl_tcp_if_include {SUBNET} --mca oob_tcp_if_include {SUBNET}"))
            .args(&format!("-n {processes} -host {a}:{slots},{b}:{slots} {program} {line}"))
    }

    /// Takes the second host off the network.
    pub(crate) fn cut(&self) {
        ip(&format!("-n {} link set to-b down", self.middle));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for space in self.spaces() {
            let _ = Command::new("ip").args(["netns", "delete", space]).output();
        }
    }
}

/// Runs `ip` with the words of `line`.
#[track_caller]
fn ip(line: &str) {
    let output = Command::new("ip").args(line.split_whitespace()).output();
    let said = match &output {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    panic!(
        "ip {line}: {said}\nThis test needs root, iproute2 and network namespaces; \
         FEEDRATE_TEST_NO_NETNS=1 skips it"
    );
}
