//! References that are not ours: a process of their own, run after the candidate, their values compared like
//! a candidate's.
//!
//! Whatever goes wrong here says nothing of the kernel: it is `reference-failed`, never `wrong`.

use tokio::sync::Mutex;

use super::assess;
use super::inputs::Prepared;
use super::load::{IMPORT_WALL_S, open_request};
use super::run::{CASE_WALL_S, CheckRun, Source, fresh_name, read};
use super::{Code, Finding};
use crate::oracle::Variant;
use crate::runner::Worker;
use crate::runner::protocol::{
    Argument, ArgumentSource, Autotune, CaseId, CaseMade, Change, Derive, ForeignTruth, InterpreterOptions,
    Opened, Outcome, OutputSpec, Parameter, Prepare, ProgramOrder, Ran, Request, Run, RunnerId,
};
use crate::spec::{Dtype, TensorSpec};

/// Ends of the reference's process after which it is not started again.
const DEATH_LIMIT: u32 = 3;

/// A reference that is not ours, in this check.
pub(super) struct ForeignRun {
    source: Source,
    function: String,
    /// What it is called in messages: `the reference `f``.
    told: String,
    process: Mutex<Process>,
}

#[derive(Default)]
struct Process {
    opened: Option<(RunnerId, Vec<Parameter>)>,
    deaths: u32,
}

impl ForeignRun {
    pub(super) fn new(source: Source, function: String) -> Self {
        Self { told: format!("the reference `{function}`"), source, function, process: Mutex::default() }
    }

    /// The version of the judged function itself at HEAD.
    pub(super) fn at_head(source: Source, function: String, commit: &str) -> Self {
        let told = format!("`{function}` at HEAD {commit}");
        Self { told, ..Self::new(source, function) }
    }

    pub(super) fn failed(&self, what: &str) -> Finding {
        Finding::plain(Code::ReferenceFailed, format!("{} {what}", self.told))
    }
}

impl ForeignTruth {
    /// The cases to release after the comparison.
    pub(super) fn cases(&self) -> Vec<CaseId> {
        let of_nulls = [&self.other_seed, &self.coarse_inputs].into_iter().flatten();
        let mut cases: Vec<CaseId> = vec![self.float64.clone(), self.in_dtype.clone()];
        cases.extend(of_nulls.cloned());
        // Where nothing is computed in float64, both are one.
        cases.dedup();
        cases
    }
}

