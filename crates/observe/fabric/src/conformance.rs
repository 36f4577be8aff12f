//! What every implementation of [`Fabric`] must do. All ranks of a world call each function
//! together; it panics if a promise is broken.

pub mod collectives;
pub mod messages;

use crate::{Fabric, Waits};

/// Runs all checks one after the other, with watched and with blocking waits. `now` is a clock that
/// all ranks share.
pub fn all<F: Fabric>(fabric: &mut F, now: impl Fn() -> u64) {
    for waits in [Waits::Watched, Waits::Blocking] {
        fabric.set_waits(waits);
        messages::order_is_kept_per_tag(fabric);
        messages::tags_are_told_apart(fabric);
        messages::any_source_hears_everyone(fabric);
        messages::long_messages_arrive_whole(fabric);
        messages::exchange_with_neighbours_does_not_block(fabric);
        messages::operations_complete_in_any_order(fabric);
        messages::buffers_come_back(fabric);
        messages::messages_to_oneself_arrive(fabric);
        messages::a_message_too_long_is_an_error(fabric);
        messages::unknown_ranks_are_an_error(fabric);
        messages::no_rank_leaves_a_barrier_early(fabric, &now);
        messages::what_was_sent_before_a_barrier_can_be_received(fabric);
    }
    fabric.set_waits(Waits::Watched);
    messages::waits_call_their_hook(fabric);
    collectives::all(fabric);
}
