//! The processor: model, architecture, frequency settings, hypervisor.

use super::notes::Notes;
use idlewave_units::CpuSet;
use std::collections::BTreeMap;

const CPU: &str = "sys/devices/system/cpu";
/// Only the first CPU's block is needed; producing the file for 256 CPUs takes milliseconds.
const CPUINFO_CAP: usize = 64 << 10;

/// The first block of /proc/cpuinfo.
pub(super) fn cpuinfo(notes: &mut Notes<'_>) -> Option<String> {
    match notes.root.text_up_to("proc/cpuinfo", CPUINFO_CAP) {
        Ok(text) => text,
        Err(why) => {
            notes.note("processor", &why);
            None
        }
    }
}

/// Value of the first line `key : value`.
fn field<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key)
            .then(|| value.trim())
            .filter(|v| !v.is_empty())
    })
}

/// Architecture as in `uname -m`: from the kernel (since Linux 6.1), otherwise from the format of
/// cpuinfo.
pub(super) fn architecture(notes: &mut Notes<'_>, cpuinfo: Option<&str>) -> String {
    if let Some(arch) = notes.word("architecture", "proc/sys/kernel/arch") {
        return arch;
    }
    if notes.root.is_live() {
        return std::env::consts::ARCH.to_owned();
    }
    let form = cpuinfo.and_then(|info| {
        [
            ("vendor_id", "x86_64"),
            ("CPU implementer", "aarch64"),
            ("isa", "riscv64"),
            ("timebase", "ppc64le"),
        ]
        .into_iter()
        .find_map(|(key, arch)| field(info, key).map(|_| arch.to_owned()))
    });
    form.unwrap_or_else(|| {
        notes.note(
            "architecture",
            "neither in /proc/sys/kernel/arch nor in /proc/cpuinfo",
        );
        "unknown".to_owned()
    })
}

/// Model name. ARM processors report only numbers; the names of server models are given here
/// (arch/arm64/include/asm/cputype.h of the kernel).
pub(super) fn model(cpuinfo: &str) -> Option<String> {
    let named = ["model name", "cpu model", "uarch", "cpu"];
    if let Some(name) = named.iter().find_map(|key| field(cpuinfo, key)) {
        return Some(name.to_owned());
    }
    let implementer = field(cpuinfo, "CPU implementer")?;
    let part = field(cpuinfo, "CPU part")?;
    let name = match (implementer, part) {
        ("0x41", "0xd03") => "Cortex-A53",
        ("0x41", "0xd08") => "Cortex-A72",
        ("0x41", "0xd0b") => "Cortex-A76",
        ("0x41", "0xd0c") => "Neoverse-N1",
        ("0x41", "0xd40") => "Neoverse-V1",
        ("0x41", "0xd49") => "Neoverse-N2",
        ("0x41", "0xd4f") => "Neoverse-V2",
        ("0x43", "0x0af") => "ThunderX2",
        ("0x46", "0x001") => "A64FX",
        ("0x48", "0xd01") => "TaiShan v110",
        ("0xc0", "0xac3") => "Ampere-1",
        _ => return Some(format!("ARM implementer {implementer}, part {part}")),
    };
    Some(name.to_owned())
}

/// The governor, if all CPUs have the same. Otherwise noted, and `None`.
pub(super) fn governor(notes: &mut Notes<'_>, online: &CpuSet) -> Option<String> {
    let mut governors: BTreeMap<String, CpuSet> = BTreeMap::new();
    for cpu in online.iter() {
        let path = format!("{CPU}/cpu{}/cpufreq/scaling_governor", cpu.get());
        if let Some(governor) = notes.word("governor", &path) {
            governors.entry(governor).or_default().insert(cpu);
        }
    }
    if governors.len() > 1 {
        let list: Vec<String> = governors
            .iter()
            .map(|(name, cpus)| format!("{name} on CPUs {cpus}"))
            .collect();
        notes.note(
            "governor",
            &format!("not the same on all CPUs: {}", list.join(", ")),
        );
        return None;
    }
    governors.into_keys().next()
}

/// Whether the frequency may rise above nominal.
pub(super) fn turbo(notes: &mut Notes<'_>) -> Option<bool> {
    let off: Option<u8> = notes.parsed("turbo", &format!("{CPU}/intel_pstate/no_turbo"));
    let on: Option<u8> = notes.parsed("turbo", &format!("{CPU}/cpufreq/boost"));
    off.map(|off| off == 0).or(on.map(|on| on != 0))
}

