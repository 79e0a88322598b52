//! The analysis without Python: prints the document of the JSON contract.
//!
//!     cargo run --release -p whydrop-explain --example explain_json -- CAPTURE

use whydrop_explain::{Options, explain_paths};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<std::path::PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    let explanation = explain_paths(&paths, Options::default())?;
    println!("{}", serde_json::to_string_pretty(&explanation.document)?);
    Ok(())
}
