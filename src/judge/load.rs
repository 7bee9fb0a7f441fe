//! The candidate's process: the file is imported, the entry's signature looked at, the references given to
//! the judge runner.

use super::ends;
use super::means::Means;
use super::run::{CheckRun, JUDGE_WALL_S, Source, fresh_name, read};
use super::stages::Reach;
use super::{Code, Finding, NotRun};
use crate::oracle::{Oracle, Reference, Variant};
use crate::runner::protocol::{
    Define, Limits, ModuleRole, ModuleSide, Open, Opened, Outcome, Parameter, Request, RunnerId,
};
use crate::runner::{Worker, WorkerError};
use crate::spec::Definition;

/// Wall clock of the import of the user's file.
pub(super) const IMPORT_WALL_S: f64 = 60.0;
/// Address space is given freely, because offsets cases map tensors larger than memory; what is limited
/// is resident memory.
const ADDRESS_SPACE_BYTES: u64 = 1 << 37;

/// A runner that has the Solution loaded.
pub(super) struct Candidate {
    pub(super) runner: RunnerId,
    /// Names of the entry's parameters, with the stars of `*args` and `**kwargs`.
    pub(super) parameters: Vec<String>,
}

/// Why no (further) case can be run.
pub(super) struct Stop {
    pub(super) finding: Option<Finding>,
    pub(super) why: String,
}

impl Stop {
    /// Why the file could not be loaded, in a few words.
    pub(super) fn reason(self) -> String {
        self.finding.map_or(self.why, |finding| finding.message)
    }
}

impl<W: Worker> CheckRun<'_, W> {
    /// Loads the candidate for the first time. Afterwards it is known which variants it can be asked for.
    pub(super) async fn load(&self) -> Result<Candidate, Finding> {
        self.define().await?;
        let candidate = self.open().await.map_err(|stop| {
            stop.finding.unwrap_or_else(|| judge_failed("the file could not be loaded".to_owned()))
        })?;
        if let Err(finding) = self.open_reference().await {
            self.close(&candidate).await;
            return Err(finding);
        }
        Ok(candidate)
    }

    /// The Definitions that the candidate can be asked for, and the lines for the others.
    pub(super) fn choose(&self, candidate: &Candidate) -> (Vec<&Definition>, Vec<NotRun>) {
        let mut definitions = Vec::new();
        let mut not_run = Vec::new();
        for variant in &self.oracle.variants {
            match self.oracle.can_choose(variant, &candidate.parameters) {
                Ok(()) => definitions.push(&*variant.definition),
                Err(why) => not_run.push(NotRun::new(variant.definition.name.clone(), why)),
            }
        }
        (definitions, not_run)
    }

    async fn define(&self) -> Result<(), Finding> {
        if self.foreign.is_some() || !self.modules.is_empty() {
            return Ok(());
        }
        for Variant { definition, .. } in &self.oracle.variants {
            let request = Request::Define(Define {
                definition: definition.name.clone(),
                reference: definition.reference.clone(),
                reference_f64: definition.extras.reference_f64.clone(),
                is_named: definition.extras.only_sizes,
                wall_s: JUDGE_WALL_S,
            });
            match self.worker.request(request).await {
                Ok(Outcome::Done(_)) => {}
                Ok(Outcome::Failed { code, message }) => return Err(unavailable(&code, message)),
                Ok(Outcome::Raised(raised)) => {
                    let message =
                        format!("the reference cannot be used: {}: {}", raised.exception, raised.message);
                    return Err(Finding::plain(Code::ReferenceFailed, message));
                }
                Ok(other) => {
                    let name = &definition.name;
                    return Err(judge_failed(format!(
                        "the reference of `{name}` cannot be compiled: {other:?}"
                    )));
                }
                Err(error) => return Err(judge_failed(error.to_string())),
            }
        }
        Ok(())
    }

    pub(super) async fn open(&self) -> Result<Candidate, Stop> {
        self.open_as(|open| open).await
    }

    /// As [`Self::open`], on a GPU with every launch waited for.
    pub(super) async fn open_blocking(&self) -> Result<Candidate, Stop> {
        self.open_as(|open| Open { blocking: true, ..open }).await
    }

    /// As [`Self::open`], of a process that is timed.
    pub(super) async fn open_for_timing(&self) -> Result<Candidate, Stop> {
        self.open_as(|open| Open { for_timing: true, ..open }).await
    }

    async fn open_as(&self, manner: fn(Open) -> Open) -> Result<Candidate, Stop> {
        let runner = fresh_name("r");
        let role = module_role(self.oracle, ModuleSide::Candidate, self.means);
        let open = open_request(self.source, &self.oracle.entry, &runner, self.means, role);
        let request = Request::Open(manner(open));
        let finding = match self.cancellable(&runner, self.worker.request(request)).await {
            Ok(Outcome::Done(value)) => match read::<Opened>(value) {
                Ok(opened) => match self.signature_problem(&opened.parameters) {
                    None => return Ok(Candidate { runner, parameters: names(opened.parameters) }),
                    Some(problem) => Finding::plain(Code::BadSignature, problem),
                },
                Err(message) => judge_failed(message),
            },
            Ok(Outcome::Raised(raised)) => {
                let mut finding = ends::raised_finding(&raised);
                if finding.code == Code::Raised {
                    // At import nothing of the kernel has run yet: it cannot be called wrong.
                    finding.code = Code::ImportError;
                    finding.message = format!("importing the file {}", finding.message);
                }
                finding
            }
            Ok(Outcome::Died(died)) => ends::died_at_import_finding(&died, IMPORT_WALL_S),
            Ok(Outcome::Failed { code, message }) => unavailable(&code, message),
            Err(error) => judge_failed(error.to_string()),
        };
        self.close_runner(&runner).await;
        Err(Stop { finding: Some(finding), why: "the file could not be loaded again".to_owned() })
    }

    fn signature_problem(&self, parameters: &[Parameter]) -> Option<String> {
        let pairs: Vec<(String, bool)> =
            parameters.iter().map(|parameter| (parameter.name.clone(), parameter.has_default)).collect();
        self.oracle.signature_problem(&pairs)
    }

    /// Ends a candidate that is not needed any more.
    pub(super) async fn close(&self, candidate: &Candidate) {
        self.close_runner(&candidate.runner).await;
    }

    pub(super) async fn close_runner(&self, runner: &str) {
        // A runner that is gone already is no news.
        let _ = self.worker.request(Request::Close { runner: runner.to_owned() }).await;
    }

    /// Waits for a request on a runner; a cancelled check kills the runner, which ends the request.
    pub(super) async fn cancellable(
        &self,
        runner: &str,
        request: impl Future<Output = Result<Outcome, WorkerError>>,
    ) -> Result<Outcome, WorkerError> {
        tokio::pin!(request);
        tokio::select! {
            outcome = &mut request => outcome,
            () = self.cancel.cancelled() => {
                self.close_runner(runner).await;
                request.await
            }
        }
    }
}

