//! What is said of a request a few bytes over a class: why it is probably so large, what to do, how sure that is.
//!
//! Advice never leads to a buffer that is too small: what a change would take from the content is said, and what the block holds
//! anyway where the content cannot be shorter.

use crate::words::{bytes, count, plural};
use crate::{Basis, Cause, Clownshoe, Confidence, Cost, Level, Saving};

/// From this size on, a round one is somebody's choice rather than chance.
pub(crate) const ROUND_BYTES: u64 = 1024;

/// What to do about `shoe`. `recorded`: the allocator recorded under, where usable sizes were measured.
pub(crate) fn advice(shoe: &Clownshoe, basis: Basis, saving: &Saving, costs: &[Cost], recorded: Option<&str>) -> String {
    let each = format!("{} -> {} ({})", count(shoe.request), count(shoe.usable), count(shoe.usable - shoe.request));
    let saves = if saving.at_peak_bytes > 0 {
        format!("{} at the peak, {} over the run", bytes(saving.at_peak_bytes), bytes(saving.total_bytes))
    } else {
        format!("{} over the run, nothing at the peak", bytes(saving.total_bytes))
    };
    let mut text = format!("{}. On {} each is {each}; it would save {saves}.", what(shoe), basis.title());
    if let (false, Some(recorded)) = (basis == Basis::Measured, recorded) {
        match costs.iter().find(|cost| cost.basis == Basis::Measured) {
            Some(cost) => text.push_str(&format!(" Measured on {recorded}, its slop is {} over the run.", bytes(cost.total_bytes))),
            None => text.push_str(&format!(" It costs nothing on {recorded}.")),
        }
    }
    text
}

fn what(shoe: &Clownshoe) -> String {
    let (free, usable, over) = (count(shoe.free_request), count(shoe.usable), plural(shoe.over_bytes, "byte"));
    let anyway = format!("where it cannot, all {usable} are paid for: use them");
    match &shoe.cause {
        Cause::ConstantHeader { bytes: header, round_sizes } => {
            let others = round_sizes.iter().map(|round| round + header).filter(|size| *size != shoe.request);
            let mut examples: Vec<String> = others.map(count).collect();
            examples.drain(..examples.len().saturating_sub(3));
            format!(
                "Something adds {header} bytes to round sizes here ({} bytes are asked for too). Make the payload {} bytes, so that header and payload ask for {free}",
                examples.join("; "),
                count(shoe.free_request.saturating_sub(*header))
            )
        }
        Cause::Terminator { bytes: end } => format!(
            "A capacity of {} and {} for a terminator, it seems: round up after adding it. {} and the terminator ask for {free}. That holds {over} less; where the content needs \
             more, all {usable} are paid for: make that the capacity",
            count(shoe.request.saturating_sub(*end)),
            plural(*end, "byte"),
            count(shoe.free_request.saturating_sub(*end)),
        ),
        Cause::RoundPlusConstant { round, bytes: over } => format!(
            "{} bytes and {} more are asked for. If the content can be {} shorter, let {free} hold both; {anyway}",
            count(*round),
            count(*over),
            plural(*over, "byte"),
        ),
        Cause::Coincidence => format!("If the content can be {over} shorter, ask for {free}; {anyway}"),
    }
}

/// How sure a cause is.
pub(crate) fn confidence(cause: &Cause, basis: Basis) -> Confidence {
    let counted = if basis == Basis::Measured { "the waste is measured" } else { "the waste follows from the size alone" };
    let (level, why) = match cause {
        Cause::ConstantHeader { round_sizes, .. } if round_sizes.len() >= 3 => {
            (Level::High, format!("{} powers of two carry the same surplus here", round_sizes.len()))
        }
        Cause::ConstantHeader { .. } => (Level::Medium, "two powers of two carry the same surplus here".into()),
        Cause::Terminator { .. } => (Level::Medium, "a surplus of one or two bytes is most often a terminator".into()),
        Cause::RoundPlusConstant { round, .. } if *round >= ROUND_BYTES => {
            (Level::Medium, "always the same size, a round one and a constant; that it is so is inferred from this size alone".into())
        }
        Cause::RoundPlusConstant { .. } => (Level::Low, "a size as small as this may well be what the content needs".into()),
        Cause::Coincidence => (Level::Low, "there is no pattern that tells why".into()),
    };
    Confidence { level, reason: format!("{counted}; {why}") }
}
