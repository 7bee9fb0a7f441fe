//! What a Solution is timed against: a process of its own, with a name that stands beside every speedup.

use std::path::Path;

use super::super::inputs::Prepared;
use super::super::load::{Stop, open_request};
use super::super::run::{CheckRun, fresh_name, read};
use super::super::sources::Sources;
use super::super::{Code, Finding};
use super::{Bench, BenchCase};
use crate::oracle::{ForeignFile, ForeignReference, Reference, Variant};
use crate::runner::Worker;
use crate::runner::protocol::{Argument, ArgumentSource, Open, Opened, Outcome, Request, RunnerId, Timed};
use crate::spec::{Definition, Precision};

/// What `--baseline` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum BaselineChoice {
    /// The strongest plain PyTorch equivalent that the Definition names, or the reference.
    #[default]
    Torch,
    /// The same under `torch.compile`.
    Compile,
    /// The version of the judged function at git's HEAD.
    Head,
}

/// A baseline that is ready to be called.
pub(super) struct Baseline {
    /// `torch`, `torch.compile`, `HEAD a1b2c3d`, or the name of the function that says what is right.
    pub(super) name: String,
    pub(super) side: Timed,
    /// Its process serves this timing only and is closed after it.
    pub(super) is_own: bool,
}

/// Why there is none, as it stands behind `no speedup:`.
pub(super) struct NoBaseline {
    pub(super) name: String,
    pub(super) why: String,
}

impl<W: Worker> CheckRun<'_, W> {
    /// Opens what this case is timed against.
    pub(super) async fn baseline(
        &self,
        bench: &Bench<'_>,
        of: &BenchCase<'_>,
        prepared: &Prepared,
    ) -> Result<Baseline, NoBaseline> {
        match (bench.options.baseline, &self.oracle.reference) {
            (BaselineChoice::Head, _) => self.version_at_head(bench, of).await,
            (_, Reference::Module(_)) => Err(NoBaseline {
                name: "the problem's class".to_owned(),
                why: "its process builds the class anew for every call, which is no time of it".to_owned(),
            }),
            (BaselineChoice::Torch, Reference::Ours) => {
                self.plain_torch(&bench.sources, of.definition, "torch", plain(of.definition)).await
            }
            (BaselineChoice::Compile, Reference::Ours) => {
                let text = format!("{}{COMPILED}", plain(of.definition));
                self.plain_torch(&bench.sources, of.definition, "torch.compile", text).await
            }
            (choice, Reference::Foreign(_) | Reference::Head(_)) => {
                let name = name_of(&self.oracle.reference);
                if choice == BaselineChoice::Compile {
                    let why = "only PyTorch code of a Definition or of torch itself is compiled".to_owned();
                    return Err(NoBaseline { name, why });
                }
                self.own_reference(name, prepared).await
            }
        }
    }

    /// The function that says what is right, in the process it has anyway.
    async fn own_reference(&self, name: String, prepared: &Prepared) -> Result<Baseline, NoBaseline> {
        let failed =
            |name: &str, finding: Finding| NoBaseline { name: name.to_owned(), why: finding.message };
        let Some(foreign) = self.foreign_of(prepared) else {
            return Err(NoBaseline { name, why: "it has no process".to_owned() });
        };
        let arguments = self.reference_arguments(foreign).await.map_err(|finding| failed(&name, finding))?;
        let opened = self.opened_reference(foreign).await.map_err(|finding| failed(&name, finding))?;
        Ok(Baseline { name, side: Timed { runner: opened.runner, arguments }, is_own: false })
    }

    /// Source of ours, called with the Definition's inputs by name.
    async fn plain_torch(
        &self,
        sources: &Sources<'_>,
        definition: &Definition,
        name: &str,
        text: String,
    ) -> Result<Baseline, NoBaseline> {
        let arguments = definition.inputs.iter().map(|(input, _)| Argument {
            parameter: input.clone(),
            source: ArgumentSource::Input { input: input.clone() },
        });
        let arguments = arguments.collect();
        let file = format!("baseline_{}.py", definition.name);
        let opened = self.open_plain(sources, Path::new(&file), &text, "run").await;
        match opened {
            Ok((runner, _)) => {
                Ok(Baseline { name: name.to_owned(), side: Timed { runner, arguments }, is_own: true })
            }
            Err(stop) => Err(NoBaseline { name: name.to_owned(), why: stop.reason() }),
        }
    }

    async fn version_at_head(&self, bench: &Bench<'_>, of: &BenchCase<'_>) -> Result<Baseline, NoBaseline> {
        let Some(head) = &bench.head else {
            return Err(NoBaseline {
                name: "HEAD".to_owned(),
                why: "git has no version of this file".to_owned(),
            });
        };
        let name = format!("HEAD {}", head.commit);
        let Some(variant) = self.variant(&of.case) else {
            return Err(NoBaseline { name, why: "nobody knows how it is called".to_owned() });
        };
        match self.open_plain(&bench.sources, bench.path, &head.text, &self.oracle.entry).await {
            Ok((runner, parameters)) => {
                let arguments = call_of(variant, &parameters, self.oracle.destination_arguments());
                Ok(Baseline { name, side: Timed { runner, arguments }, is_own: true })
            }
            Err(stop) => Err(NoBaseline { name, why: stop.reason() }),
        }
    }

    async fn open_plain(
        &self,
        sources: &Sources<'_>,
        path: &Path,
        text: &str,
        entry: &str,
    ) -> Result<(RunnerId, Vec<String>), Stop> {
        let stop = |finding: Finding| Stop { finding: Some(finding), why: String::new() };
        let source = sources.source_of(path, text).map_err(|finding| stop(*finding))?;
        let runner = fresh_name("b");
        let open = open_request(&source, entry, &runner, self.means, None);
        let open = Open { for_timing: true, ..open };
        let failed = match self.cancellable(&runner, self.worker.request(Request::Open(open))).await {
            Ok(Outcome::Done(value)) => match read::<Opened>(value) {
                Ok(opened) => {
                    let names = opened.parameters.into_iter().map(|parameter| parameter.name).collect();
                    return Ok((runner, names));
                }
                Err(message) => message,
            },
            Ok(Outcome::Raised(raised)) => format!("{}: {}", raised.exception, raised.message),
            Ok(Outcome::Died(_)) => "its process ended while the file was imported".to_owned(),
            Ok(Outcome::Failed { message, .. }) => message,
            Err(error) => error.to_string(),
        };
        self.close_runner(&runner).await;
        Err(stop(Finding::plain(Code::JudgeFailed, failed)))
    }
}

