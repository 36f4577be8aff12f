//! The adapters of this host, and what they have sent and received so far.
//!
//! Ethernet and all other network devices: `/proc/self/net/dev`, which has the counters of
//! `/sys/class/net/*/statistics` for the network namespace of this process; what kind of device each
//! is comes from `/sys/class/net`, unless it shows another namespace, as in some containers.
//! InfiniBand: `/sys/class/infiniband/*/ports/*/counters`, in units of 4 bytes
//! (Documentation/ABI/stable/sysfs-class-infiniband).

use crate::error::LoadError;
use crate::rate::Counter;
use idlewave_sys::files;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The largest file of the kernel that is read.
const MOST_BYTES: u64 = 1 << 20;

/// What an adapter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// A port of an InfiniBand adapter.
    InfiniBand,
    /// A network device of hardware.
    Device,
    /// A network device without hardware, such as the end of a virtual cable.
    Virtual,
}

/// An adapter with its counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adapter {
    /// `eth0`, or `mlx5_0/1` for the first port of an InfiniBand adapter.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Bits per second, as the driver says; `None` if it does not.
    pub bits_per_second: Option<f64>,
    /// How it counts.
    pub counter: Counter,
    /// (sent, received) at each time of [`HostCounters::at`]; `None` where it was missing.
    pub counts: Vec<Option<(u64, u64)>>,
}

/// All adapters of a host, read several times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostCounters {
    /// The host's name.
    pub host: String,
    /// When it was read last, seconds since 1970.
    pub taken: u64,
    /// Seconds of each reading since the first.
    pub at: Vec<f64>,
    /// Adapters by name.
    pub adapters: Vec<Adapter>,
}

/// A line of `/proc/net/dev`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLine {
    /// Name of the device.
    pub name: String,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
}

/// Reads `/proc/net/dev` (proc_pid_net(5)): two lines of heads, then a line per device with eight
/// numbers received and eight sent.
///
/// # Errors
/// A line without a name, or without its numbers.
pub fn read_net_dev(text: &str) -> Result<Vec<DeviceLine>, LoadError> {
    let mut devices = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.contains('|') || line.trim().is_empty() {
            continue;
        }
        let wrong = |why| LoadError::line(at + 1, line, why);
        // A name may hold a colon (an alias), numbers cannot.
        let (name, numbers) = line.rsplit_once(':').ok_or_else(|| wrong("no device"))?;
        let mut numbers = numbers.split_whitespace().map(str::parse::<u64>);
        let mut nth = |n| numbers.nth(n).and_then(Result::ok);
        let (received, sent) = (nth(0), nth(7));
        let (Some(received), Some(sent)) = (received, sent) else {
            return Err(wrong("expected 16 numbers after the device"));
        };
        devices.push(DeviceLine {
            name: name.trim().to_owned(),
            received,
            sent,
        });
    }
    Ok(devices)
}

/// What is below a directory that stands for `/`.
struct Root<'a>(&'a Path);

impl Root<'_> {
    fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    fn text(&self, below: &str) -> Option<String> {
        files::read_text(&self.path(below), MOST_BYTES)
            .ok()
            .map(|text| text.trim().to_owned())
    }

    fn number<T: std::str::FromStr>(&self, below: &str) -> Option<T> {
        self.text(below)?.parse().ok()
    }

    fn names(&self, below: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.path(below)).into_iter().flatten();
        let entries = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        // bonding_masters is a file beside the devices.
        entries.filter(|name| name != "bonding_masters").collect()
    }

    fn exists(&self, below: &str) -> bool {
        self.path(below).exists()
    }
}

