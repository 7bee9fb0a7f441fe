//! What all functions of a file share before any is judged: the interpreter, the device, the worker, the seed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::bench::{BenchGpu, TimingChoice};
use super::check::{CheckEvent, CheckRequest};
use super::devices::Place;
use super::engine::{Engine, milliseconds_since};
use super::environment::{Search, find_python_for};
use super::load::unavailable;
use super::means::Means;
use super::obstacles::launch_on_import;
use super::packed::Packed;
use super::run::read;
use super::timing::{NoTiming, NoTimingCode};
use super::workers::WorkerKey;
use super::{Code, Finding, NotRun, OnGpu, Report};
use crate::device::{DeviceChoice, Gpu};
use crate::runner::protocol::{DeviceState, Outcome, Request};
use crate::runner::{Supervisor, Worker, WorkerDevice, unpack};
use crate::source::SourceModel;
use crate::toolchain::Places;
use crate::toolchain::python::PythonEnvironment;

/// How long a save waits for the right to time: the verdict is there, and the next save is near.
const PATIENCE_OF_A_SAVE: Duration = Duration::from_secs(5);
/// The same for whoever asked for a check and waits for it.
const PATIENCE_OF_A_CHECK: Duration = Duration::from_secs(120);

/// What judging any function of a file needs.
pub(super) struct Ready {
    pub(super) worker: Arc<Supervisor>,
    pub(super) means: Means,
    pub(super) places: Places,
    pub(super) seed: u64,
    /// On a GPU: the interpreter that looks for what a GPU does not tell, or why there is none.
    pub(super) beside: Option<Result<Arc<Supervisor>, String>>,
    /// The GPU to time on, or why nothing is timed.
    pub(super) bench: Result<BenchGpu, NoTiming>,
}

/// A file to get ready for.
pub(super) struct Preparing<'a> {
    pub(super) request: &'a CheckRequest,
    pub(super) packed: Option<&'a Packed>,
    pub(super) model: &'a SourceModel,
    pub(super) began: Instant,
    pub(super) events: &'a UnboundedSender<CheckEvent>,
}

/// A worker, and what it runs kernels with.
struct Started {
    worker: Arc<Supervisor>,
    means: Means,
    bench: Result<BenchGpu, NoTiming>,
}

impl Engine {
    /// See the module's documentation; and no import launches anything.
    pub(super) async fn prepare(
        &self,
        preparing: Preparing<'_>,
        report: &mut Report,
    ) -> Result<Ready, Box<Finding>> {
        let Preparing { request, packed, model, began, events } = preparing;
        if let Some(finding) = launch_on_import(&request.path, &request.text, model) {
            return Err(Box::new(finding));
        }
        let _ = events.send(CheckEvent::Preparing("looking for Python with torch and Triton".to_owned()));
        let (python, place) =
            tokio::join!(self.python_for(request, packed), self.devices.place(&request.options));
        let (environment, place) = (python?, place?);
        let python = environment.executable.clone();
        report.timeline.python = Some(milliseconds_since(began));
        let places = Places::of(&self.surroundings)
            .map_err(|error| Box::new(Finding::plain(Code::JudgeFailed, error.to_string())))?;
        let interpreter = WorkerKey { python: python.clone(), device: None };
        let started = self.started(request, place, (python, &places), (report, events)).await?;
        let Started { worker, means, bench } = started;
        report.timeline.worker = Some(milliseconds_since(began));
        report.provenance.rest_on(&worker.versions());
        if packed.is_none() {
            report.provenance.foundation = self.foundation(request, &environment, &worker.versions()).await;
        }
        means.method().clone_into(&mut report.provenance.method);
        report.provenance.gpu = means.gpu().cloned();
        let seed = request.options.seed.map_or_else(random_seed, Ok)?;
        let beside = match means.gpu() {
            None => None,
            Some(_) => {
                Some(self.worker_for(interpreter, &places, events).await.map_err(|finding| finding.message))
            }
        };
        Ok(Ready { worker, means, places, seed, beside, bench })
    }

