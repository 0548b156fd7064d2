//! The `thought` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    thoughtstream_surface::cli::run(std::env::args_os()).into()
}
