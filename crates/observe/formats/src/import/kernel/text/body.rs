//! Events in text: the kernel's own layout, `key=value`, and that of trace-cmd's plugins.

use super::head::number;
use idlewave_ftrace::event::{self, Comm, Event, Handler};
use idlewave_units::{Cpu, Pid};
use memchr::memmem;

/// What an event turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// One that the timeline uses.
    Event(Event<'a>),
    /// One of another kind.
    Unknown,
    /// One whose fields cannot be read.
    Garbled,
}

/// Reads an event by its name.
pub(crate) fn parse<'a>(name: &'a [u8], body: &'a [u8]) -> Body<'a> {
    let event = match name {
        b"sched_switch" => switch(body),
        b"sched_waking" => wake(body).map(|(pid, comm, cpu)| Event::Wake { pid, comm, cpu }),
        b"sched_wakeup" => woken(body, false),
        b"sched_wakeup_new" => woken(body, true),
        b"sched_migrate_task" => migrate(body),
        b"sched_process_fork" => fork(body),
        b"irq_handler_entry" => irq_entry(body),
        b"irq_handler_exit" => value(body, b"irq=").map(|irq| leave(Handler::Irq(irq))),
        b"softirq_entry" => value(body, b"vec=").map(|vec| enter(Handler::Softirq(vec))),
        b"softirq_exit" => value(body, b"vec=").map(|vec| leave(Handler::Softirq(vec))),
        b"nmi_handler" => Some(Event::Nmi {
            duration: duration(body),
        }),
        b"page_fault_user" | b"page_fault_kernel" => Some(Event::Fault),
        b"sys_enter" => syscall(body, false),
        b"sys_exit" => syscall(body, true),
        name => {
            let vector = Handler::vector_event(name, enter, leave);
            return vector.map_or(Body::Unknown, Body::Event);
        }
    };
    event.map_or(Body::Garbled, Body::Event)
}

fn enter(handler: Handler) -> Event<'static> {
    Event::Enter { handler, name: &[] }
}

fn leave(handler: Handler) -> Event<'static> {
    Event::Leave { handler }
}

/// What comes before and after `key`.
#[inline]
fn split<'a>(text: &'a [u8], key: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    // Its last byte, mostly `=`, is rarer than its first.
    let (last, _) = key.split_last()?;
    let mut ends = memchr::memchr_iter(*last, text).map(|at| at + 1);
    let end = ends.find(|end| text[..*end].ends_with(key))?;
    Some((&text[..end - key.len()], &text[end..]))
}

#[inline]
fn value(text: &[u8], key: &[u8]) -> Option<u32> {
    let (_, rest) = split(text, key)?;
    u32::try_from(number(rest)?.0).ok()
}

fn pid(text: &[u8]) -> Option<Pid> {
    u32::try_from(number(text)?.0).ok().map(Pid::new)
}

fn comm(name: &[u8]) -> Option<Comm> {
    (!name.is_empty()).then(|| event::comm(name))
}

/// `NAME:PID [PRIORITY]` and what follows it.
fn plain(text: &[u8]) -> Option<(Option<Comm>, Pid, &[u8])> {
    // A name may contain brackets: the last ones hold the priority.
    let open = memmem::rfind(text, b" [")?;
    let close = open + memchr::memchr(b']', &text[open..])?;
    let colon = memchr::memrchr(b':', &text[..open])?;
    let pid = pid(&text[colon + 1..open])?;
    Some((comm(&text[..colon]), pid, &text[close + 1..]))
}

fn switch(body: &[u8]) -> Option<Event<'static>> {
    let Some(body) = body.strip_prefix(b"prev_comm=") else {
        let (before, after) = split(body, b" ==> ")?;
        let (prev_comm, prev, rest) = plain(before)?;
        let (next_comm, next, _) = plain(after)?;
        return Some(Event::Switch {
            prev,
            prev_comm,
            prev_state: state(rest.trim_ascii()),
            next,
            next_comm,
        });
    };
    let (prev_comm, rest) = split(body, b" prev_pid=")?;
    let (prev, rest) = number(rest)?;
    let (_, rest) = split(rest, b"prev_state=")?;
    let (letters, rest) = split(rest, b" ")?;
    let (_, rest) = split(rest, b"next_comm=")?;
    let (next_comm, rest) = split(rest, b" next_pid=")?;
    Some(Event::Switch {
        prev: Pid::new(u32::try_from(prev).ok()?),
        prev_comm: comm(prev_comm),
        prev_state: state(letters),
        next: pid(rest)?,
        next_comm: comm(next_comm),
    })
}