/// All adapters now: (adapter without counts, sent, received).
fn look(root: &Path) -> Result<Vec<(Adapter, u64, u64)>, LoadError> {
    let root = Root(root);
    let path = root.path("proc/self/net/dev");
    let text = files::read_text(&path, MOST_BYTES).map_err(|error| LoadError::Read {
        path: path.display().to_string(),
        error,
    })?;
    let lines = read_net_dev(&text)?;
    let here: BTreeSet<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let shown = root.names("sys/class/net");
    let described = here == shown.iter().map(String::as_str).collect();
    let mut found: Vec<(Adapter, u64, u64)> = Vec::new();
    for line in &lines {
        let of = format!("sys/class/net/{}", line.name);
        let adapter = |kind, speed: Option<f64>| Adapter {
            name: line.name.clone(),
            kind,
            bits_per_second: speed,
            counter: Counter::Bytes64,
            counts: Vec::new(),
        };
        if line.name == "lo" {
            continue;
        }
        if !described {
            found.push((adapter(Kind::Virtual, None), line.sent, line.received));
            continue;
        }
        // 1 is Ethernet (include/uapi/linux/if_arp.h); IP over InfiniBand, 32, is counted by its
        // port, bridges, bonds and VLANs by what they are made of.
        let is_made_of_others = ["bridge", "bonding"]
            .iter()
            .any(|part| root.exists(&format!("{of}/{part}")))
            || fs::read_dir(root.path(&of)).is_ok_and(|mut entries| {
                entries.any(|e| {
                    e.is_ok_and(|e| e.file_name().as_encoded_bytes().starts_with(b"lower_"))
                })
            });
        let is_up = root
            .text(&format!("{of}/operstate"))
            .is_none_or(|s| s != "down");
        let is_ethernet = root.number::<u32>(&format!("{of}/type")) == Some(1);
        if is_made_of_others || !is_up || !is_ethernet {
            continue;
        }
        let kind = match root.exists(&format!("{of}/device")) {
            true => Kind::Device,
            false => Kind::Virtual,
        };
        let speed = root.number::<f64>(&format!("{of}/speed"));
        let speed = speed.filter(|s| *s > 0.0).map(|megabits| megabits * 1e6);
        found.push((adapter(kind, speed), line.sent, line.received));
    }
    for device in root.names("sys/class/infiniband") {
        for port in root.names(&format!("sys/class/infiniband/{device}/ports")) {
            let of = format!("sys/class/infiniband/{device}/ports/{port}");
            let data = |name: &str| root.number::<u64>(&format!("{of}/counters/{name}"));
            let (Some(sent), Some(received)) = (data("port_xmit_data"), data("port_rcv_data"))
            else {
                continue;
            };
            let state = root.text(&format!("{of}/state"));
            if state.is_some_and(|state| !state.contains("ACTIVE")) {
                continue;
            }
            // RDMA over Ethernet bypasses the counters of the network device: both together are
            // what its link carries.
            if root.text(&format!("{of}/link_layer")).as_deref() == Some("Ethernet") {
                let device = root.text(&format!("{of}/gid_attrs/ndevs/0"));
                let beside = found
                    .iter_mut()
                    .find(|(a, _, _)| Some(&a.name) == device.as_ref());
                if let Some((_, of_device, into_device)) = beside {
                    *of_device = of_device.saturating_add(sent.saturating_mul(4));
                    *into_device = into_device.saturating_add(received.saturating_mul(4));
                }
                continue;
            }
            // `100 Gb/sec (4X EDR)`
            let rate = root.text(&format!("{of}/rate"));
            let rate = rate.and_then(|r| r.split_whitespace().next()?.parse::<f64>().ok());
            let adapter = Adapter {
                name: format!("{device}/{port}"),
                kind: Kind::InfiniBand,
                bits_per_second: rate.map(|gigabits| gigabits * 1e9),
                counter: Counter::Words64,
                counts: Vec::new(),
            };
            found.push((adapter, sent, received));
        }
    }
    Ok(found)
}

