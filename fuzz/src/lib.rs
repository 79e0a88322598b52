//! Parts shared by fuzz targets and their seeds: [`packets`], a compact form of TCP packets for mutation, and
//! [`capture_file`], the same packets as a capture file.

pub mod capture_file;
pub mod packets;