/// The bits of a state from its letters (`include/trace/events/sched.h`). trace-cmd's plugin uses
/// those of old kernels: its W is the bit that is I today.
fn state(letters: &[u8]) -> Option<u64> {
    let mut bits = 0;
    for letter in letters {
        bits |= match letter {
            b'R' | b'|' | b'K' => 0,
            b'+' => 0x100,
            b'S' => 0x01,
            b'D' => 0x02,
            b'T' => 0x04,
            b't' => 0x08,
            b'X' | b'x' => 0x10,
            b'Z' => 0x20,
            b'P' => 0x40,
            b'I' | b'W' => 0x80,
            _ => return None,
        };
    }
    (!letters.is_empty()).then_some(bits)
}

fn woken(body: &[u8], new: bool) -> Option<Event<'static>> {
    let (pid, comm, cpu) = wake(body)?;
    Some(Event::Woken {
        pid,
        comm,
        cpu,
        new,
    })
}

/// The thread that is woken, its name, and its CPU.
fn wake(body: &[u8]) -> Option<(Pid, Option<Comm>, Cpu)> {
    let Some(body) = body.strip_prefix(b"comm=") else {
        let (before, after) = split(body, b" CPU:")?;
        let (comm, pid, _) = plain(before)?;
        let cpu = Cpu::new(u32::try_from(number(after)?.0).ok()?);
        return Some((pid, comm, cpu));
    };
    let (name, rest) = split(body, b" pid=")?;
    let cpu = Cpu::new(value(rest, b"target_cpu=")?);
    Some((pid(rest)?, comm(name), cpu))
}

fn migrate(body: &[u8]) -> Option<Event<'static>> {
    let (_, rest) = split(body, b" pid=")?;
    Some(Event::Migrate {
        pid: pid(rest)?,
        from: Cpu::new(value(rest, b"orig_cpu=")?),
        to: Cpu::new(value(rest, b"dest_cpu=")?),
    })
}

fn fork(body: &[u8]) -> Option<Event<'static>> {
    let (_, rest) = split(body, b" pid=")?;
    let parent = pid(rest)?;
    let (_, rest) = split(rest, b"child_comm=")?;
    let (name, rest) = split(rest, b" child_pid=")?;
    Some(Event::Fork {
        parent,
        child: pid(rest)?,
        comm: comm(name),
    })
}

fn irq_entry(body: &[u8]) -> Option<Event<'_>> {
    let (_, rest) = split(body, b"irq=")?;
    let (irq, rest) = number(rest)?;
    let name = split(rest, b"name=").map_or(&[][..], |(_, name)| name.trim_ascii_end());
    Some(Event::Enter {
        handler: Handler::Irq(u32::try_from(irq).ok()?),
        name,
    })
}

/// `NR N (ARGUMENTS)` or `NR N = RESULT`.
fn syscall(body: &[u8], returned: bool) -> Option<Event<'static>> {
    let (_, rest) = split(body, b"NR ")?;
    let number = match rest.first() {
        Some(b'-') => None,
        _ => Some(value(body, b"NR ")?),
    };
    Some(Event::Syscall { number, returned })
}

