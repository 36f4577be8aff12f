use super::*;
use crate::ring::flags;
use proptest::prelude::*;

#[test]
fn a_call_of_every_field_is_read_back() {
    let word = u64::from(kind::CALL) | u64::from(flags::INTER) << 8 | 52 << 16;
    let record = [10, 20, word, 0xabc, 7 | 4 << 32, 64, 128, 1];
    let expected = Record::Call {
        begin: 10,
        end: 20,
        function: 52,
        flags: flags::INTER,
        communicator: Some(0xabc),
        sequence: 7,
        root: Some(3),
        sent: 64,
        received: 128,
        request: Some(0),
    };
    assert_eq!(decode(&record).expect("a call"), expected);
}

#[test]
fn tags_keep_their_sign_and_any_tag_is_none() {
    let receive = |tag: i32| {
        let word = u64::from(kind::RECEIVE) | u64::from(tag as u32) << 32;
        match decode(&[5, 0, word, 1, 0, 0, 0, 3]) {
            Ok(Record::Transfer {
                tag,
                peer,
                request,
                send,
                ..
            }) => {
                assert_eq!((peer, request, send), (None, Some(2), false));
                tag
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(receive(i32::MAX), Some(i32::MAX));
    assert_eq!(receive(-2), Some(-2));
    assert_eq!(receive(ANY_TAG), None);
}

#[test]
fn members_end_where_the_communicator_ends() {
    let word = u64::from(kind::MEMBERS);
    let record = [12 | 10 << 32, 5 | 9 << 32, word, 77, 1, 0, 0, 0];
    match decode(&record).expect("members") {
        Record::Members {
            total,
            first,
            ranks,
            ..
        } => {
            assert_eq!((total, first), (12, 10));
            assert_eq!(ranks, [Some(4), Some(8)]);
        }
        other => panic!("{other:?}"),
    }
    assert!(decode(&[3 | 3 << 32, 0, word, 77, 0, 0, 0, 0]).is_err());
}

#[test]
fn records_of_unknown_kinds_are_errors_that_say_so() {
    let error = decode(&[0; WORDS]).expect_err("kind 0");
    assert_eq!(error.to_string(), "decode a record: kind 0 is not known");
    assert!(decode(&[0, 0, u64::from(kind::LOSS) | 99 << 32, 0, 0, 1, 0, 0]).is_err());
    assert!(decode(&[0, 0, u64::from(kind::COMPLETION), 0, 0, 0, 0, 0]).is_err());
}

proptest! {
    #[test]
    fn no_words_make_it_panic(mut words: [u64; WORDS], kind in 0_u64..16) {
        let _ = decode(&words);
        words[2] = words[2] & !0xff | kind;
        let _ = decode(&words);
    }

    #[test]
    fn names_of_marks_up_to_56_bytes_survive(name in "[a-zA-Zäß€ ]{0,14}") {
        let mut bytes = [0_u8; 56];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[8 * i + k]));
        let kind = u64::from(kind::MARK_NAME) | 3 << 32;
        let record = [word(0), word(1), kind, word(2), word(3), word(4), word(5), word(6)];
        let expected = Record::MarkName { number: 3, name };
        prop_assert_eq!(decode(&record).expect("a name"), expected);
    }
}
