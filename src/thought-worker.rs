//! The `thought-worker` command: asks a model once, from inside the sandbox. Only `thought` starts it.

use std::io;
use std::process::ExitCode;

use thoughtstream_worker::{confine, run};

/// It could not give up what it must not have.
const NOT_CONFINED: u8 = 70;

fn main() -> ExitCode {
    if confine::give_up().is_err() {
        return ExitCode::from(NOT_CONFINED);
    }
    match run(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(error.exit()),
    }
}
