//! Packets: what is sealed is what is stored, read back and sent, and nothing else is.

mod documents;
mod observing;
mod sealing;