impl<W: Worker> CheckRun<'_, W> {
    /// Loads the reference, so that what is wrong with it is told once, before any case.
    pub(super) async fn open_reference(&self) -> Result<(), Finding> {
        let Some(foreign) = self.foreign else { return Ok(()) };
        self.opened_reference(foreign).await.map(|_| ())
    }

    pub(super) async fn close_reference(&self) {
        let Some(foreign) = self.foreign else { return };
        if let Some((runner, _)) = foreign.process.lock().await.opened.take() {
            self.close_runner(&runner).await;
        }
    }

    /// The reference's process, started anew when the last one ended.
    async fn opened_reference(&self, foreign: &ForeignRun) -> Result<(RunnerId, Vec<Parameter>), Finding> {
        let mut process = foreign.process.lock().await;
        if let Some(opened) = &process.opened {
            return Ok(opened.clone());
        }
        if process.deaths >= DEATH_LIMIT {
            return Err(foreign.failed("ended its process too often"));
        }
        let runner = fresh_name("f");
        let request = open_request(&foreign.source, &foreign.function, &runner);
        let finding = match self.cancellable(&runner, self.worker.request(request)).await {
            Ok(Outcome::Done(value)) => match read::<Opened>(value) {
                Ok(opened) => {
                    process.opened = Some((runner.clone(), opened.parameters.clone()));
                    return Ok((runner, opened.parameters));
                }
                Err(message) => Finding::plain(Code::JudgeFailed, message),
            },
            Ok(Outcome::Raised(raised)) => {
                let finding = assess::raised_finding(&raised);
                let message = format!("{} cannot be loaded: {}", foreign.told, finding.message);
                Finding { code: Code::ReferenceFailed, message, ..finding }
            }
            Ok(Outcome::Died(died)) => {
                process.deaths += 1;
                let told = assess::died_at_import_finding(&died, IMPORT_WALL_S);
                foreign.failed(&format!("cannot be loaded: {}", told.message))
            }
            Ok(Outcome::Failed { message, .. }) => Finding::plain(Code::JudgeFailed, message),
            Err(error) => Finding::plain(Code::JudgeFailed, error.to_string()),
        };
        self.close_runner(&runner).await;
        Err(finding)
    }

    /// Runs the reference on the inputs of a case that the candidate is done with. `None` when the judge
    /// computes what is right.
    pub(super) async fn foreign_truth(
        &self,
        prepared: &Prepared,
        null_candidates: bool,
    ) -> Result<Option<ForeignTruth>, Finding> {
        let Some(foreign) = self.foreign else { return Ok(None) };
        if self.oracle.reference.head().is_some() {
            return self.head_truth(foreign, prepared).await.map(Some);
        }
        let Some(float64) = self.run_changed(foreign, prepared, Change::Widened).await? else {
            return Err(foreign.failed("could not be run in float64"));
        };
        let in_dtype = match self.run_changed(foreign, prepared, Change::Same).await {
            Ok(Some(case)) => case,
            Ok(None) => return Err(foreign.failed("could not be run")),
            Err(finding) => {
                self.release_case(float64).await;
                return Err(finding);
            }
        };
        let mut truth = ForeignTruth { float64, in_dtype, other_seed: None, coarse_inputs: None };
        if null_candidates {
            // An impostor that the reference cannot take is left out.
            truth.other_seed = self.run_changed(foreign, prepared, Change::OtherSeed).await.unwrap_or(None);
            truth.coarse_inputs =
                self.run_changed(foreign, prepared, Change::CoarseInputs).await.unwrap_or(None);
        }
        Ok(Some(truth))
    }

    /// The case that the reference ran on, with its values in the outputs.
    pub(super) async fn run_changed(
        &self,
        foreign: &ForeignRun,
        prepared: &Prepared,
        change: Change,
    ) -> Result<Option<CaseId>, Finding> {
        let request = &prepared.request;
        let (case, of, outputs) = (fresh_name("k"), request.case.clone(), request.outputs.clone());
        let derive = Derive { case: case.clone(), of, change, outputs };
        if !self.make_case(Request::Derive(derive)).await?.possible {
            self.release_case(case).await;
            return Ok(None);
        }
        let ran = self.run_reference(foreign, &case, change != Change::Same).await;
        let problem = match ran {
            Ok(ran) => match check_form(&request.outputs, &ran, change) {
                Ok(()) => return Ok(Some(case)),
                Err(problem) => foreign.failed(&problem),
            },
            Err(finding) => finding,
        };
        self.release_case(case).await;
        Err(problem)
    }

    pub(super) async fn make_case(&self, request: Request) -> Result<CaseMade, Finding> {
        match self.worker.request(request).await {
            Ok(Outcome::Done(value)) => {
                read(value).map_err(|message| Finding::plain(Code::JudgeFailed, message))
            }
            Ok(other) => Err(Finding::plain(Code::JudgeFailed, format!("{other:?}"))),
            Err(error) => Err(Finding::plain(Code::JudgeFailed, error.to_string())),
        }
    }

    pub(super) async fn release_case(&self, case: CaseId) {
        let _ = self.worker.request(Request::Release { case }).await;
    }

    pub(super) async fn run_reference(
        &self,
        foreign: &ForeignRun,
        case: &str,
        widened: bool,
    ) -> Result<Ran, Finding> {
        let (runner, parameters) = self.opened_reference(foreign).await?;
        let Some(variant) = self.oracle.variants.first() else {
            return Err(Finding::plain(Code::JudgeFailed, "nobody knows what is called".to_owned()));
        };
        let arguments = match self.oracle.reference.head() {
            // It is the same function: it is called as the judged one is.
            Some(_) => {
                let names: Vec<String> = parameters.into_iter().map(|parameter| parameter.name).collect();
                variant.arguments(&names).into_iter().chain(self.oracle.destination_arguments()).collect()
            }
            None => arguments(variant, &parameters).map_err(|problem| foreign.failed(&problem))?,
        };
        let run = Request::Run(Run {
            runner: runner.clone(),
            case: case.to_owned(),
            arguments,
            wall_s: CASE_WALL_S,
            interpreter: InterpreterOptions {
                max_programs: None,
                compare_values: true,
                // All programs run, so none are drawn.
                sampling_seed: 0,
                program_order: ProgramOrder::default(),
                autotune: Autotune::default(),
                other_poison: false,
            },
            hold: false,
            widened,
        });
        match self.cancellable(&runner, self.worker.request(run)).await {
            Ok(Outcome::Done(value)) => {
                read(value).map_err(|message| Finding::plain(Code::JudgeFailed, message))
            }
            Ok(Outcome::Raised(raised)) => {
                let raised = assess::raised_finding(&raised);
                let on = if widened { " on float64 inputs" } else { "" };
                let message = format!("{}{on}: {}", foreign.told, raised.message);
                Err(Finding { code: Code::ReferenceFailed, message, kernel: None, ..raised })
            }
            Ok(Outcome::Died(died)) => {
                let mut process = foreign.process.lock().await;
                process.opened = None;
                process.deaths += 1;
                let told = assess::died_finding(&died, CASE_WALL_S);
                let code = if told.code == Code::Cancelled { told.code } else { Code::ReferenceFailed };
                Err(Finding { code, ..foreign.failed(&format!("failed: {}", told.message)) })
            }
            Ok(Outcome::Failed { code, message }) => Err(Finding::plain(
                Code::JudgeFailed,
                format!("the reference was not run ({code}): {message}"),
            )),
            Err(error) => Err(Finding::plain(Code::JudgeFailed, error.to_string())),
        }
    }

    /// Dtypes and shapes that the reference returns, learnt on inputs of another seed: what is right for the
    /// case itself must not exist before the candidate ran.
    pub(super) async fn ask_reference_for_outputs(
        &self,
        prepared: &Prepared,
    ) -> Result<Vec<OutputSpec>, Finding> {
        let Some(foreign) = self.foreign else { return Ok(Vec::new()) };
        let case = fresh_name("k");
        let request =
            Prepare { case: case.clone(), seed: !prepared.request.seed, ..prepared.request.clone() };
        self.make_case(Request::Prepare(request)).await?;
        let ran = self.run_reference(foreign, &case, false).await;
        self.release_case(case).await;
        let ran = ran?;
        let count = ran.outputs.len();
        let outputs = ran.outputs.iter().enumerate().map(|(at, value)| {
            let dtype = value.dtype.as_deref().and_then(|name| name.parse::<Dtype>().ok());
            let name = if count == 1 { "out".to_owned() } else { format!("out{}", at + 1) };
            dtype.map(|dtype| OutputSpec { name, dtype, shape: value.shape.clone() }).ok_or_else(|| {
                let found = value.dtype.as_ref().unwrap_or(&value.type_name);
                format!("returns a `{found}`, which is not judged")
            })
        });
        outputs.collect::<Result<_, String>>().map_err(|problem| foreign.failed(&problem))
    }
}

