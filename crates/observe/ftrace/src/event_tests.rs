use super::*;
use crate::testing::{Payload, format_text, formats};
use std::path::Path;

fn comm(name: &str) -> Option<Comm> {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    Some(comm)
}

fn pid(pid: u32) -> Pid {
    Pid::new(pid)
}

#[test]
fn every_event_of_the_list_has_a_shape() {
    let (decoder, unusable) = Decoder::new(&formats());
    assert_eq!(unusable, [""; 0]);
    assert_eq!(decoder.shapes.len(), crate::understood().count());
}

#[test]
fn fields_are_read_where_the_format_says() {
    let (decoder, _) = Decoder::new(&formats());
    let read = |payload: &Payload| match decoder.decode::<true>(payload.bytes()) {
        Decoded::Event(Some(by), Event::Enter { handler, name }) => {
            format!("{by} {handler:?} {}", String::from_utf8_lossy(name))
        }
        Decoded::Event(Some(by), event) => format!("{by} {event:?}"),
        other => format!("{other:?}"),
    };
    let switch = Payload::switch((7, "a"), 2, (9, "b"));
    assert_eq!(
        decoder.decode::<true>(switch.bytes()),
        Decoded::Event(
            Some(pid(7)),
            Event::Switch {
                prev: pid(7),
                prev_comm: comm("a"),
                prev_state: Some(2),
                next: pid(9),
                next_comm: comm("b"),
            }
        )
    );
    assert_eq!(
        decoder.decode::<true>(Payload::fork(3, 4, "child").bytes()),
        Decoded::Event(
            Some(pid(3)),
            Event::Fork {
                parent: pid(3),
                child: pid(4),
                comm: comm("child")
            }
        )
    );
    assert_eq!(read(&Payload::irq_entry(1, 24, "eth0")), "1 Irq(24) eth0\0");
    assert_eq!(
        read(&Payload::number("softirq_entry", 1, 3)),
        "1 Softirq(3) "
    );
    assert_eq!(
        read(&Payload::number("reschedule_entry", 1, 253)),
        "1 Vector(1) "
    );
    let left = read(&Payload::number("call_function_single_exit", 1, 0));
    assert_eq!(left, "1 Leave { handler: Vector(3) }");
    assert_eq!(read(&Payload::nmi(1, 900)), "1 Nmi { duration: Some(900) }");
    assert_eq!(read(&Payload::fault(5)), "5 Fault");
    let moved = read(&Payload::migrate(5, 6, 1, 0));
    assert_eq!(moved, "5 Migrate { pid: Pid(6), from: Cpu(1), to: Cpu(0) }");
}

#[test]
fn a_format_without_a_field_degrades_and_one_without_a_needed_field_is_named() {
    let parse = |text: &str| EventFormat::parse(Path::new("f"), text).unwrap();
    let text = format_text("sched_switch");
    let lean = parse(
        &text
            .replace("prev_state", "other")
            .replace("common_pid", "x"),
    );
    let (decoder, unusable) = Decoder::new(&[lean]);
    assert!(unusable.is_empty());
    let switch = Payload::switch((7, "a"), 2, (9, "b"));
    let Decoded::Event(
        None,
        Event::Switch {
            prev_state: None,
            prev,
            ..
        },
    ) = decoder.decode::<true>(switch.bytes())
    else {
        panic!("not a switch without state");
    };
    assert_eq!(prev, pid(7));
    for needed in ["next_pid", "common_type"] {
        let (decoder, unusable) = Decoder::new(&[parse(&text.replace(needed, "other"))]);
        assert_eq!(unusable, ["sched_switch"]);
        assert_eq!(decoder.decode::<true>(switch.bytes()), Decoded::Unknown);
    }
}

#[test]
fn short_payloads_are_told_from_unknown_ones() {
    let (decoder, _) = Decoder::new(&formats());
    let switch = Payload::switch((7, "a"), 2, (9, "b"));
    assert_eq!(
        decoder.decode::<true>(&switch.bytes()[..40]),
        Decoded::Short
    );
    assert_eq!(decoder.decode::<true>(&[1]), Decoded::Short);
    assert_eq!(decoder.decode::<true>(&[1, 0, 0, 0]), Decoded::Unknown);
}

#[test]
fn a_text_that_lies_outside_its_record_is_no_text() {
    let (decoder, _) = Decoder::new(&formats());
    let payload = Payload::new("irq_handler_entry", 1)
        .u32(24)
        .u32(0x00ff_fff0);
    let Decoded::Event(_, Event::Enter { name, .. }) = decoder.decode::<true>(payload.bytes())
    else {
        panic!("not an entry");
    };
    assert_eq!(name, b"");
}

#[test]
fn offsets_relative_to_the_field_are_followed() {
    let text = format_text("irq_handler_entry").replace("__data_loc", "__rel_loc");
    let (decoder, _) = Decoder::new(&[EventFormat::parse(Path::new("f"), &text).unwrap()]);
    let payload = Payload::new("irq_handler_entry", 1)
        .u32(24)
        .u32(4 << 16)
        .u32(0x6463_6261);
    let Decoded::Event(_, Event::Enter { name, .. }) = decoder.decode::<true>(payload.bytes())
    else {
        panic!("not an entry");
    };
    assert_eq!(name, b"abcd");
}
