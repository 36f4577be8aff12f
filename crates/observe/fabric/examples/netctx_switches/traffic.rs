//! A rank: it sends random messages to all until it is told to end, and then reports what was wrong
//! with those it received.

use crate::Failed;
use idlewave_fabric::netctx::device::{At, Attachment};
use idlewave_fabric::{Fabric, PointToPoint, Tag};
use idlewave_stats::random::SplitMix;
use idlewave_units::Rank;

/// The `round`-th message from one rank to another; it starts with its number.
fn message(gang: u64, from: u64, to: u64, round: u64) -> Vec<u8> {
    let mut random = SplitMix::new(gang << 48 | from << 40 | to << 32 | round);
    let most = if random.below(32) == 0 { 20_000 } else { 400 };
    let length = random.below(most);
    let mut data = round.to_le_bytes().to_vec();
    data.extend((0..length).map(|_| random.bits() as u8));
    data
}

/// What is wrong with a message that should have been `wanted`.
fn judge(data: &[u8], wanted: &[u8], round: u64) -> &'static str {
    let number = data.first_chunk().map(|raw| u64::from_le_bytes(*raw));
    match number {
        _ if data == wanted => "right",
        Some(number) if number < round => "doubled",
        Some(number) if number > round => "lost",
        _ => "changed",
    }
}

/// Longest message, bytes.
const MOST: usize = 8 + 20_000;

pub fn run() -> Result<(), Failed> {
    let attachment = Attachment::of_this_process()?.ok_or("find a device in the environment")?;
    let mut fabric = attachment.attach()?;
    let At::Device { gang, .. } = attachment.at else {
        return Err("find a device in the environment".into());
    };
    let gang = u64::from(gang);
    let (own, size) = (u64::from(fabric.rank().get()), u64::from(fabric.size()));
    // The parent closes standard input when all is over; rank 0 decides for all.
    let end = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let noticed = std::sync::Arc::clone(&end);
    std::thread::spawn(move || {
        let mut nothing = String::new();
        let _ = std::io::stdin().read_line(&mut nothing);
        noticed.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let (mut round, mut bytes, mut wrong) = (0_u64, 0_u64, [0_u64; 3]);
    let done = loop {
        let mut go = || -> Result<bool, idlewave_fabric::FabricError> {
            let mut receives = Vec::new();
            let mut sends = Vec::new();
            for peer in 0..size {
                let from = Some(Rank::new(peer as u32));
                receives.push(fabric.start_receive(from, Tag(1), MOST, Vec::new())?);
            }
            for peer in 0..size {
                let data = message(gang, own, peer, round);
                sends.push(fabric.start_send(Rank::new(peer as u32), Tag(1), data)?);
            }
            for (peer, receiving) in (0..).zip(receives) {
                let data = fabric.finish_receive(receiving, &mut || ())?.data;
                bytes += data.len() as u64;
                match judge(&data, &message(gang, peer, own, round), round) {
                    "right" => {}
                    "lost" => wrong[0] += 1,
                    "doubled" => wrong[1] += 1,
                    _ => wrong[2] += 1,
                }
            }
            for sending in sends {
                fabric.finish_send(sending, &mut || ())?;
            }
            round += 1;
            if round % 16 > 0 {
                return Ok(false);
            }
            let over = end.load(std::sync::atomic::Ordering::Relaxed);
            let mut over = [if own == 0 && over { 1.0 } else { 0.0 }];
            let sum = idlewave_fabric::Reduction::Sum;
            fabric.allreduce(&mut over, sum, &mut || ())?;
            Ok(over[0] > 0.0)
        };
        match go() {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let [lost, doubled, changed] = wrong;
    let messages = round * size;
    let how = match done {
        Ok(()) => "ended",
        Err(_) => "failed",
    };
    println!("rank {gang} {own} {how} {messages} {bytes} {lost} {doubled} {changed}");
    Ok(())
}
