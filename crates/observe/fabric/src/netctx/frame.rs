//! What goes over the wire between two contexts: a header of 36 bytes, little-endian, and a
//! payload, with one CRC32C over both (Castagnoli 1993; the polynomial of iSCSI, RFC 3720 section
//! 12.1).

/// Version of the format; frames of any other are refused.
pub const VERSION: u8 = 2;
/// Bytes before the payload.
pub const HEADER_BYTES: usize = 36;
/// The longest payload, bytes: a UDP datagram carries 65,507 over IPv4.
pub const MAX_PAYLOAD: usize = 65_000;

/// The direction of a channel: from one rank of a gang to another, in one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Link {
    /// The gang.
    pub gang: u32,
    /// The time slice that the gang runs in. Rises with every switch, completed or aborted, and
    /// keeps rising when the controller restarts.
    pub epoch: u64,
    /// The rank that sends messages.
    pub source: u32,
    /// The rank that receives them.
    pub destination: u32,
}

/// The kind of a frame. Data, ends, flushes and probes travel in the link's direction,
/// acknowledgements against it; all name the link in the direction of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A piece of a message; more of it follows.
    Data,
    /// The last piece of a message.
    End,
    /// All frames before `sequence` were received.
    Ack,
    /// No frame from `sequence` on is sent in this epoch.
    Flush,
    /// All frames of this epoch were received: those before `sequence`.
    FlushAck,
    /// Asks for an acknowledgement: the sender has no credit left.
    Probe,
    /// A rank of the gang failed. Belongs to no channel: it goes from node to node.
    Fail,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::End => 2,
            Self::Ack => 3,
            Self::Flush => 4,
            Self::FlushAck => 5,
            Self::Probe => 6,
            Self::Fail => 7,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Data,
            2 => Self::End,
            3 => Self::Ack,
            4 => Self::Flush,
            5 => Self::FlushAck,
            6 => Self::Probe,
            7 => Self::Fail,
            _ => return None,
        })
    }

    /// Whether it goes from the destination of the messages to their source.
    pub const fn is_answer(self) -> bool {
        matches!(self, Self::Ack | Self::FlushAck)
    }
}

/// A frame without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// The channel that it belongs to.
    pub link: Link,
    /// Number of the frame in its channel, or what `kind` says. Wraps around.
    pub sequence: u32,
    /// In answers: the first frame for which the receiver has granted no space. Zero in all others.
    pub limit: u32,
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Fewer bytes than a header.
    #[error("read a frame of {0} bytes: the header alone has {HEADER_BYTES}")]
    Short(usize),
    /// Another version of the format.
    #[error("read a frame of version {0}: expected version {VERSION}")]
    Version(u8),
    /// A kind that does not exist.
    #[error("read a frame of unknown kind {0}")]
    Kind(u8),
    /// The header claims a length that the frame does not have.
    #[error("read a frame with {present} bytes of payload: its header claims {told}")]
    Length {
        /// What the header says.
        told: usize,
        /// What there is.
        present: usize,
    },
    /// Bytes were changed in transit.
    #[error("read a frame with a wrong checksum")]
    Checksum,
}

impl Header {
    /// Replaces the content of `frame` with this header and `payload`, which is cut to
    /// [`MAX_PAYLOAD`].
    pub fn encode(&self, payload: &[u8], frame: &mut Vec<u8>) {
        let payload = &payload[..payload.len().min(MAX_PAYLOAD)];
        frame.clear();
        frame.extend([VERSION, self.kind.code()]);
        frame.extend((payload.len() as u16).to_le_bytes());
        let Link {
            gang,
            epoch,
            source,
            destination,
        } = self.link;
        for word in [gang, source, destination, self.sequence, self.limit] {
            frame.extend(word.to_le_bytes());
        }
        frame.extend(epoch.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(frame), payload);
        frame.extend(crc.to_le_bytes());
        frame.extend_from_slice(payload);
    }

