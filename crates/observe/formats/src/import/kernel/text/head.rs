//! What comes before an event: thread, CPU, time and name.

use idlewave_units::{Cpu, Pid};

/// The parts of a line that is an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    /// Name of the thread that ran, as printed: `<...>` if the kernel did not know it.
    pub(crate) name: &'a [u8],
    /// The thread that ran, if known.
    pub(crate) pid: Option<Pid>,
    /// Its process, if the tool prints it.
    pub(crate) process: Option<Pid>,
    pub(crate) cpu: Cpu,
    pub(crate) time_ns: u64,
    /// Decimal places of the seconds, at most 9.
    pub(crate) digits: u32,
    /// Whether perf wrote it.
    pub(crate) perf: bool,
    /// Name of the event, without its system.
    pub(crate) event: &'a [u8],
    /// What follows the name.
    pub(crate) body: &'a [u8],
}

impl<'a> Head<'a> {
    /// `None` if the line is no event. A thread's name may contain anything, even brackets, so the
    /// CPU is the first number in brackets that is followed by a time.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let mut from = 0;
        loop {
            let open = from + memchr::memchr(b'[', &line[from..])?;
            from = open + 1;
            if let Some(head) = Self::at(line, open) {
                return Some(head);
            }
        }
    }

    /// The same for a line whose CPU begins at `open`.
    #[inline]
    fn at(line: &'a [u8], open: usize) -> Option<Self> {
        let (cpu, rest) = number(&line[open + 1..])?;
        let rest = spaces(rest.strip_prefix(b"]")?);
        let (time_ns, digits, rest) = match time(rest) {
            Some(time) => time,
            // Flags like `d..2.` come before the time.
            None => {
                let flags = rest.iter().position(|b| *b == b' ')?;
                time(spaces(&rest[flags..]))?
            }
        };
        let thread = thread(line[..open].trim_ascii_end())?;
        let (event, body) = event(spaces(rest))?;
        Some(Self {
            name: thread.name.trim_ascii(),
            pid: thread.pid,
            process: thread.process,
            cpu: Cpu::new(u32::try_from(cpu).ok()?),
            time_ns,
            digits,
            perf: thread.perf,
            event,
            body,
        })
    }
}

/// A number and what follows it.
#[inline]
pub(crate) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    let mut length = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        length += 1;
    }
    (length > 0).then(|| (value, &text[length..]))
}

#[inline]
fn spaces(text: &[u8]) -> &[u8] {
    text.trim_ascii_start()
}

/// `SECONDS.FRACTION:` as nanoseconds, with the number of digits of the fraction.
#[inline]
fn time(text: &[u8]) -> Option<(u64, u32, &[u8])> {
    let (seconds, rest) = number(text)?;
    let rest = rest.strip_prefix(b".")?;
    let (fraction, after) = number(rest)?;
    let digits = rest.len() - after.len();
    if digits > 9 {
        return None;
    }
    let fraction = fraction * 10_u64.pow(9 - digits as u32);
    let ns = seconds.checked_mul(1_000_000_000)?.checked_add(fraction)?;
    Some((ns, digits as u32, after.strip_prefix(b":")?))
}

fn pid(text: &[u8]) -> Option<Pid> {
    match number(text)? {
        (value, []) => Some(Pid::new(u32::try_from(value).ok()?)),
        _ => None,
    }
}

/// Who ran, and whether perf wrote the line.
struct Thread<'a> {
    name: &'a [u8],
    pid: Option<Pid>,
    process: Option<Pid>,
    perf: bool,
}

/// Name and number of the thread before the CPU, its process, and whether perf wrote it: `NAME-PID`,
/// `NAME-PID (PROCESS)`, `NAME PID` or `NAME PROCESS/PID`.
#[inline]
fn thread(text: &[u8]) -> Option<Thread<'_>> {
    let (text, process) = match text.strip_suffix(b")") {
        Some(inside) => {
            let open = memchr::memrchr(b'(', inside)?;
            let process = pid(spaces(&inside[open + 1..]));
            (inside[..open].trim_ascii_end(), process)
        }
        None => (text, None),
    };
    let last = memchr::memrchr(b' ', text).map_or(0, |space| space + 1);
    let word = &text[last..];
    let of_perf = |pid, process| {
        Some(Thread {
            name: &text[..last],
            pid,
            process,
            perf: true,
        })
    };
    if let Some(pid) = pid(word) {
        return of_perf(Some(pid), None);
    }
    if let Some(slash) = memchr::memchr(b'/', word) {
        if let (Some(process), Some(thread)) = (pid(&word[..slash]), pid(&word[slash + 1..])) {
            return of_perf(Some(thread), Some(process));
        }
    }
    // perf writes -1 for a thread that has ended, after its process if that is printed too.
    if (word == b"-1" || word.ends_with(b"/-1")) && last > 0 {
        return of_perf(None, None);
    }
    let dash = memchr::memrchr(b'-', text)?;
    Some(Thread {
        name: &text[..dash],
        pid: Some(pid(&text[dash + 1..])?),
        process,
        perf: false,
    })
}

