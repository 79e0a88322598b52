//! TCP flows: one end fills a connection, the other counts the bytes that arrive.

pub mod brake;
pub mod facts;
pub mod fill;
pub mod flow;
pub mod meter;
pub mod options;
pub mod receive;
