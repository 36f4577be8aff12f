//! Sending and receiving in a session.

use super::channel::Channel;
use super::secrets::Secrets;
use super::state::{Handled, Session};
use crate::frame::{Frame, LONGEST, Speech};
use crate::{LinkError, Reason};
use idlewave_units::Nanos;

/// This end asks for a new session after this long without an answer to at least three payloads.
pub const SILENCE: Nanos = Nanos::from_millis(200);

/// A peer answers at least one in this many payloads, if only with a note. The last ones before a
/// pause may go unanswered.
const SOON: u32 = 3;

/// An end that has sent nothing for this long answers a payload with a note.
pub const ECHO: Nanos = Nanos::from_millis(50);

/// How many payloads wait for a session; if there are more, the oldest are dropped.
pub const WAITING: usize = 8;

/// How long a payload waits for a session.
pub const KEPT: Nanos = Nanos::from_secs(2);

impl Handled {
    fn given(payload: Option<Vec<u8>>) -> Self {
        Handled {
            payload,
            ..Handled::default()
        }
    }
}

impl Session {
    /// Sends `payload`, or keeps it until there is a session. Appends the datagrams for the peer to
    /// `out`. `now` must not decrease from call to call.
    ///
    /// # Errors
    /// The payload is too long, or no credential can be made now.
    pub fn send(
        &mut self,
        now: Nanos,
        payload: &[u8],
        secrets: &mut dyn Secrets,
        out: &mut Vec<Vec<u8>>,
    ) -> Result<(), LinkError> {
        if payload.len() > LONGEST {
            return Err(LinkError::TooLong(payload.len()));
        }
        if let Some(channel) = &mut self.current {
            out.push(channel.seal(Some(payload)));
            self.said = Some(now);
            let (since, count) = self.unanswered.get_or_insert((now, 0));
            *count = count.saturating_add(1);
            if *count < SOON || now.saturating_sub(*since) < SILENCE {
                return Ok(());
            }
        } else {
            self.waiting.push_back((now, payload.to_vec()));
            if self.waiting.len() > WAITING {
                self.waiting.pop_front();
            }
        }
        self.ask(now, secrets, out)
    }

    /// Sends what waited for the session, or a note if nothing did.
    pub(super) fn say_what_waits(&mut self, now: Nanos, out: &mut Vec<Vec<u8>>) {
        let Some(channel) = &mut self.current else {
            return;
        };
        let before = out.len();
        for (since, payload) in self.waiting.drain(..) {
            if now.saturating_sub(since) <= KEPT {
                out.push(channel.seal(Some(&payload)));
            }
        }
        if out.len() == before {
            out.push(channel.seal(None));
        }
        self.said = Some(now);
    }

    /// Handles a frame of a session.
    pub(super) fn heard_speech(
        &mut self,
        now: Nanos,
        frame: &Frame<'_>,
        speech: &Speech<'_>,
        secrets: &mut dyn Secrets,
    ) -> Result<Handled, Reason> {
        if let Some(channel) = self.current.as_mut().filter(|c| c.is_of(speech)) {
            let payload = channel.open(frame, speech)?;
            self.old = None;
            self.attempt = None;
            self.unanswered = None;
            let mut handled = Handled::given(payload);
            self.echo(now, speech, &mut handled);
            return Ok(handled);
        }
        if let Some(channel) = self.old.as_mut().filter(|c| c.is_of(speech)) {
            return channel.open(frame, speech).map(Handled::given);
        }
        let nonce = speech.opening.ok_or(Reason::Session)?;
        let pair = self
            .would_begin(now, &nonce, secrets)
            .ok_or(Reason::Session)?;
        if pair.id() != speech.id {
            return Err(Reason::Session);
        }
        // Check the frame before changing anything.
        let opened = frame.open(speech, &pair.frames_of(self.peer));
        opened.ok_or(Reason::Forged)?;
        let local = self.local.take().ok_or(Reason::Session)?;
        let mut channel = Channel::new(self.me, self.peer, pair, local, nonce);
        let payload = channel.open(frame, speech)?;
        self.begin(channel, None);
        let mut handled = Handled::given(payload);
        handled.begun = true;
        self.say_what_waits(now, &mut handled.answers);
        Ok(handled)
    }

    /// Answers a payload with a note if this end has been quiet for a while. Notes are not
    /// answered, or two ends would go on forever.
    fn echo(&mut self, now: Nanos, speech: &Speech<'_>, handled: &mut Handled) {
        let wanted = speech.payload.is_some();
        let quiet = self
            .said
            .is_none_or(|said| now.saturating_sub(said) >= ECHO);
        if let Some(channel) = self.current.as_mut().filter(|_| wanted && quiet) {
            handled.answers.push(channel.seal(None));
            self.said = Some(now);
        }
    }
}
