//! HELLO and HELLO-BACK.

use super::channel::Channel;
use super::contribution::{Credential, Heard, Local, VALID};
use super::secrets::Secrets;
use super::state::{Attempt, Handled, Session};
use crate::coder::Coder;
use crate::derive::{Nonce, Pair, Secret, hello_coder};
use crate::frame::{self, Content, Frame, Greeting};
use crate::{LinkError, Reason};
use idlewave_units::Nanos;

/// HELLO is repeated after this time, then after twice as long ...
const FIRST: Nanos = Nanos::from_millis(10);
/// ... up to this.
const LAST: Nanos = Nanos::from_millis(200);
/// HELLO is no longer repeated once this end has had nothing to send for this long.
const GIVE_UP: Nanos = Nanos::from_secs(10);
/// An unanswered credential is renewed after this time: it can be decoded only once, and a peer
/// that decoded it may have restarted since. Later ones are renewed after half of the time tried so
/// far ...
const FRESH: Nanos = Nanos::from_millis(500);
/// ... up to this.
const STALE: Nanos = Nanos::from_secs(5);

/// How many nonces of the other end to remember, if each end has a secret of its own.
const HEARD: usize = 16;

/// The secret of the sender of a HELLO, if the HELLO is genuine. It may be a replay.
///
/// # Errors
/// The HELLO is not genuine.
pub(crate) fn genuine_hello(
    now: Nanos,
    frame: &Frame<'_>,
    hello: &Greeting<'_>,
    secrets: &mut dyn Secrets,
) -> Result<Secret, Reason> {
    let secret = secrets.theirs(now, hello.credential)?;
    if hello.echo != [0; 16] {
        return Err(Reason::Malformed);
    }
    if frame.is_of(&hello_coder(&secret)) {
        Ok(secret)
    } else {
        Err(Reason::Forged)
    }
}

impl Session {
    /// Asks for a session, or asks again if that is due.
    pub(super) fn ask(
        &mut self,
        now: Nanos,
        secrets: &mut dyn Secrets,
        out: &mut Vec<Vec<u8>>,
    ) -> Result<(), LinkError> {
        let attempt = self.attempt.get_or_insert(Attempt {
            asked: now,
            next: now,
            wait: FIRST,
        });
        attempt.asked = now;
        self.repeat(now, secrets, out)
    }

