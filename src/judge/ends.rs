//! Processes and calls that came to no end of their own: what that is called.

use super::verdict::{Code, Finding};
use crate::runner::protocol::{DeathReason, Died, Raised};

/// An exception of the user's code, in a run or at import.
pub(super) fn raised_finding(raised: &Raised) -> Finding {
    let text = format!("{}: {}", raised.exception, raised.message);
    let (code, message) = match raised.code.as_str() {
        "syntax-error" => (Code::SyntaxError, raised.message.clone()),
        "import-error" => (
            Code::ImportError,
            raised.missing.as_ref().map_or_else(
                || format!("cannot be imported: {text}"),
                |missing| format!("cannot be imported: the package `{missing}` is missing; install it in the environment of this interpreter"),
            ),
        ),
        "out-of-memory" => (Code::OutOfMemory, format!("ran out of the memory it may use here: {text}")),
        "unsupported" => (Code::Unsupported, format!("cannot be checked here: {}", raised.message)),
        "compile-error" => (Code::CompileError, raised.message.clone()),
        "out-of-resources" => (
            Code::OutOfResources,
            format!("cannot be launched on this GPU: {}; use smaller blocks or fewer stages", raised.message),
        ),
        "illegal-access" => (Code::IllegalAccess, on_the_gpu("reads or writes memory that is not its own", raised)),
        "misaligned-access" => {
            (Code::MisalignedAccess, on_the_gpu("reads or writes at an address that is not aligned", raised))
        }
        "illegal-instruction" => {
            (Code::IllegalInstruction, on_the_gpu("runs an instruction that this GPU refuses", raised))
        }
        "device-assert" => (Code::DeviceAssert, on_the_gpu("an assertion in a kernel does not hold", raised)),
        "launch-timeout" => (Code::Timeout, on_the_gpu("was stopped by the driver because it ran too long", raised)),
        "launch-failed" => (Code::LaunchFailed, on_the_gpu("was ended by the GPU", raised)),
        "device-lost" => (
            Code::DeviceLost,
            format!("the GPU was lost in the middle: {}; `nvidia-smi` shows whether it is back", raised.message),
        ),
        "bad-signature" => (Code::BadSignature, raised.message.clone()),
        "not-built" => (Code::NotBuilt, raised.message.clone()),
        "unmatched-weights" => (Code::UnmatchedWeights, raised.message.clone()),
        "left-running" => (Code::LeftRunning, raised.message.clone()),
        "bad-problem" => (Code::ReferenceFailed, raised.message.clone()),
        "too-large" => (Code::TooLarge, raised.message.clone()),
        _ => (Code::Raised, format!("raised {text}")),
    };
    Finding {
        place: raised.place.clone(),
        called_from: raised.called_from.clone(),
        kernel: raised.launches.last().map(|launch| launch.kernel.clone()),
        ..Finding::plain(code, message)
    }
}

/// A fault that ends the context of a process: the GPU tells of it late, at one of the launches before.
fn on_the_gpu(what: &str, raised: &Raised) -> String {
    let mut kernels: Vec<&str> = Vec::new();
    for launch in &raised.launches {
        if !kernels.contains(&launch.kernel.as_str()) {
            kernels.push(&launch.kernel);
        }
    }
    let launched = match kernels.as_slice() {
        [] => String::new(),
        [only] => format!(", in a launch of `{only}`"),
        several => format!(", in a launch of one of `{}`", several.join("`, `")),
    };
    format!("{what}{launched} ({})", raised.message)
}

/// The end of a process that was to run a case.
pub(super) fn died_finding(died: &Died, wall_s: f64, on_gpu: bool) -> Finding {
    let words = last_words(died);
    match died.reason {
        DeathReason::Exit => Finding::plain(
            Code::Exited,
            format!(
                "the process ended with status {} in the middle of the call{words}",
                died.status.unwrap_or(0)
            ),
        ),
        // Nobody but the system's memory killer (or the user) sends this one.
        DeathReason::Signal if died.signal == Some(9) => Finding::plain(
            Code::OutOfMemory,
            format!("the process was killed by the system, most likely for memory{words}"),
        ),
        DeathReason::Signal => Finding::plain(
            Code::Crashed,
            format!("the process crashed with {}{words}", signal_name(died.signal.unwrap_or(0))),
        ),
        DeathReason::Timeout if on_gpu => Finding::plain(
            Code::Timeout,
            format!(
                "did not end within {wall_s} s on the GPU: an endless loop, or programs that wait for one another{words}"
            ),
        ),
        DeathReason::Timeout => Finding::plain(
            Code::Timeout,
            format!(
                "did not end within {wall_s} s in the interpreter: an endless loop, or too much work for it{words}"
            ),
        ),
        DeathReason::Memory => Finding::plain(
            Code::OutOfMemory,
            format!("grew past the memory it may use here and was stopped{words}"),
        ),
        DeathReason::Killed => Finding::plain(Code::Cancelled, "cancelled".to_owned()),
    }
}

/// The end of a process that was importing the user's file.
pub(super) fn died_at_import_finding(died: &Died, import_wall_s: f64) -> Finding {
    let words = last_words(died);
    match died.reason {
        DeathReason::Exit => Finding::plain(
            Code::CrashedAtImport,
            format!("importing the file ended the process with status {}{words}", died.status.unwrap_or(0)),
        ),
        DeathReason::Signal => Finding::plain(
            Code::CrashedAtImport,
            format!("importing the file crashed with {}{words}", signal_name(died.signal.unwrap_or(0))),
        ),
        DeathReason::Timeout => Finding::plain(
            Code::Timeout,
            format!("importing the file did not end within {import_wall_s} s{words}"),
        ),
        DeathReason::Memory | DeathReason::Killed => died_finding(died, import_wall_s, false),
    }
}

fn last_words(died: &Died) -> String {
    let tail: Vec<&str> = died.output.lines().filter(|line| !line.trim().is_empty()).collect();
    match &tail[tail.len().saturating_sub(3)..] {
        [] => String::new(),
        lines => format!("; its last output:\n{}", lines.join("\n")),
    }
}

fn signal_name(signal: i32) -> String {
    match signal {
        4 => "SIGILL (illegal instruction)".to_owned(),
        6 => "SIGABRT (abort)".to_owned(),
        7 => "SIGBUS (bad memory access)".to_owned(),
        8 => "SIGFPE (arithmetic error)".to_owned(),
        11 => "SIGSEGV (bad memory access)".to_owned(),
        15 => "SIGTERM".to_owned(),
        other => format!("signal {other}"),
    }
}
