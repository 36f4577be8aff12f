//! The tables of /proc/interrupts and /proc/softirqs (show_interrupts in kernel/irq/proc.c,
//! arch_show_interrupts in arch/*/kernel, show_softirqs in fs/proc/softirqs.c).

use idlewave_run::SourceKind;
use idlewave_units::{Cpu, CpuSet};
use std::collections::BTreeMap;

/// Most rows read; big nodes have a few thousand interrupts.
const MAX_ROWS: usize = 100_000;

/// One row: counts per CPU since boot. The counters are 32 bits wide and wrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: SourceKind,
    pub(crate) name: String,
    pub(crate) counts: BTreeMap<Cpu, u64>,
}

/// Rows by label ("24", "LOC", "TIMER"), for the CPUs in `cpus`. Rows that are not per CPU (`ERR`,
/// `MIS`) and invalid lines are skipped.
pub(crate) fn parse(text: &str, cpus: &CpuSet, softirqs: bool) -> BTreeMap<String, Row> {
    let mut lines = text.lines();
    let header: Option<Vec<Cpu>> = lines
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .map(|word| Some(Cpu::new(word.strip_prefix("CPU")?.parse().ok()?)))
        .collect();
    let Some(header) = header.filter(|h| !h.is_empty()) else {
        return BTreeMap::new();
    };
    lines
        .take(MAX_ROWS)
        .filter_map(|line| {
            let (label, mut rest) = line.split_once(':')?;
            let label = label.trim();
            let mut counts = BTreeMap::new();
            for cpu in &header {
                let trimmed = rest.trim_start();
                let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
                let count: u64 = trimmed[..end].parse().ok()?;
                rest = &trimmed[end..];
                if cpus.contains(*cpu) {
                    counts.insert(*cpu, count);
                }
            }
            let (kind, name) = if softirqs {
                (SourceKind::Softirq, label.to_owned())
            } else {
                source(label, rest)
            };
            Some((label.to_owned(), Row { kind, name, counts }))
        })
        .collect()
}

/// Class and name of an interrupt, from its label and the text after the counts.
fn source(label: &str, description: &str) -> (SourceKind, String) {
    if label.bytes().all(|b| b.is_ascii_digit()) {
        let name = action(description).unwrap_or_else(|| format!("irq {label}"));
        // On ARM the local timer is a numbered interrupt.
        let timer = ["arch_timer", "riscv-timer", "timebase"].contains(&name.as_str());
        return (
            if timer {
                SourceKind::TimerTick
            } else {
                SourceKind::Irq
            },
            name,
        );
    }
    let words = description
        .split_ascii_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let lower = words.to_ascii_lowercase();
    match label {
        "LOC" => return (SourceKind::TimerTick, "local timer".to_owned()),
        "NMI" => return (SourceKind::Nmi, "nmi".to_owned()),
        "PMI" => return (SourceKind::Nmi, "performance monitoring".to_owned()),
        _ => {}
    }
    let inter_processor = [
        ("rescheduling", "reschedule"),
        ("function call", "function call"),
        ("tlb shootdown", "tlb shootdown"),
        ("irq work", "irq_work"),
    ];
    let known = inter_processor
        .iter()
        .find(|(word, _)| lower.contains(word));
    if let Some((_, name)) = known {
        return (SourceKind::Ipi, (*name).to_owned());
    }
    if label.starts_with("IPI") {
        return (
            SourceKind::Ipi,
            if words.is_empty() {
                label.to_owned()
            } else {
                lower
            },
        );
    }
    (
        SourceKind::Irq,
        if words.is_empty() {
            label.to_owned()
        } else {
            lower
        },
    )
}

/// The handlers' names after chip, hardware number and trigger: `IO-APIC 5-edge ACPI:Ged`, `GICv3
/// 27 Level arch_timer`. `None` for an interrupt without a handler.
fn action(description: &str) -> Option<String> {
    let mut words = description.split_ascii_whitespace().peekable();
    words.next()?;
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    if words.next_if(is_number).is_some() {
        let trigger = |word: &&str| {
            ["Level", "Edge"].iter().any(|t| {
                word.strip_prefix(t)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            })
        };
        words.next_if(trigger);
    }
    let name = words.collect::<Vec<_>>().join(" ");
    (!name.is_empty()).then_some(name)
}