/// `HANDLER() delta_ns: N handled: M`.
fn duration(body: &[u8]) -> Option<u64> {
    let (_, rest) = split(body, b"delta_ns")?;
    let rest = rest.strip_prefix(b":").or(rest.strip_prefix(b"="))?;
    Some(number(rest.trim_ascii_start())?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Option<Comm> {
        comm(name.as_bytes())
    }

    #[test]
    fn system_calls_have_a_number_unless_it_is_negative() {
        let event = |number, returned| Body::Event(Event::Syscall { number, returned });
        let enter = |body: &'static [u8]| parse(b"sys_enter", body);
        assert_eq!(
            enter(b"NR 202 (7f, 80, 0, 0, 0, 0)"),
            event(Some(202), false)
        );
        assert_eq!(parse(b"sys_exit", b"NR 202 = -11"), event(Some(202), true));
        assert_eq!(parse(b"sys_exit", b"NR -1 = 0"), event(None, true));
        assert_eq!(enter(b"NR x"), Body::Garbled);
    }

    #[test]
    fn a_switch_is_read_in_both_layouts_whatever_the_names_hold() {
        let expected = |prev_state| {
            Body::Event(Event::Switch {
                prev: Pid::new(7),
                prev_comm: named("a b [1]:x"),
                prev_state: Some(prev_state),
                next: Pid::new(0),
                next_comm: named("swapper/1"),
            })
        };
        let own = b"prev_comm=a b [1]:x prev_pid=7 prev_prio=120 prev_state=R+ ==> \
                    next_comm=swapper/1 next_pid=0 next_prio=120";
        assert_eq!(parse(b"sched_switch", own), expected(0x100));
        let plugin = b"a b [1]:x:7 [120] S ==> swapper/1:0 [120]";
        assert_eq!(parse(b"sched_switch", plugin), expected(1));
    }

    #[test]
    fn states_are_the_bits_of_the_kernel() {
        let cases: [(&str, Option<u64>); 9] = [
            ("R", Some(0)),
            ("R+", Some(0x100)),
            ("D|K", Some(2)),
            ("I", Some(0x80)),
            ("Z", Some(0x20)),
            ("X", Some(0x10)),
            ("tP", Some(0x48)),
            ("?", None),
            ("", None),
        ];
        for (letters, bits) in cases {
            assert_eq!(state(letters.as_bytes()), bits, "{letters}");
        }
    }

    #[test]
    fn the_other_events_are_read_as_the_kernel_prints_them() {
        let body = |name: &'static str, text: &'static str| parse(name.as_bytes(), text.as_bytes());
        let wake = Event::Wake {
            pid: Pid::new(15),
            comm: named("rcu_preempt"),
            cpu: Cpu::new(1),
        };
        let own = "comm=rcu_preempt pid=15 prio=120 target_cpu=001";
        assert_eq!(body("sched_waking", own), Body::Event(wake));
        let woken = |new| Event::Woken {
            pid: Pid::new(15),
            comm: named("rcu_preempt"),
            cpu: Cpu::new(1),
            new,
        };
        assert_eq!(body("sched_wakeup", own), Body::Event(woken(false)));
        assert_eq!(body("sched_wakeup_new", own), Body::Event(woken(true)));
        let plugin = "rcu_preempt:15 [120] CPU:001";
        assert_eq!(body("sched_waking", plugin), Body::Event(wake));
        let migrate = Event::Migrate {
            pid: Pid::new(15),
            from: Cpu::new(1),
            to: Cpu::new(0),
        };
        let own = "comm=rcu_preempt pid=15 prio=120 orig_cpu=1 dest_cpu=0";
        assert_eq!(body("sched_migrate_task", own), Body::Event(migrate));
        let fork = Event::Fork {
            parent: Pid::new(3),
            child: Pid::new(4),
            comm: named("sh"),
        };
        let own = "comm=sh pid=3 child_comm=sh child_pid=4";
        assert_eq!(body("sched_process_fork", own), Body::Event(fork));
        let irq = Event::Enter {
            handler: Handler::Irq(42),
            name: b"virtio3-tx",
        };
        assert_eq!(
            body("irq_handler_entry", "irq=42 name=virtio3-tx"),
            Body::Event(irq)
        );
        let exit = leave(Handler::Irq(42));
        assert_eq!(
            body("irq_handler_exit", "irq=42 ret=handled"),
            Body::Event(exit)
        );
        let softirq = enter(Handler::Softirq(9));
        assert_eq!(
            body("softirq_entry", "vec=9 [action=RCU]"),
            Body::Event(softirq)
        );
        let tick = enter(Handler::Vector(0));
        assert_eq!(body("local_timer_entry", "vector=236"), Body::Event(tick));
        let nmi = Event::Nmi {
            duration: Some(1234),
        };
        let text = "perf_event_nmi_handler() delta_ns: 1234 handled: 1";
        assert_eq!(body("nmi_handler", text), Body::Event(nmi));
        assert_eq!(body("softirq_raise", "vec=1 [action=TIMER]"), Body::Unknown);
        assert_eq!(body("softirq_entry", "[action=TIMER]"), Body::Garbled);
        assert_eq!(
            body("sched_switch", "prev_comm=a prev_pid=x"),
            Body::Garbled
        );
    }
}
