//! The integration tests: one program, so that they are linked once.

mod tidy;
