//! Documents as the editor holds them: incremental edits, lines and position encodings.
//!
//! **Invariant:** inside warpsmith a place in a text is a UTF-8 byte offset. The only conversion from and
//! to the client's line and column is `position`, and it clamps instead of failing.

mod document;
mod position;

pub use document::{Change, Document, Splice, with_line_feeds};
pub use position::{Position, PositionEncoding, byte_of, position_of};