/// Reads the counters of this host `pieces` + 1 times, evenly over `time`. `root` stands for `/`;
/// `is_over` is asked between readings and ends them early.
///
/// # Errors
/// The kernel's files cannot be read.
pub fn watch(
    root: &Path,
    time: Duration,
    pieces: u32,
    mut is_over: impl FnMut() -> bool,
) -> Result<HostCounters, LoadError> {
    let begun = Instant::now();
    let mut all = HostCounters {
        host: idlewave_sys::host_name(),
        taken: 0,
        at: Vec::new(),
        adapters: Vec::new(),
    };
    'readings: for piece in 0..=pieces {
        let due = time * piece / pieces.max(1);
        while let Some(left) = due.checked_sub(begun.elapsed()).filter(|l| !l.is_zero()) {
            if is_over() {
                break 'readings;
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
        // The counters are of the middle of their reading.
        let before = begun.elapsed();
        let found = look(root)?;
        let at = (before + begun.elapsed()) / 2;
        add(&mut all, at.as_secs_f64(), found);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    all.taken = now.map_or(0, |since| since.as_secs());
    all.adapters.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn add(all: &mut HostCounters, at: f64, found: Vec<(Adapter, u64, u64)>) {
    let before = all.at.len();
    all.at.push(at);
    for (adapter, sent, received) in found {
        let place = all.adapters.iter().position(|a| a.name == adapter.name);
        let place = place.unwrap_or_else(|| {
            all.adapters.push(Adapter {
                counts: vec![None; before],
                ..adapter
            });
            all.adapters.len() - 1
        });
        all.adapters[place].counts.push(Some((sent, received)));
    }
    for adapter in &mut all.adapters {
        adapter.counts.resize(before + 1, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0
  eth0: 1500 3 0 0 0 0 0 0 700 2 0 0 0 0 0 0
br0:5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0
  ens1: 77 3 0 0 0 0 0 0 88 2 0 0 0 0 0 0
";

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn devices_are_read_from_proc_net_dev() {
        let devices = read_net_dev(DEV).unwrap();
        assert_eq!(devices.len(), 4);
        assert_eq!((devices[1].sent, devices[1].received), (700, 1500));
        for (bad, line) in [("eth0 5", 1), ("\neth0: 1 2 3", 2), ("eth0: x", 1)] {
            let error = read_net_dev(bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
        }
    }

    #[test]
    fn only_adapters_count_and_infiniband_counts_words() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(
            root,
            &[
                ("proc/self/net/dev", DEV),
                ("sys/class/net/lo/type", "772"),
                ("sys/class/net/eth0/type", "1"),
                ("sys/class/net/eth0/speed", "25000\n"),
                ("sys/class/net/eth0/device/vendor", "0x15b3"),
                ("sys/class/net/eth0/operstate", "up\n"),
                ("sys/class/net/br0/type", "1"),
                ("sys/class/net/br0/bridge/stp_state", "0"),
                ("sys/class/net/ens1/type", "1"),
                ("sys/class/net/ens1/operstate", "down"),
                (
                    "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data",
                    "25\n",
                ),
                (
                    "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data",
                    "50\n",
                ),
                (
                    "sys/class/infiniband/mlx5_0/ports/1/rate",
                    "100 Gb/sec (4X EDR)\n",
                ),
                ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
                (
                    "sys/class/infiniband/mlx5_1/ports/1/link_layer",
                    "Ethernet\n",
                ),
                (
                    "sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0",
                    "eth0\n",
                ),
                (
                    "sys/class/infiniband/mlx5_1/ports/1/counters/port_xmit_data",
                    "10\n",
                ),
                (
                    "sys/class/infiniband/mlx5_1/ports/1/counters/port_rcv_data",
                    "20\n",
                ),
            ],
        );
        let found = watch(root, Duration::ZERO, 2, || false).unwrap();
        let [eth, ib] = found.adapters.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((eth.kind, eth.bits_per_second), (Kind::Device, Some(25e9)));
        // RDMA over Ethernet: 4 x 10 and 4 x 20 more.
        assert_eq!(eth.counts, [Some((740, 1580)); 3]);
        assert_eq!((ib.name.as_str(), ib.kind), ("mlx5_0/1", Kind::InfiniBand));
        assert_eq!(
            (ib.bits_per_second, ib.counter),
            (Some(100e9), Counter::Words64)
        );
        assert_eq!(ib.counts, [Some((25, 50)); 3]);
        assert_eq!(found.at.len(), 3);
    }

    #[test]
    fn where_sys_shows_another_namespace_all_devices_count() {
        let dir = tempfile::tempdir().unwrap();
        write(
            dir.path(),
            &[
                ("proc/self/net/dev", DEV),
                ("sys/class/net/eth0/type", "1"),
                ("sys/class/net/lo/type", "772"),
            ],
        );
        let found = watch(dir.path(), Duration::ZERO, 1, || false).unwrap();
        assert_eq!(found.adapters.len(), 3);
        assert!(found.adapters.iter().all(|a| a.kind == Kind::Virtual));
        // Names are in order and the time is known, also where it ends early.
        let early = watch(dir.path(), Duration::from_secs(600), 10, || true).unwrap();
        let names: Vec<&str> = early.adapters.iter().map(|a| a.name.as_str()).collect();
        assert_eq!((early.at.len(), names), (1, vec!["br0", "ens1", "eth0"]));
        assert!(early.taken > 1_700_000_000, "{}", early.taken);
        let none = watch(&dir.path().join("proc"), Duration::ZERO, 1, || false);
        assert!(none.unwrap_err().to_string().contains("net/dev"));
    }
}
