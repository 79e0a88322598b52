//! Parts shared by fuzz targets and their seeds: [`packets`], a compact form of TCP packets for mutation,
//! [`capture_file`], the same packets as a capture file, and [`datagrams`], packets of other protocols.

pub mod capture_file;
pub mod datagrams;
pub mod packets;
