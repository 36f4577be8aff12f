//! HELLO and HELLO-BACK.

use super::{Channel, HEARD, Handled, Secret, Secrets, Session};
use crate::derive::{Coder, Nonce, hello_coder};
use crate::frame::{self, Content, Frame, Greeting};
use crate::{LinkError, Reason};
use idlewave_units::Nanos;

/// HELLO is said again after this, then after twice as long ...
const FIRST: Nanos = Nanos::from_millis(10);
/// ... up to this.
const LAST: Nanos = Nanos::from_millis(200);
/// HELLO is not said any more when nobody has spoken for this long.
const GIVE_UP: Nanos = Nanos::from_secs(10);
/// What is said in vain for this long is made anew: a credential is decoded once, maybe by a peer that has started again since.
const FRESH: Nanos = Nanos::from_secs(2);
/// What is answered with is made anew after this: credentials of munge are valid for five minutes.
const VALID: Nanos = Nanos::from_secs(60);

/// What this end adds to a session.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) nonce: Nonce,
    pub(super) secret: Secret,
    pub(super) credential: Vec<u8>,
    made: Nanos,
}

/// This end asks for a session.
#[derive(Debug)]
pub(super) struct Attempt {
    /// When somebody last had something to say.
    asked: Nanos,
    /// When HELLO is said again.
    next: Nanos,
    /// After how long again after that.
    wait: Nanos,
}

impl Attempt {
    pub(super) fn next(&self) -> Nanos {
        self.next
    }
}

/// The secret of who said a HELLO, if that is genuine. It may be an old one.
///
/// # Errors
/// It is not.
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
    /// Asks for a session, now and again.
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

    /// Says HELLO again where it is due ([`Session::due`]); adds datagrams to send to the peer to `out`.
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
        let local = self.local(now, FRESH, secrets)?;
        let coder = hello_coder(&local.secret);
        let hello = frame::hello(&coder, me, peer, &local.nonce, &local.credential);
        out.push(hello);
        Ok(())
    }

    /// What this end adds to the next session; made anew if it is older than `longest`.
    fn local(
        &mut self,
        now: Nanos,
        longest: Nanos,
        secrets: &mut dyn Secrets,
    ) -> Result<&Local, LinkError> {
        let kept = self.local.take();
        let local = match kept.filter(|local| now.saturating_sub(local.made) <= longest) {
            Some(local) => local,
            None => {
                let coder = Coder::new(&self.seed);
                let count = self.derived.to_le_bytes();
                self.derived += 1;
                let (secret, credential) = secrets.mine(coder.whole(&[b"secret", &count]))?;
                let nonce = coder.first(&[b"nonce", &count]);
                Local {
                    nonce,
                    secret,
                    credential,
                    made: now,
                }
            }
        };
        Ok(self.local.insert(local))
    }

    /// HELLO of the other end. It may be an old one, so that nothing of a session changes.
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
        let again = self.current.as_ref().filter(|c| c.theirs == hello.nonce);
        let back = if let Some(channel) = again {
            // The other end does not know yet that there is a session.
            let coder = channel.pair.back_of(me);
            let local = &channel.local;
            frame::back(
                &coder,
                me,
                peer,
                &local.nonce,
                &hello.nonce,
                &local.credential,
            )
        } else {
            if secrets.shared().is_none() {
                // Who says HELLO with another nonce may have started anew, and cannot decode a credential that it decoded
                // before. Credentials are valid once, so that nobody else can say this.
                if self.answered.is_some_and(|nonce| nonce != hello.nonce) {
                    self.local = None;
                }
                self.heard.retain(|(nonce, _)| *nonce != hello.nonce);
                self.heard.push_back((hello.nonce, secret.clone()));
                if self.heard.len() > HEARD {
                    self.heard.pop_front();
                }
            }
            self.answered = Some(hello.nonce);
            self.local(now, VALID, secrets)
                .map_err(|_| Reason::Unable)?;
            let local = self.local.as_ref().ok_or(Reason::Unable)?;
            let coder = self.pair(local, &hello.nonce, &secret).back_of(me);
            frame::back(
                &coder,
                me,
                peer,
                &local.nonce,
                &hello.nonce,
                &local.credential,
            )
        };
        if back.len() > frame.length() {
            return Err(Reason::Amplifies);
        }
        Ok(Handled {
            answers: vec![back],
            ..Handled::default()
        })
    }

    /// HELLO-BACK of the other end.
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
        nonce: &Nonce,
        secrets: &dyn Secrets,
    ) -> Option<crate::derive::Pair> {
        let local = self.local.as_ref()?;
        let secret = secrets.shared().or_else(|| {
            let heard = self.heard.iter().find(|(heard, _)| heard == nonce);
            heard.map(|(_, secret)| secret.clone())
        })?;
        Some(self.pair(local, nonce, &secret))
    }

    /// Takes a datagram.
    ///
    /// # Errors
    /// It is refused, and nothing changed but what bounds the rate of answers.
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
