//! Faults of a GPU that end the context of the process they happen in.
//!
//! The driver tells of them late, at whatever is called next, and then of every call that follows. So the process
//! ends, the case is run once more in a fresh one in which the host waits for every launch, and the line comes from
//! that run.

use super::Case;
use super::assess::Ended;
use super::inputs::Prepared;
use super::run::{CheckRun, Manner};
use crate::runner::Worker;
use crate::runner::protocol::Raised;

/// Codes of [`Raised::code`] after which a process is of no more use.
const ENDS_CONTEXT: [&str; 7] = [
    "illegal-access",
    "misaligned-access",
    "illegal-instruction",
    "device-assert",
    "launch-timeout",
    "launch-failed",
    "device-lost",
];

/// Whether the process that raised this has ended.
pub(super) fn ends_process(ended: &Ended) -> bool {
    matches!(ended, Ended::Raised(raised) if ENDS_CONTEXT.contains(&raised.code.as_str()))
}

/// Whether it is a fault that a kernel ran into, and none of the card or of its driver's patience.
pub(super) fn is_of_kernel(raised: &Raised) -> bool {
    ["illegal-access", "misaligned-access", "illegal-instruction", "device-assert"]
        .contains(&raised.code.as_str())
}

impl<W: Worker> CheckRun<'_, W> {
    /// The same fault with the line of the launch it happened in, as far as a second run shows it. The driver's own
    /// time limit would only be waited for again, and a lost GPU is lost.
    pub(super) async fn located(&self, case: &Case, prepared: &Prepared, first: Raised) -> Raised {
        let is_found = first.place.is_some();
        if is_found || ["launch-timeout", "device-lost"].contains(&first.code.as_str()) {
            return first;
        }
        let Ok(candidate) = self.open_blocking().await else { return first };
        let again = self.run_case(&candidate, case, prepared, Manner::default()).await;
        self.close(&candidate).await;
        match again {
            Ended::Raised(mut again) if again.code == first.code && again.place.is_some() => {
                again.message = first.message;
                again
            }
            // A fault that does not come again is one all the same.
            _ => first,
        }
    }
}