    /// A worker on the device that was decided on. Where nobody asked for a GPU and the one that is there cannot be
    /// used, the interpreter serves, and that is told.
    async fn started(
        &self,
        request: &CheckRequest,
        place: Place,
        (python, places): (PathBuf, &Places),
        (report, events): (&mut Report, &UnboundedSender<CheckEvent>),
    ) -> Result<Started, Box<Finding>> {
        let (why, is_none) = match place {
            Place::Interpreter { why, is_none } => (why, is_none),
            Place::Gpu { gpu, management, no_timing } => {
                match self.on_gpu(&gpu, (&python, places), events).await {
                    Ok((worker, means)) => {
                        let patience = match request.options.timing {
                            TimingChoice::Some => PATIENCE_OF_A_CHECK,
                            TimingChoice::First | TimingChoice::None => PATIENCE_OF_A_SAVE,
                        };
                        let bench = match no_timing {
                            Some(why) => Err(NoTiming::new(None, NoTimingCode::GpuBusy, why)),
                            None => Ok(self.devices.bench_gpu(
                                (*gpu, management),
                                places,
                                &request.path,
                                patience,
                            )),
                        };
                        return Ok(Started { worker, means, bench });
                    }
                    Err(finding) if request.options.device == DeviceChoice::Auto => {
                        let what = format!("{} ({})", gpu.device(), gpu.name);
                        report.not_run.push(NotRun::new(what, finding.message.clone()));
                        (finding.message, false)
                    }
                    Err(finding) => return Err(finding),
                }
            }
        };
        let worker = self.worker_for(WorkerKey { python, device: None }, places, events).await?;
        let code = if is_none { NoTimingCode::NoGpu } else { NoTimingCode::Failed };
        let bench = Err(NoTiming::new(None, code, why));
        Ok(Started { worker, means: Means::Interpreter, bench })
    }

    async fn on_gpu(
        &self,
        gpu: &Gpu,
        (python, places): (&Path, &Places),
        events: &UnboundedSender<CheckEvent>,
    ) -> Result<(Arc<Supervisor>, Means), Box<Finding>> {
        let device = WorkerDevice { name: gpu.device(), visible: gpu.uuid.clone() };
        let key = WorkerKey { python: python.to_owned(), device: Some(device) };
        let worker = self.worker_for(key.clone(), places, events).await?;
        // The first answer comes when torch is imported and the judge has its context.
        let failed = match worker.request(Request::DeviceState).await {
            Ok(Outcome::Done(state)) => match (read::<DeviceState>(state), worker.device()) {
                (Ok(state), Some(warm)) => {
                    let on_gpu = OnGpu {
                        device: gpu.device(),
                        name: warm.name.clone(),
                        uuid: gpu.uuid.clone(),
                        driver: gpu.driver_version.clone().unwrap_or_default(),
                        torch_cuda: warm.torch_cuda.clone(),
                        transport: warm.transport,
                        free_bytes: state.free_bytes,
                    };
                    return Ok((worker, Means::Gpu(on_gpu)));
                }
                (Err(message), _) => Finding::plain(Code::JudgeFailed, message),
                (_, None) => Finding::plain(Code::JudgeFailed, "the worker does not say which GPU it is on"),
            },
            Ok(Outcome::Failed { code, message }) => unavailable(&code, message),
            Ok(other) => Finding::plain(Code::JudgeFailed, format!("{other:?}")),
            Err(error) => Finding::plain(Code::JudgeFailed, error.to_string()),
        };
        self.workers.drop(&key).await;
        Err(Box::new(failed))
    }

    /// A warm worker, started when there is none.
    async fn worker_for(
        &self,
        key: WorkerKey,
        places: &Places,
        events: &UnboundedSender<CheckEvent>,
    ) -> Result<Arc<Supervisor>, Box<Finding>> {
        if let Some(warm) = self.workers.warm(&key).await {
            return Ok(warm);
        }
        let _ = events.send(CheckEvent::Preparing(format!("starting {}", key.python.display())));
        let failed = |message: String| Box::new(Finding::plain(Code::JudgeFailed, message));
        let main = unpack(&places.worker()).map_err(|error| failed(error.to_string()))?;
        self.workers.start(key, &main).await.map_err(|error| failed(error.to_string()))
    }

    /// Probes are processes and a setup takes minutes: both run on a thread of their own.
    async fn python_for(
        &self,
        request: &CheckRequest,
        packed: Option<&Packed>,
    ) -> Result<PythonEnvironment, Box<Finding>> {
        let failed = |message: String| Box::new(Finding::plain(Code::JudgeFailed, message));
        let file = packed.map_or(&request.path, |packed| &packed.path).clone();
        let search = Search { file, ..self.search(request) };
        let places = Places::of(&self.surroundings).map_err(|error| failed(error.to_string()))?;
        let (surroundings, probes) = (self.surroundings.clone(), Arc::clone(&self.probes));
        let dialogue = self.options.dialogue;
        let found = tokio::task::spawn_blocking(move || {
            find_python_for(&search, &surroundings, &places, &probes, &mut *dialogue())
        });
        found.await.map_err(|error| failed(format!("the search for Python failed: {error}")))?
    }
}

fn random_seed() -> Result<u64, Box<Finding>> {
    getrandom::u64().map_err(|error| {
        Box::new(Finding::plain(
            Code::JudgeFailed,
            format!("the system gives no random numbers: {error}; pass --seed"),
        ))
    })
}
