//! Ends of messages, and the requests that link start and completion.

use super::build::Build;
use super::lane::{Lane, MOST_ENDS};
use super::requests::{Open, Requests};
use crate::import::error::ImportError;
use crate::otf2::Message;
use idlewave_run::tables::{Direction, Transfer};
use idlewave_units::Bytes;

impl Build {
    /// One end of a message, without the times of its completion; `None` if it has no place in a run.
    fn message(&mut self, lane: &Lane, direction: Direction, message: Message) -> Option<Transfer> {
        let comm = lane.local.comms.global(message.comm);
        let rank = lane.rank;
        let number = rank.and_then(|rank| self.world.comm(comm, rank, &mut self.app));
        let (Some(rank), Some(number)) = (rank, number) else {
            self.losses.foreign += 1;
            return None;
        };
        let peer = self.world.peer(comm, rank, message.peer);
        self.losses.no_peer += u64::from(peer.is_none());
        Some(Transfer {
            rank,
            thread: self.app.thread(lane.thread).pid,
            direction,
            comm: number,
            peer,
            // C's tags are signed.
            tag: message.tag as i32,
            bytes: Some(Bytes::new(message.bytes)),
            posted_ns: lane.begin_ns(),
            wait_ns: None,
            completed_ns: None,
        })
    }

    /// The same for a message whose communicator becomes that of the current call.
    pub(super) fn message_of_call(
        &mut self,
        lane: &mut Lane,
        direction: Direction,
        message: Message,
    ) -> Option<Transfer> {
        let end = self.message(lane, direction, message)?;
        if let Some(call) = &mut lane.call {
            call.comm = Some(end.comm);
        }
        Some(end)
    }

    /// A message that the call both starts and completes.
    pub(super) fn whole(
        &mut self,
        lane: &mut Lane,
        direction: Direction,
        message: Message,
    ) -> Result<(), ImportError> {
        match self.message_of_call(lane, direction, message) {
            Some(end) => self.complete(lane, end),
            None => Ok(()),
        }
    }

    /// Completes an end of a message with the current call.
    fn complete(&mut self, lane: &mut Lane, end: Transfer) -> Result<(), ImportError> {
        let end = Transfer {
            wait_ns: Some(lane.begin_ns()),
            completed_ns: Some(lane.now_ns),
            ..end
        };
        match &mut lane.call {
            Some(call) if call.ends.len() < MOST_ENDS => {
                call.ends.push(end);
                Ok(())
            }
            _ => self.app.transfer(end),
        }
    }

    /// Starts an operation with the current call.
    pub(super) fn start(
        &mut self,
        lane: &mut Lane,
        requests: &mut Requests,
        request: u64,
        open: Option<Open>,
    ) -> Result<(), ImportError> {
        requests.number(lane);
        let Some(open) = open else {
            return Ok(());
        };
        let lost = requests.insert(request, open);
        lost.map_or(Ok(()), |lost| self.never_completed(lost))
    }

    pub(super) fn sent(
        &mut self,
        lane: &mut Lane,
        requests: &mut Requests,
        request: u64,
    ) -> Result<(), ImportError> {
        match requests.remove(request) {
            Some(Open::Send(end)) => self.complete(lane, end),
            // Without a rank, it was counted at its start.
            _ => {
                self.losses.not_started += u64::from(lane.rank.is_some());
                Ok(())
            }
        }
    }

    pub(super) fn received(
        &mut self,
        lane: &mut Lane,
        requests: &mut Requests,
        message: Message,
        request: u64,
    ) -> Result<(), ImportError> {
        let open = requests.remove(request);
        // The call that completes it may complete others too, so it gets no communicator.
        let Some(mut end) = self.message(lane, Direction::Receive, message) else {
            return Ok(());
        };
        match open {
            Some(Open::Receive { thread, posted_ns }) => {
                (end.thread, end.posted_ns) = (thread, posted_ns);
            }
            _ => self.losses.not_started += 1,
        }
        self.complete(lane, end)
    }

    pub(super) fn never_completed(&mut self, open: Open) -> Result<(), ImportError> {
        match open {
            Open::Send(end) => self.app.transfer(end),
            Open::Receive { .. } => {
                self.losses.open_receives += 1;
                Ok(())
            }
        }
    }
}