/// What keeps a reference's values from being those of the case: they must be what it says; in float64, any
/// float.
fn check_form(expected: &[OutputSpec], ran: &Ran, change: Change) -> Result<(), String> {
    if ran.outputs.len() != expected.len() {
        return Err(format!("returns {} values, the case has {}", ran.outputs.len(), expected.len()));
    }
    for (expected, got) in expected.iter().zip(&ran.outputs) {
        if got.copied {
            continue;
        }
        let found = got.dtype.as_ref().unwrap_or(&got.type_name);
        let wanted = match change {
            Change::Same => expected.dtype.name(),
            _ if expected.dtype.is_float() => "float64",
            _ => expected.dtype.name(),
        };
        return Err(format!(
            "returns {found} of shape {:?} for `{}`, which should be {wanted} of shape {:?}",
            got.shape, expected.name, expected.shape
        ));
    }
    Ok(())
}

/// Tensors named like a parameter go there, the others to the parameters that are left, in order; scalars
/// only to a parameter of their name.
fn arguments(variant: &Variant, parameters: &[Parameter]) -> Result<Vec<Argument>, String> {
    let definition = &variant.definition;
    let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let mut free = names.iter().filter(|name| !name.starts_with('*') && definition.input(name).is_none());
    let mut arguments = Vec::new();
    for input in variant.parameters.iter().map(|mapping| &mapping.input) {
        let is_scalar = definition.input(input).is_none_or(TensorSpec::is_scalar);
        let parameter = if names.contains(&input.as_str()) {
            input.as_str()
        } else if is_scalar {
            continue;
        } else {
            let left = free.next().copied();
            left.ok_or_else(|| format!("takes ({}), so nothing takes `{input}`", names.join(", ")))?
        };
        let source = ArgumentSource::Input { input: input.clone() };
        arguments.push(Argument { parameter: parameter.to_owned(), source });
    }
    Ok(arguments)
}