/// The event's name without system and colon, and what follows. perf may print a period before it.
#[inline]
fn event(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (word, rest) = match memchr::memchr(b' ', text) {
        Some(space) => (&text[..space], &text[space..]),
        None => (text, &[][..]),
    };
    match word.strip_suffix(b":") {
        Some(name) => {
            let system = memchr::memrchr(b':', name).map_or(0, |colon| colon + 1);
            Some((&name[system..], spaces(rest)))
        }
        None if !rest.is_empty() && word.iter().all(u8::is_ascii_digit) => event(spaces(rest)),
        // A tracer's own line, such as a function.
        None if !word.is_empty() => Some((word, spaces(rest))),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn head(
        line: &str,
    ) -> (
        Option<u32>,
        Option<u32>,
        u32,
        u64,
        u32,
        bool,
        String,
        String,
    ) {
        let head = Head::parse(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (
            head.pid.map(Pid::get),
            head.process.map(Pid::get),
            head.cpu.get(),
            head.time_ns,
            head.digits,
            head.perf,
            text(head.event),
            text(head.body),
        )
    }

    #[test]
    fn every_tool_says_thread_cpu_time_and_event_in_its_way() {
        let switch = "sched_switch".to_owned();
        let x = "x=1".to_owned();
        let us = 3_458_296_365_000;
        assert_eq!(
            head("              sh-17814   [001] d..2.  3458.296365: sched_switch: x=1"),
            (
                Some(17814),
                None,
                1,
                us,
                6,
                false,
                switch.clone(),
                x.clone()
            )
        );
        assert_eq!(
            head("   opt cgu.07-17846   (  17061) [000] d....  3458.296365: sched_switch: x=1"),
            (
                Some(17846),
                Some(17061),
                0,
                us,
                6,
                false,
                switch.clone(),
                x.clone()
            )
        );
        assert_eq!(
            head("   <idle>-0       (-----) [012] d.h1.  3458.296365: sched_switch: x=1"),
            (Some(0), None, 12, us, 6, false, switch.clone(), x.clone())
        );
        assert_eq!(
            head("      opt cgu.01-9353  [000]  3458.296365123: sched_switch:         x=1"),
            (
                Some(9353),
                None,
                0,
                us + 123,
                9,
                false,
                switch.clone(),
                x.clone()
            )
        );
        assert_eq!(
            head("      opt cgu.02 14998 [000]  3458.296365:             sched:sched_switch: x=1"),
            (Some(14998), None, 0, us, 6, true, switch.clone(), x.clone())
        );
        assert_eq!(
            head("    migration/0    18/19    [000]  3458.296365:  1 sched:sched_switch: x=1"),
            (
                Some(19),
                Some(18),
                0,
                us,
                6,
                true,
                switch.clone(),
                x.clone()
            )
        );
        for ended in ["   -1", "31493/-1", "-1/-1"] {
            assert_eq!(
                head(&format!(
                    "             :-1 {ended} [001]  3458.296365: sched:sched_switch: x=1"
                )),
                (None, None, 1, us, 6, true, switch.clone(), x.clone()),
                "{ended}"
            );
        }
    }

    #[test]
    fn names_with_brackets_and_dashes_do_not_mislead() {
        let found = head("  a[1] - b-[2]-77 [003] .....  1.000002: softirq_entry: vec=1");
        assert_eq!((found.0, found.2, found.3), (Some(77), 3, 1_000_002_000));
    }

    #[test]
    fn lines_without_a_cpu_or_a_time_are_no_events() {
        for line in [
            "",
            "# tracer: nop",
            "cpus=2",
            "CPU:1 [LOST 245 EVENTS]",
            "sh 14994 3384.115757: sched:sched_switch: x",
            "sh-1 [001] 3384.115757 sched_switch: x",
            "sh-1 [001] d... 99999999999999.1: sched_switch: x",
            "sh-1 [001]",
            "sh-x [001] 1.5: sched_switch: x",
            "sh-1 [99999999999] 1.5: sched_switch: x",
        ] {
            assert_eq!(Head::parse(line.as_bytes()), None, "{line}");
        }
    }
}
