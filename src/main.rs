//! The `warpsmith` command: see `cli/` for its verbs.

use std::process::ExitCode;

fn main() -> ExitCode {
    warpsmith::cli::main()
}
