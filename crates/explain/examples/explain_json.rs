//! The analysis without Python: prints the document of the JSON contract, of one capture, or of several of one path.
//!
//!     cargo run --release -p whydrop-explain --example explain_json -- CAPTURE [CAPTURE2 ...]

use std::path::PathBuf;

use whydrop_explain::{Options, explain_pair, explain_paths};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    let explanation = match paths.len() {
        1 => explain_paths(&paths, Options::default())?,
        _ => explain_pair(&paths, Options::default())?,
    };
    println!("{}", serde_json::to_string_pretty(&explanation.document)?);
    Ok(())
}
