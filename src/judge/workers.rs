//! The workers that are kept warm: one for each interpreter, and for each GPU it is used on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::runner::{Supervisor, WorkerDevice, WorkerError, WorkerManner};

/// A worker that served no check for this long is ended: it holds several hundred megabytes, and on a GPU a part of
/// its memory.
const IDLE_LIMIT: Duration = Duration::from_secs(15 * 60);

/// What a worker is started for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct WorkerKey {
    /// The Python interpreter.
    pub(super) python: PathBuf,
    /// `None` runs kernels in Triton's interpreter.
    pub(super) device: Option<WorkerDevice>,
}

/// See the module's documentation.
pub(super) struct Workers {
    warm: Arc<Mutex<HashMap<WorkerKey, Warm>>>,
    /// Interpreters run below the priority of what else the user does. Not on a GPU: there the host must keep up
    /// with it, or times say nothing.
    step_aside: bool,
}

struct Warm {
    worker: Arc<Supervisor>,
    last_used: Instant,
}

impl Workers {
    pub(super) fn new(step_aside: bool) -> Self {
        Self { warm: Arc::default(), step_aside }
    }

    /// The warm worker for this key; `None` when there is none, or it ended.
    pub(super) async fn warm(&self, key: &WorkerKey) -> Option<Arc<Supervisor>> {
        let mut workers = self.warm.lock().await;
        workers.retain(|_, warm| !warm.worker.has_ended());
        let warm = workers.get_mut(key)?;
        warm.last_used = Instant::now();
        Some(Arc::clone(&warm.worker))
    }

    /// Starts one from the worker's unpacked `main.py`, unless another check did meanwhile.
    pub(super) async fn start(&self, key: WorkerKey, main_py: &Path) -> Result<Arc<Supervisor>, WorkerError> {
        let mut workers = self.warm.lock().await;
        if let Some(warm) = workers.get(&key).filter(|warm| !warm.worker.has_ended()) {
            return Ok(Arc::clone(&warm.worker));
        }
        let device = key.device.as_ref();
        let manner = WorkerManner { device, steps_aside: self.step_aside && device.is_none() };
        let worker = Arc::new(Supervisor::start(&key.python, main_py, manner).await?);
        workers.insert(key, Warm { worker: Arc::clone(&worker), last_used: Instant::now() });
        tokio::spawn(end_when_idle(Arc::downgrade(&self.warm)));
        Ok(worker)
    }

    /// Ends one that is of no use.
    pub(super) async fn drop(&self, key: &WorkerKey) {
        self.warm.lock().await.remove(key);
    }

    /// Ends all and waits until they are gone, at most `limit`.
    pub(super) async fn shut_down(&self, limit: Duration) {
        let workers: Vec<Arc<Supervisor>> =
            self.warm.lock().await.drain().map(|(_, warm)| warm.worker).collect();
        let ends: Vec<_> = workers.iter().map(|worker| worker.when_ended()).collect();
        drop(workers);
        let all = async {
            for end in ends {
                end.await;
            }
        };
        let _ = tokio::time::timeout(limit, all).await;
    }
}

/// Ends the workers that nobody used for [`IDLE_LIMIT`]; stops when none is left.
async fn end_when_idle(workers: Weak<Mutex<HashMap<WorkerKey, Warm>>>) {
    loop {
        tokio::time::sleep(IDLE_LIMIT / 4).await;
        let Some(workers) = workers.upgrade() else { return };
        let mut workers = workers.lock().await;
        // A worker in use is held by its check as well.
        workers
            .retain(|_, warm| warm.last_used.elapsed() < IDLE_LIMIT || Arc::strong_count(&warm.worker) > 1);
        if workers.is_empty() {
            return;
        }
    }
}
