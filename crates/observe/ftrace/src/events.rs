//! Which trace events are recorded: as few as the timeline needs, since each costs the program
//! under study about 0.3 us.

/// The events the decoder understands, as (system, event): what a recorder should enable.
///
/// A kernel that lacks some is not an error. On aarch64, for example, there is no system
/// `irq_vectors`: its timer tick arrives as `irq_handler_entry` of `arch_timer`, its IPIs as
/// `ipi_entry`.
///
/// Why these and no others:
/// * `sched_switch` says which thread had a CPU, from when to when, and why it stopped. It also
///   shows that a thread has ended, so `sched_process_exit` is not needed.
/// * `sched_waking` is recorded where the waker runs and so names it. The CPU it carries is the old
///   one of the woken thread; if another is chosen, `sched_migrate_task` follows at once.
///   `sched_wakeup` would add the time at which the wake-up took effect, at the price of one more
///   event per wake-up; it is [read](STANDS_IN) where another tool's trace has it instead.
///   `sched_wakeup_new` is rare and is the first sign of life of a thread.
/// * `sched_process_fork` names the parent of a thread that started after the list of threads was
///   taken.
/// * Entry and exit of interrupts, of softirqs, and of the vectors that bypass `irq_handler_entry`.
/// * `nmi_handler` carries its own duration.
/// * Page faults have an entry only.
pub const EVENTS: &[(&str, &str)] = &[
    ("sched", "sched_switch"),
    ("sched", "sched_waking"),
    ("sched", "sched_wakeup_new"),
    ("sched", "sched_migrate_task"),
    ("sched", "sched_process_fork"),
    ("irq", "irq_handler_entry"),
    ("irq", "irq_handler_exit"),
    ("irq", "softirq_entry"),
    ("irq", "softirq_exit"),
    ("irq_vectors", "local_timer_entry"),
    ("irq_vectors", "local_timer_exit"),
    ("irq_vectors", "reschedule_entry"),
    ("irq_vectors", "reschedule_exit"),
    ("irq_vectors", "call_function_entry"),
    ("irq_vectors", "call_function_exit"),
    ("irq_vectors", "call_function_single_entry"),
    ("irq_vectors", "call_function_single_exit"),
    ("irq_vectors", "irq_work_entry"),
    ("irq_vectors", "irq_work_exit"),
    ("irq_vectors", "x86_platform_ipi_entry"),
    ("irq_vectors", "x86_platform_ipi_exit"),
    ("irq_vectors", "thermal_apic_entry"),
    ("irq_vectors", "thermal_apic_exit"),
    ("irq_vectors", "threshold_apic_entry"),
    ("irq_vectors", "threshold_apic_exit"),
    ("irq_vectors", "deferred_error_apic_entry"),
    ("irq_vectors", "deferred_error_apic_exit"),
    ("irq_vectors", "error_apic_entry"),
    ("irq_vectors", "error_apic_exit"),
    ("irq_vectors", "spurious_apic_entry"),
    ("irq_vectors", "spurious_apic_exit"),
    ("ipi", "ipi_entry"),
    ("ipi", "ipi_exit"),
    ("nmi", "nmi_handler"),
    ("exceptions", "page_fault_user"),
    ("exceptions", "page_fault_kernel"),
];

/// Never recorded, but read where a trace lacks `sched_waking`.
pub const STANDS_IN: (&str, &str) = ("sched", "sched_wakeup");

/// Recorded on request only, for the ranks: entry into a system call, and the return from it.
pub const SYSCALLS: &[(&str, &str)] =
    &[("raw_syscalls", "sys_enter"), ("raw_syscalls", "sys_exit")];

/// All events that the decoder understands, also in traces of other tools.
pub fn understood() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = EVENTS.iter().chain([&STANDS_IN]).chain(SYSCALLS);
    all.copied()
}
