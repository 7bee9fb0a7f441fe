//! A checker that does what the test says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use warpsmith::judge::check::{BoxFuture, CheckEvent, CheckRequest, Checker, Earlier};
use warpsmith::judge::{Code, Report};

use super::reports::could_not_run;

struct FakeChecker {
    calls: UnboundedSender<Call>,
    memory: Arc<Memory>,
}

/// What the checker says of earlier verdicts.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) earlier: Mutex<Option<Earlier>>,
    /// The environment of every verdict has changed.
    pub(crate) has_changed: AtomicBool,
}

enum Answer {
    Report(Box<Report>),
    Panic,
}

/// One running check.
pub(crate) struct Call {
    pub(crate) request: CheckRequest,
    pub(crate) events: UnboundedSender<CheckEvent>,
    pub(crate) cancel: CancellationToken,
    answer: oneshot::Sender<Answer>,
}

impl Call {
    pub(crate) fn finish(self, report: Report) {
        // Fails only when the server dropped the check, which some tests want.
        let _ = self.answer.send(Answer::Report(Box::new(report)));
    }

    /// Ends as a check that was told to.
    pub(crate) fn finish_cancelled(self) {
        self.finish(could_not_run(Code::Cancelled, "cancelled"));
    }

    pub(crate) fn panic(self) {
        let _ = self.answer.send(Answer::Panic);
    }

    pub(crate) fn event(&self, event: CheckEvent) {
        self.events.send(event).expect("the server listens");
    }

    /// The server no longer waits for this check.
    pub(crate) fn is_dropped(&self) -> bool {
        self.answer.is_closed()
    }
}

pub(crate) fn fake_checker() -> (Arc<dyn Checker>, UnboundedReceiver<Call>, Arc<Memory>) {
    let (calls, received) = unbounded_channel();
    let memory = Arc::<Memory>::default();
    (Arc::new(FakeChecker { calls, memory: Arc::clone(&memory) }), received, memory)
}

impl Checker for FakeChecker {
    fn check<'a>(
        &'a self,
        request: CheckRequest,
        events: UnboundedSender<CheckEvent>,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Report> {
        let (answer, answered) = oneshot::channel();
        let call = Call { request, events, cancel, answer };
        Box::pin(async move {
            self.calls.send(call).expect("the test listens");
            match answered.await {
                Ok(Answer::Report(report)) => *report,
                Ok(Answer::Panic) => panic!("on purpose"),
                Err(_) => could_not_run(Code::Cancelled, "the test forgot this check"),
            }
        })
    }
    fn recall(&self, _: CheckRequest) -> BoxFuture<'_, Option<Earlier>> {
        let earlier = self.memory.earlier.lock().expect("no test panics with it").clone();
        Box::pin(std::future::ready(earlier))
    }

    fn still_stands(&self, _: CheckRequest, _: Arc<Report>) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(!self.memory.has_changed.load(Ordering::Relaxed)))
    }
}