    /// Reads a frame: its header and its payload.
    ///
    /// # Errors
    /// The bytes are not a frame of this version, or were changed in transit.
    pub fn decode(frame: &[u8]) -> Result<(Self, &[u8]), FrameError> {
        let Some((head, payload)) = frame.split_first_chunk::<HEADER_BYTES>() else {
            return Err(FrameError::Short(frame.len()));
        };
        let word = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
        if head[0] != VERSION {
            return Err(FrameError::Version(head[0]));
        }
        let told = usize::from(u16::from_le_bytes([head[2], head[3]]));
        if told != payload.len() {
            let present = payload.len();
            return Err(FrameError::Length { told, present });
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&head[..HEADER_BYTES - 4]), payload);
        if crc != word(HEADER_BYTES - 4) {
            return Err(FrameError::Checksum);
        }
        let kind = Kind::of(head[1]).ok_or(FrameError::Kind(head[1]))?;
        let link = Link {
            gang: word(4),
            epoch: u64::from(word(24)) | u64::from(word(28)) << 32,
            source: word(8),
            destination: word(12),
        };
        let header = Self {
            kind,
            link,
            sequence: word(16),
            limit: word(20),
        };
        Ok((header, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(code: u8, epoch: u64, words: [u32; 5]) -> Header {
        let [gang, source, destination, sequence, limit] = words;
        Header {
            kind: Kind::of(code).unwrap(),
            link: Link {
                gang,
                epoch,
                source,
                destination,
            },
            sequence,
            limit,
        }
    }

    #[test]
    fn the_checksum_is_that_of_rfc_3720() {
        // Appendix B.4: 32 bytes of zeros.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8A91_36AA);
    }

    #[test]
    fn a_frame_has_its_bytes_where_the_format_says() {
        let mut frame = Vec::new();
        header(2, 9 << 32 | 4, [3, 5, 6, 7, 8]).encode(b"ab", &mut frame);
        let told = [2, 2, 2, 0, 3, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0];
        assert_eq!(frame[..16], told);
        assert_eq!(frame[16..24], [7, 0, 0, 0, 8, 0, 0, 0]);
        assert_eq!(frame[24..32], [4, 0, 0, 0, 9, 0, 0, 0]);
        let covered: Vec<u8> = [&frame[..32], b"ab"].concat();
        assert_eq!(frame[32..36], crc32c::crc32c(&covered).to_le_bytes());
        assert_eq!(frame[36..], *b"ab");
    }

    #[test]
    fn foreign_frames_are_refused_by_name() {
        let mut frame = Vec::new();
        header(1, 0, [0; 5]).encode(&[], &mut frame);
        assert_eq!(Header::decode(&frame[..35]), Err(FrameError::Short(35)));
        frame[0] = 1;
        assert_eq!(Header::decode(&frame), Err(FrameError::Version(1)));
        frame[0] = 2;
        frame[2] = 1;
        let (told, present) = (1, 0);
        let wrong = FrameError::Length { told, present };
        assert_eq!(Header::decode(&frame), Err(wrong));
        frame[2] = 0;
        for code in [0, 8, 255] {
            frame[1] = code;
            let crc = crc32c::crc32c(&frame[..32]).to_le_bytes();
            frame[32..36].copy_from_slice(&crc);
            assert_eq!(Header::decode(&frame), Err(FrameError::Kind(code)));
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(
            code in 1_u8..8,
            epoch: u64,
            words: [u32; 5],
            payload in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut frame = vec![9; 5];
            header(code, epoch, words).encode(&payload, &mut frame);
            let decoded = Header::decode(&frame);
            prop_assert_eq!(decoded, Ok((header(code, epoch, words), &payload[..])));
        }

        #[test]
        fn up_to_three_changed_bits_are_noticed(
            epoch: u64,
            words: [u32; 5],
            payload in proptest::collection::vec(any::<u8>(), 0..300),
            bits in proptest::collection::vec(any::<proptest::sample::Index>(), 1..4),
        ) {
            let mut frame = Vec::new();
            header(1, epoch, words).encode(&payload, &mut frame);
            let bits: std::collections::BTreeSet<usize> =
                bits.iter().map(|bit| bit.index(frame.len() * 8)).collect();
            for bit in bits {
                frame[bit / 8] ^= 1 << (bit % 8);
            }
            prop_assert!(Header::decode(&frame).is_err());
        }

        #[test]
        fn foreign_bytes_are_never_a_frame_and_never_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            prop_assert!(Header::decode(&bytes).is_err());
        }
    }
}
