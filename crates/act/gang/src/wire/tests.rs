//! Messages round-trip; other bytes are rejected.

use super::*;
use proptest::prelude::*;

fn nodes() -> impl Strategy<Value = Nodes> {
    let set = prop::collection::btree_set(0_u32..1500, 0..6);
    prop_oneof![
        set.prop_map(|s| s.into_iter().map(NodeId::new).collect()),
        (0_u32..200).prop_map(|n| (0..n).map(NodeId::new).collect()),
    ]
}

fn slot() -> impl Strategy<Value = Slot> {
    prop_oneof![
        Just(Slot::All),
        any::<u32>().prop_map(|g| Slot::Gang(GangId::new(g)))
    ]
}

fn time() -> impl Strategy<Value = Nanos> {
    any::<u64>().prop_map(Nanos::from_nanos)
}

fn why() -> impl Strategy<Value = Why> {
    prop::sample::select(vec![
        Why::Missing,
        Why::Drain,
        Why::Freeze,
        Why::UnderWay,
        Why::GangGone,
        Why::Leaving,
    ])
}

fn command() -> impl Strategy<Value = Command> {
    let prepare = (slot(), slot(), time(), any::<bool>());
    prop_oneof![
        prepare.prop_map(|(from, to, stop_at, drain)| Command::Prepare {
            from,
            to,
            stop_at,
            drain
        }),
        time().prop_map(|thaw_at| Command::Switch { thaw_at }),
        why().prop_map(|why| Command::Abort { why }),
        Just(Command::Beat),
    ]
}

fn tally() -> impl Strategy<Value = Tally> {
    let refused = prop::collection::vec(((0..Nodes::LIMIT).prop_map(NodeId::new), why()), 0..4);
    let times = prop::array::uniform5(time());
    let thawed = prop::option::of((time(), time()));
    (
        nodes(),
        nodes(),
        refused,
        any::<(u64, u64)>(),
        times,
        thawed,
    )
        .prop_map(
            |(
                who,
                left,
                refused,
                (sent, received),
                [stop, drain, freeze, context, thaw],
                thawed,
            )| {
                let phases = Phases {
                    stop,
                    drain,
                    freeze,
                    context,
                    thaw,
                };
                Tally {
                    who,
                    left,
                    refused,
                    sent,
                    received,
                    phases,
                    thawed,
                }
            },
        )
}

fn message() -> impl Strategy<Value = Message> {
    let epoch = || any::<u64>().prop_map(Epoch::new);
    let node = || (0..Nodes::LIMIT).prop_map(NodeId::new);
    let gang = || any::<u32>().prop_map(GangId::new);
    let question = prop::sample::select(vec![Question::Prepare, Question::Switch, Question::Abort]);
    prop_oneof![
        (epoch(), time(), nodes(), any::<u16>(), command()).prop_map(
            |(epoch, lease_until, members, arity, command)| {
                let roster = Roster { members, arity };
                Message::Order(Order {
                    epoch,
                    lease_until,
                    roster,
                    command,
                })
            }
        ),
        (epoch(), question, tally()).prop_map(|(epoch, question, tally)| Message::Answer {
            epoch,
            question,
            tally
        }),
        epoch().prop_map(|epoch| Message::Newer { epoch }),
        node().prop_map(|node| Message::Join { node }),
        node().prop_map(|node| Message::Leave { node }),
        (node(), gang(), any::<bool>()).prop_map(|(node, gang, died)| Message::Gone {
            node,
            gang,
            died
        }),
        gang().prop_map(|gang| Message::Known { gang }),
    ]
}

#[test]
fn a_frame_has_the_bytes_written_down_here() {
    let gone = Message::Gone {
        node: NodeId::new(258),
        gang: GangId::new(7),
        died: true,
    };
    assert_eq!(encode(&gone), [1, 5, 9, 0, 0, 0, 2, 1, 0, 0, 7, 0, 0, 0, 1]);
}

#[test]
fn an_order_to_1024_nodes_fits_in_one_ethernet_frame() {
    let members: Nodes = (0..1024).map(NodeId::new).collect();
    let order = Order {
        epoch: Epoch::of_start(1),
        lease_until: Nanos::ZERO,
        roster: Roster { members, arity: 8 },
        command: Command::Beat,
    };
    // 6 of the header, 8 + 8 of epoch and lease, 4 + 128 of the set, 2 of the arity, 1 of the
    // command.
    assert_eq!(encode(&Message::Order(order)).len(), 157);
}

#[test]
fn another_version_says_so() {
    let mut bytes = encode(&Message::Known {
        gang: GangId::new(1),
    });
    bytes[0] = 9;
    assert_eq!(decode(&bytes), Err(WireError::Version(9)));
    assert!(
        WireError::Version(9)
            .to_string()
            .contains("version 9, expected 1")
    );
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(message in message()) {
        prop_assert_eq!(decode(&encode(&message)), Ok(message));
    }

    #[test]
    fn what_is_cut_off_or_longer_is_no_message(message in message(), extra: u8) {
        let mut bytes = encode(&message);
        for length in 0..bytes.len() {
            prop_assert!(decode(&bytes[..length]).is_err(), "{} of {}", length, bytes.len());
        }
        bytes.push(extra);
        prop_assert_eq!(decode(&bytes), Err(WireError::Length));
    }

    #[test]
    fn a_flipped_bit_gives_an_error_or_another_message(message in message()) {
        let bytes = encode(&message);
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = decode(&other) {
                prop_assert!(read != message);
                prop_assert_eq!(encode(&read), other);
            }
        }
    }

    #[test]
    fn any_bytes_are_an_error_or_written_the_same_again(
        kind in 0_u8..8, body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = vec![VERSION, kind];
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&body);
        if let Ok(read) = decode(&bytes) {
            prop_assert_eq!(encode(&read), bytes);
        }
        let _ = decode(&body);
    }
}
