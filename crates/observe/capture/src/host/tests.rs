//! The sheets of fake machines and of this one.

use super::fake::{FakeRoot, arm_server, container, container_v1, laptop, node_of_256};
use super::*;
use idlewave_run::HostSheet;
use idlewave_units::{Bytes, Nanos};
use proptest::prelude::*;
use std::path::Path;

fn sheet(fake: &FakeRoot) -> HostSheet {
    read_host(fake.path())
}

fn note_of<'a>(sheet: &'a HostSheet, setting: &str) -> Option<&'a str> {
    sheet
        .unreadable
        .iter()
        .map(String::as_str)
        .find(|n| n.starts_with(setting))
}

#[test]
fn a_laptop_is_read_with_its_offline_cpu() {
    let sheet = sheet(&laptop());
    assert_eq!(sheet.name, "laptop");
    assert_eq!(sheet.architecture, "x86_64");
    assert_eq!(sheet.cpu_model.as_deref(), Some("Intel(R) Core(TM) i5"));
    assert_eq!(sheet.online.to_string(), "0-2");
    assert_eq!(sheet.allowed.to_string(), "0-2");
    assert_eq!(sheet.topology.len(), 3);
    assert_eq!(
        sheet.topology[1].siblings.as_ref().unwrap().to_string(),
        "0-1"
    );
    assert_eq!(sheet.topology[2].core, Some(1));
    assert_eq!(sheet.numa_nodes, Some(1));
    assert_eq!(
        (sheet.caches[0].level, sheet.caches[0].size),
        (1, Bytes::from_kib(48))
    );
    assert_eq!(sheet.memory, Some(Bytes::from_kib(16384)));
    assert_eq!(sheet.hz, Some(250));
    assert_eq!(sheet.preemption.as_deref(), Some("voluntary"));
    assert_eq!(sheet.isolated.as_ref().unwrap().len(), 0);
    assert_eq!(sheet.nohz_full.as_ref().unwrap().len(), 0);
    assert_eq!(sheet.rcu_nocbs.as_ref().unwrap().len(), 0);
    assert_eq!(sheet.governor.as_deref(), Some("powersave"));
    assert_eq!((sheet.turbo, sheet.smt), (Some(true), Some(true)));
    assert_eq!(sheet.transparent_huge_pages.as_deref(), Some("always"));
    assert_eq!(sheet.cgroup_quota, None);
    assert_eq!(sheet.irqbalance, Some(true));
    assert_eq!(sheet.hypervisor, None);
    assert_eq!(sheet.clock_source.as_deref(), Some("tsc"));
    assert_eq!(sheet.rt_runtime_us, Some(950_000));
    assert_eq!(sheet.unreadable, Vec::<String>::new());
}

#[test]
fn a_node_of_256_cpus_has_its_siblings_packages_and_numa_nodes() {
    let sheet = sheet(&node_of_256());
    assert_eq!(sheet.online.len(), 256);
    assert_eq!(sheet.allowed.to_string(), "1-127,129-255");
    let place = &sheet.topology[200];
    assert_eq!(
        (place.core, place.package, place.numa),
        (Some(8), Some(1), Some(2))
    );
    assert_eq!(place.siblings.as_ref().unwrap().to_string(), "72,200");
    assert_eq!(sheet.numa_nodes, Some(4));
    assert_eq!(sheet.smt, Some(true));
    assert_eq!(sheet.hz, Some(1000));
    assert_eq!(sheet.preemption.as_deref(), Some("full"));
    assert_eq!(sheet.isolated.unwrap().to_string(), "1-127");
    assert_eq!(sheet.rcu_nocbs.unwrap().to_string(), "1-127,200-511");
    assert_eq!(sheet.turbo, Some(false));
    assert_eq!(sheet.rt_runtime_us, None);
    assert_eq!(sheet.irqbalance, Some(false));
}

#[test]
fn an_arm_server_without_packages_and_cache_sizes_is_read() {
    let sheet = sheet(&arm_server());
    assert_eq!(sheet.architecture, "aarch64");
    assert_eq!(sheet.cpu_model.as_deref(), Some("Neoverse-N1"));
    assert_eq!(
        (sheet.topology[0].package, sheet.topology[0].core),
        (None, Some(0))
    );
    assert_eq!(sheet.topology[1].numa, None);
    assert_eq!(sheet.smt, Some(false));
    assert_eq!(sheet.caches, []);
    assert_eq!(sheet.numa_nodes, None);
    assert_eq!(sheet.hypervisor.as_deref(), Some("kvm"));
    assert_eq!(sheet.preemption.as_deref(), Some("rt"));
    assert_eq!(sheet.rcu_nocbs, None);
    assert_eq!(sheet.hz, None);
    assert!(
        note_of(&sheet, "hz")
            .unwrap()
            .contains("/boot/config-5.10.0")
    );
    assert!(note_of(&sheet, "caches").is_some());
}

