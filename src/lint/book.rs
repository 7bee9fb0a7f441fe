//! The pages of the rules, for `warpsmith explain` and `docs/lints.md`.