/// Increase of a 32-bit counter. A counter that fell has wrapped if that makes the increase less
/// than half the range; otherwise it was reset, as when a device is plugged in again.
pub(crate) fn increase(earlier: u64, later: u64) -> u64 {
    const RANGE: u64 = 1 << 32;
    if later >= earlier {
        return later - earlier;
    }
    let wrapped = later + RANGE.saturating_sub(earlier);
    if earlier < RANGE && wrapped < RANGE / 2 {
        wrapped
    } else {
        later
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all() -> CpuSet {
        (0..4096).map(Cpu::new).collect()
    }

    #[test]
    fn interrupts_are_named_by_their_handlers() {
        for (label, description, kind, name) in [
            (
                "24",
                "  IO-APIC   5-edge      ACPI:Ged",
                SourceKind::Irq,
                "ACPI:Ged",
            ),
            (
                "9",
                " IO-APIC 9-fasteoi acpi, i801_smbus",
                SourceKind::Irq,
                "acpi, i801_smbus",
            ),
            (
                "130",
                " IR-PCI-MSI 524288-edge nvme0q1",
                SourceKind::Irq,
                "nvme0q1",
            ),
            (
                "11",
                "     GICv3  27 Level     arch_timer",
                SourceKind::TimerTick,
                "arch_timer",
            ),
            (
                "55",
                " ITS-MSI 1 Edge mlx5_comp0@pci:0",
                SourceKind::Irq,
                "mlx5_comp0@pci:0",
            ),
            ("8", " IO-APIC   8-edge", SourceKind::Irq, "irq 8"),
            ("7", "", SourceKind::Irq, "irq 7"),
            (
                "LOC",
                "   Local timer interrupts",
                SourceKind::TimerTick,
                "local timer",
            ),
            (
                "RES",
                "   Rescheduling interrupts",
                SourceKind::Ipi,
                "reschedule",
            ),
            (
                "IPI1",
                "  Function call interrupts",
                SourceKind::Ipi,
                "function call",
            ),
            ("IWI", "   IRQ work interrupts", SourceKind::Ipi, "irq_work"),
            (
                "MCP",
                "   Machine check polls",
                SourceKind::Irq,
                "machine check polls",
            ),
        ] {
            assert_eq!(
                source(label, description),
                (kind, name.to_owned()),
                "{label}"
            );
        }
    }

    #[test]
    fn columns_are_found_by_the_header_and_odd_lines_are_left_out() {
        let text = "  CPU0  CPU2  CPU3\n 24: 1 2 3 IO-APIC 5-edge eth0\nERR: 7\nodd\n5: a b c\nLOC: 4 5 6 Local timer\n";
        let rows = parse(text, &"2-3".parse().unwrap(), false);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            rows["24"].counts,
            [(Cpu::new(2), 2), (Cpu::new(3), 3)].into()
        );
        assert_eq!(rows["LOC"].counts[&Cpu::new(3)], 6);
    }

    #[test]
    fn a_counter_that_wraps_at_32_bits_goes_on() {
        assert_eq!(increase(5, 9), 4);
        assert_eq!(increase(u64::from(u32::MAX), 3), 4);
        assert_eq!(increase(1_000, 3), 3);
        assert_eq!(increase(1 << 40, 3), 3);
    }

    proptest! {
        #[test]
        fn foreign_text_never_panics(text in "\\PC*", odd in "[0-9A-Z:\n \u{e4}-]{0,80}") {
            for text in [&text, &odd] {
                parse(text, &all(), false);
                parse(&format!("CPU0 CPU9\n{text}"), &all(), true);
                action(text);
            }
        }

        #[test]
        fn what_was_counted_is_found_again_through_any_wrap(start: u32, rise in 0u32..1 << 31) {
            let later = u64::from(start.wrapping_add(rise));
            prop_assert_eq!(increase(u64::from(start), later), u64::from(rise));
        }
    }
}