/// The hypervisor of this machine; `None` on bare metal, noted if unknown.
pub(super) fn hypervisor(notes: &mut Notes<'_>, cpuinfo: Option<&str>) -> Option<String> {
    if let Some(kind) = notes.word("hypervisor", "sys/hypervisor/type") {
        return Some(kind);
    }
    let compatible = "proc/device-tree/hypervisor/compatible";
    if let Some(kind) = notes.word("hypervisor", compatible) {
        let kind = kind.trim_matches('\0').replace("linux,", "");
        return Some(kind.split(',').next().unwrap_or_default().to_owned());
    }
    let flags = cpuinfo.and_then(|info| field(info, "flags"));
    let flagged = flags.map(|flags| flags.split_whitespace().any(|f| f == "hypervisor"));
    // On x86 the flag is set whenever a hypervisor identifies itself; without it, DMI's vendor is
    // that of a bare machine (EC2's metal instances also say "Amazon EC2").
    match flagged {
        Some(false) => return None,
        None if cpuinfo.is_none() => {
            notes.note("hypervisor", "/proc/cpuinfo does not exist");
            return None;
        }
        _ => {}
    }
    let vendor = notes
        .word("hypervisor", "sys/class/dmi/id/sys_vendor")
        .unwrap_or_default();
    let product = notes
        .word("hypervisor", "sys/class/dmi/id/product_name")
        .unwrap_or_default();
    let by_dmi = of_dmi(&vendor, &product);
    if flagged == Some(true) {
        let unknown = || "unknown hypervisor".to_owned();
        return Some(
            of_cpuid(notes)
                .or(by_dmi.map(str::to_owned))
                .unwrap_or_else(unknown),
        );
    }
    by_dmi.map(str::to_owned)
}

/// A hypervisor by the machine's DMI names.
fn of_dmi(vendor: &str, product: &str) -> Option<&'static str> {
    if product.contains(".metal") {
        return None;
    }
    let has = |word: &str| vendor.contains(word) || product.contains(word);
    let names = [
        ("KVM", "kvm"),
        ("Amazon EC2", "kvm"),
        ("Google Compute Engine", "kvm"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("innotek", "virtualbox"),
        ("VirtualBox", "virtualbox"),
        ("Xen", "xen"),
        ("Parallels", "parallels"),
    ];
    if vendor.contains("Microsoft") && product.contains("Virtual Machine") {
        return Some("hyper-v");
    }
    names
        .into_iter()
        .find_map(|(word, name)| has(word).then_some(name))
}

/// The signature of CPUID leaf 0x4000_0000, on the live machine only.
#[cfg(target_arch = "x86_64")]
fn of_cpuid(notes: &Notes<'_>) -> Option<String> {
    if !notes.root.is_live() {
        return None;
    }
    // SAFETY: every x86-64 processor has CPUID; newer compilers treat it as safe.
    #[allow(unused_unsafe)]
    let leaf = unsafe { std::arch::x86_64::__cpuid(0x4000_0000) };
    let signature: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    let name = match signature.as_slice() {
        b"KVMKVMKVM\0\0\0" => "kvm",
        b"Microsoft Hv" => "hyper-v",
        b"VMwareVMware" => "vmware",
        b"XenVMMXenVMM" => "xen",
        b"TCGTCGTCGTCG" => "qemu",
        b"bhyve bhyve " => "bhyve",
        b"ACRNACRNACRN" => "acrn",
        _ => return None,
    };
    Some(name.to_owned())
}

#[cfg(not(target_arch = "x86_64"))]
fn of_cpuid(_: &Notes<'_>) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_server_is_named_by_its_numbers() {
        let info = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(model(info).as_deref(), Some("Neoverse-N1"));
        let info = "CPU implementer : 0x99\nCPU part : 0x123\n";
        assert_eq!(
            model(info).as_deref(),
            Some("ARM implementer 0x99, part 0x123")
        );
    }

    #[test]
    fn a_bare_cloud_machine_is_no_virtual_one() {
        assert_eq!(of_dmi("Amazon EC2", "c6g.metal"), None);
        assert_eq!(of_dmi("Amazon EC2", "c6g.large"), Some("kvm"));
        assert_eq!(of_dmi("Dell Inc.", "PowerEdge R640"), None);
    }
}
