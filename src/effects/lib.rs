//! effects