#[test]
fn the_tightest_limit_of_a_container_and_its_parents_counts() {
    let sheet = sheet(&container());
    let quota = sheet.cgroup_quota.unwrap();
    assert_eq!(
        (quota.quota, quota.period),
        (Nanos::from_millis(150), Nanos::from_millis(100))
    );
    assert_eq!(sheet.irqbalance, None);
    assert!(note_of(&sheet, "irqbalance").is_some());
    assert!(note_of(&sheet, "preemption").is_some());
}

#[test]
fn a_container_of_version_1_has_its_limit_at_the_mount_point() {
    let quota = sheet(&container_v1()).cgroup_quota.unwrap();
    assert_eq!(
        (quota.quota, quota.period),
        (Nanos::from_millis(50), Nanos::from_millis(100))
    );
}

#[test]
fn stops_of_the_own_group_and_its_parents_are_counted() {
    for (fake, count) in [
        (container(), Some(7)),
        (container_v1(), Some(1)),
        (laptop(), None),
    ] {
        let root = root::Root::new(fake.path());
        let groups = cgroup::CpuGroups::find(&root).unwrap();
        assert_eq!(groups.throttled(&root), count);
    }
}

#[test]
fn the_running_preemption_model_wins_over_the_configured_one() {
    let fake = laptop().with(&[("proc/cmdline", "preempt=none -- preempt=full\n")]);
    assert_eq!(sheet(&fake).preemption.as_deref(), Some("none"));
    let fake = fake.with(&[("sys/kernel/debug/sched/preempt", "none voluntary (full)\n")]);
    assert_eq!(sheet(&fake).preemption.as_deref(), Some("full"));
}

#[test]
fn a_hypervisor_without_a_name_is_an_unknown_one() {
    let fake = laptop().with(&[("proc/cpuinfo", "flags : fpu hypervisor\n")]);
    assert_eq!(
        sheet(&fake).hypervisor.as_deref(),
        Some("unknown hypervisor")
    );
    let fake = fake.with(&[("sys/class/dmi/id/sys_vendor", "QEMU\n")]);
    assert_eq!(sheet(&fake).hypervisor.as_deref(), Some("qemu"));
}

#[test]
fn different_governors_are_named_and_not_averaged() {
    let path = "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor";
    let sheet = sheet(&laptop().with(&[(path, "performance\n")]));
    assert_eq!(sheet.governor, None);
    assert!(
        note_of(&sheet, "governor")
            .unwrap()
            .contains("performance on CPUs 1")
    );
}

#[test]
fn an_empty_root_gives_an_empty_sheet_with_reasons() {
    let sheet = sheet(&FakeRoot::new());
    assert!(sheet.online.is_empty() && sheet.allowed.is_empty() && sheet.topology.is_empty());
    assert!(note_of(&sheet, "allowed CPUs").is_some());
    assert!(note_of(&sheet, "hz").is_some());
}

#[test]
fn a_file_that_is_a_directory_is_named_as_unreadable() {
    let fake = laptop()
        .without("proc/cmdline")
        .with(&[("proc/cmdline/x", "")]);
    let sheet = sheet(&fake);
    assert_eq!(sheet.kernel_command_line, None);
    assert!(
        note_of(&sheet, "kernel command line")
            .unwrap()
            .contains("/proc/cmdline")
    );
}

#[test]
fn a_damaged_configuration_is_named() {
    let fake = laptop()
        .without("boot")
        .with(&[("proc/config.gz", "no archive")]);
    assert_eq!(
        note_of(&sheet(&fake), "hz"),
        Some("hz: /proc/config.gz is damaged")
    );
}

#[test]
fn a_file_of_any_size_is_read_up_to_the_cap() {
    let fake = FakeRoot::new();
    fake.write("big", "0123456\n".repeat(100).as_bytes());
    let text = root::Root::new(fake.path())
        .text_up_to("big", 100)
        .unwrap()
        .unwrap();
    assert_eq!(text.len(), 95);
}

#[test]
fn this_machine_has_a_sheet() {
    let sheet = read_host(Path::new("/"));
    println!("{sheet:#?}");
    assert!(!sheet.online.is_empty() && !sheet.kernel.is_empty());
    assert_eq!(sheet.topology.len(), sheet.online.len());
    assert!(sheet.allowed.difference(&sheet.online).is_empty());
    assert!(sheet.memory.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn foreign_bytes_in_any_file_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let fake = laptop();
        for path in [
            "proc/cpuinfo", "proc/cmdline", "proc/config.gz", "proc/self/cgroup", "proc/meminfo",
            "proc/self/mountinfo", "proc/self/status", "sys/devices/system/cpu/online",
            "sys/devices/system/cpu/nohz_full", "sys/devices/system/node/online",
            "sys/devices/system/cpu/cpu0/cache/index0/level", "sys/devices/system/cpu/cpu0/cache/index0/size",
        ] {
            fake.write(path, &bytes);
            sheet(&fake);
        }
    }
}
