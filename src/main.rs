use std::process::ExitCode;

use clap::Parser;
use warpsmith::cli::{doctor, setup};

#[derive(Parser)]
enum Verb {
    Setup(setup::SetupArgs),
    Doctor(doctor::DoctorArgs),
}

fn main() -> ExitCode {
    let done = match Verb::parse() {
        Verb::Setup(args) => setup::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}