/// A function that says what is right, as it stands behind a speedup.
fn name_of(reference: &Reference) -> String {
    match (reference.head(), reference.foreign()) {
        (Some(head), _) => format!("HEAD {}", head.commit),
        // The source of a Definition: its function is called `run` whatever it does.
        (None, Some(ForeignReference { file: ForeignFile::Text { .. }, .. })) => "the reference".to_owned(),
        (None, Some(known)) => known.function.clone(),
        (None, None) => String::new(),
    }
}

/// What makes `run` a compiled one. Without CUDA graphs of its own, which would copy inputs inside the timed span.
const COMPILED: &str = "\n\nimport torch\n\nrun = torch.compile(run, mode=\"max-autotune-no-cudagraphs\")\n";

/// In the precision class of the Definition: a baseline that rounds less than the kernel may is no fair one.
fn plain(definition: &Definition) -> String {
    let source = definition.extras.baseline.as_ref().unwrap_or(&definition.reference);
    match definition.extras.precision {
        Precision::Ieee => source.clone(),
        Precision::Tf32 => format!("{source}{ALLOWING_TF32}"),
    }
}

const ALLOWING_TF32: &str = "\n\nimport torch\n\ntorch.backends.cuda.matmul.allow_tf32 = True\n";

fn call_of(
    variant: &Variant,
    parameters: &[String],
    destinations: impl Iterator<Item = Argument>,
) -> Vec<Argument> {
    variant.arguments(parameters).into_iter().chain(destinations).collect()
}