    /// Repeats HELLO if it is due ([`Session::due`]). Appends the datagrams for the peer to `out`.
    ///
    /// # Errors
    /// No credential can be made now.
    pub fn repeat(
        &mut self,
        now: Nanos,
        secrets: &mut dyn Secrets,
        out: &mut Vec<Vec<u8>>,
    ) -> Result<(), LinkError> {
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.next <= now) else {
            return Ok(());
        };
        if now.saturating_sub(attempt.asked) > GIVE_UP {
            self.attempt = None;
            return Ok(());
        }
        attempt.next = now + attempt.wait;
        attempt.wait = (attempt.wait + attempt.wait).min(LAST);
        let (me, peer) = (self.me, self.peer);
        let local = self.local(now, secrets)?;
        let tried = now.saturating_sub(local.made).get();
        let longest = Nanos::from_nanos(tried / 2).clamp(FRESH, STALE);
        let kept = local.credential.take();
        let kept = kept.filter(|credential| now.saturating_sub(credential.made) <= longest);
        let credential = match kept {
            Some(credential) => credential,
            None => local.another(now, secrets)?,
        };
        let coder = hello_coder(&local.secret);
        let credential = local.credential.insert(credential);
        local.told = true;
        let hello = frame::hello(&coder, me, peer, &local.nonce, &credential.bytes);
        out.push(hello);
        Ok(())
    }

    /// This end's contribution to the next session.
    fn local(&mut self, now: Nanos, secrets: &mut dyn Secrets) -> Result<&mut Local, LinkError> {
        let kept = self.local.take().filter(|local| local.is_valid(now));
        let local = match kept {
            Some(local) => local,
            None => {
                let coder = Coder::new(&self.seed);
                let count = self.derived.to_le_bytes();
                self.derived += 1;
                let fresh = coder.whole(&[b"secret", &count]);
                let (secret, bytes) = secrets.mine(fresh)?;
                Local {
                    nonce: coder.first(&[b"nonce", &count]),
                    secret,
                    fresh,
                    made: now,
                    credential: Some(Credential { bytes, made: now }),
                    told: false,
                }
            }
        };
        Ok(self.local.insert(local))
    }

    /// Answers a HELLO. It may be a replay, so it changes nothing in the session.
    pub(super) fn hello(
        &mut self,
        now: Nanos,
        frame: &Frame<'_>,
        hello: &Greeting<'_>,
        secrets: &mut dyn Secrets,
    ) -> Result<Handled, Reason> {
        let secret = genuine_hello(now, frame, hello, secrets)?;
        if !self.answers.take(now) {
            return Err(Reason::Rate);
        }
        let (me, peer) = (self.me, self.peer);
        let (nonce, coder, credential) = match &mut self.current {
            Some(channel) if channel.theirs == hello.nonce => {
                if channel.proven {
                    return Err(Reason::Replayed);
                }
                // The other end does not know yet that there is a session.
                let coder = channel.pair.back_of(me);
                let local = &channel.local;
                let answer = match (secrets.shared(), channel.answer.take()) {
                    (Some(_), _) => Credential::none(now),
                    (None, Some(answer)) => answer,
                    (None, None) => local.another(now, secrets).map_err(|_| Reason::Unable)?,
                };
                let answer = channel.answer.insert(answer);
                (local.nonce, coder, &answer.bytes[..])
            }
            _ => {
                self.local(now, secrets).map_err(|_| Reason::Unable)?;
                let local = self.local.as_ref().ok_or(Reason::Unable)?;
                let coder = self.pair(local, &hello.nonce, &secret).back_of(me);
                let nonce = local.nonce;
                let credential = match secrets.shared() {
                    Some(_) => &[],
                    None => self.remember(now, hello.nonce, secret, secrets)?,
                };
                (nonce, coder, credential)
            }
        };
        let back = frame::back(&coder, me, peer, &nonce, &hello.nonce, credential);
        if back.len() > frame.length() {
            return Err(Reason::Amplifies);
        }
        Ok(Handled {
            answers: vec![back],
            ..Handled::default()
        })
    }

    /// Remembers a nonce of the other end with its secret. Returns the credential that answers it.
    fn remember(
        &mut self,
        now: Nanos,
        nonce: Nonce,
        secret: Secret,
        secrets: &mut dyn Secrets,
    ) -> Result<&[u8], Reason> {
        let known = self.heard.iter().position(|heard| heard.nonce == nonce);
        let known = known.and_then(|at| self.heard.remove(at));
        let known = known.filter(|heard| now.saturating_sub(heard.answer.made) <= VALID);
        let heard = match known {
            Some(heard) => heard,
            None => {
                if !self.credentials.take(now) {
                    return Err(Reason::Rate);
                }
                let local = self.local.as_mut().ok_or(Reason::Unable)?;
                let unused = local.credential.take_if(|_| !local.told);
                let answer = match unused {
                    Some(credential) => credential,
                    None => local.another(now, secrets).map_err(|_| Reason::Unable)?,
                };
                Heard {
                    nonce,
                    secret,
                    answer,
                }
            }
        };
        if self.heard.len() == HEARD {
            self.heard.pop_front();
        }
        self.heard.push_back(heard);
        self.heard
            .back()
            .map(|heard| &heard.answer.bytes[..])
            .ok_or(Reason::Unable)
    }

    /// Handles a HELLO-BACK.
    pub(super) fn back(
        &mut self,
        now: Nanos,
        frame: &Frame<'_>,
        back: &Greeting<'_>,
        secrets: &mut dyn Secrets,
    ) -> Result<Handled, Reason> {
        let asked = self.local.as_ref().filter(|_| self.attempt.is_some());
        let local = asked
            .filter(|local| local.nonce == back.echo)
            .ok_or(Reason::Unasked)?;
        let secret = secrets.theirs(now, back.credential)?;
        let pair = self.pair(local, &back.nonce, &secret);
        if !frame.is_of(&pair.back_of(self.peer)) {
            return Err(Reason::Forged);
        }
        if let Some(channel) = self.current.as_mut().filter(|c| c.theirs == back.nonce) {
            // When it answered, the other end had not begun this session. The note makes it begin.
            self.attempt = None;
            self.unanswered = None;
            self.said = Some(now);
            return Ok(Handled {
                answers: vec![channel.seal(None)],
                ..Handled::default()
            });
        }
        let local = self.local.take().ok_or(Reason::Unasked)?;
        let channel = Channel::new(self.me, self.peer, pair, local, back.nonce);
        let old = self.current.take();
        self.begin(channel, old);
        let mut handled = Handled {
            begun: true,
            ..Handled::default()
        };
        self.say_what_waits(now, &mut handled.answers);
        Ok(handled)
    }

    /// The keys of the session that a frame with the other end's nonce would begin.
    pub(super) fn would_begin(
        &self,
        now: Nanos,
        nonce: &Nonce,
        secrets: &dyn Secrets,
    ) -> Option<Pair> {
        let local = self.local.as_ref().filter(|local| local.is_valid(now))?;
        let secret = secrets.shared().or_else(|| {
            let heard = self.heard.iter().find(|heard| heard.nonce == *nonce);
            heard.map(|heard| heard.secret.clone())
        })?;
        Some(self.pair(local, nonce, &secret))
    }

    /// Handles a datagram.
    ///
    /// # Errors
    /// The datagram is refused. The session goes on as before.
    pub fn handle(
        &mut self,
        now: Nanos,
        datagram: &[u8],
        secrets: &mut dyn Secrets,
    ) -> Result<Handled, Reason> {
        self.handle_frame(now, &Frame::parse(datagram)?, secrets)
    }

    pub(crate) fn handle_frame(
        &mut self,
        now: Nanos,
        frame: &Frame<'_>,
        secrets: &mut dyn Secrets,
    ) -> Result<Handled, Reason> {
        if frame.from != self.peer {
            return Err(Reason::Sender);
        }
        if frame.to != self.me {
            return Err(Reason::Receiver);
        }
        match &frame.content {
            Content::Hello(hello) => self.hello(now, frame, hello, secrets),
            Content::Back(back) => self.back(now, frame, back, secrets),
            Content::Speech(speech) => self.heard_speech(now, frame, speech, secrets),
        }
    }
}