/// How the class of a problem is served; `None` for functions.
pub(super) fn module_role(oracle: &Oracle, side: ModuleSide, means: &Means) -> Option<ModuleRole> {
    let Reference::Module(reference) = &oracle.reference else { return None };
    Some(ModuleRole { side, eval: reference.eval, most_elements: Reach::of(means).most_elements() })
}

pub(super) fn open_request(
    source: &Source,
    entry: &str,
    runner: &str,
    means: &Means,
    module: Option<ModuleRole>,
) -> Open {
    Open {
        runner: runner.to_owned(),
        path: source.path.clone(),
        text_path: source.text_path.clone(),
        text: source.text.to_string(),
        entry: entry.to_owned(),
        search_paths: source.search_paths.clone(),
        environment: Default::default(),
        blocking: false,
        for_timing: false,
        limits: Limits {
            import_wall_s: IMPORT_WALL_S,
            address_space_bytes: ADDRESS_SPACE_BYTES,
            resident_bytes: source.resident_bytes,
            device_bytes: means.device_bytes(),
            output_tail_bytes: 64 * 1024,
        },
        module,
    }
}

fn names(parameters: Vec<Parameter>) -> Vec<String> {
    parameters.into_iter().map(|parameter| parameter.name).collect()
}

fn judge_failed(message: String) -> Finding {
    Finding::plain(Code::JudgeFailed, message)
}

/// An environment that cannot be used, told once for the whole check.
pub(super) fn unavailable(code: &str, message: String) -> Finding {
    let code = match code {
        "no-torch" | "no-triton" => Code::NoTorch,
        "no-driver" | "no-device" => Code::NoDevice,
        "device-unusable" => Code::DeviceUnusable,
        "triton-too-old" => Code::TritonTooOld,
        "numpy-too-new" | "python-too-old" | "broken-packages" => Code::UnusablePython,
        _ => Code::JudgeFailed,
    };
    Finding::plain(code, message)
}
