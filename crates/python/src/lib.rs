//! The Python module `whydrop._core`: calls the analysis and passes its results on. It holds no logic.
//!
//! The document crosses as Python objects, the tables as Arrow record batches over the Arrow C stream interface.

mod analysis;
mod bursts;
mod columns;
mod drops;
mod emulation;
mod errors;
mod events;
mod guard;
mod host;
mod json;
mod packets;
mod predictions;
mod progress;
mod reduce;
mod replay;
mod rows;
mod sockets;
mod table;
mod tcp_columns;
mod traffic;
mod traffic_columns;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add(
        "CaptureError",
        module.py().get_type::<analysis::CaptureError>(),
    )?;
    module.add_function(wrap_pyfunction!(analysis::explain, module)?)?;
    module.add_function(wrap_pyfunction!(analysis::explain_pair, module)?)?;
    module.add_function(wrap_pyfunction!(analysis::match_pair, module)?)?;
    module.add_function(wrap_pyfunction!(bursts::explain_bursts, module)?)?;
    module.add_function(wrap_pyfunction!(bursts::explain_counted_trains, module)?)?;
    module.add_function(wrap_pyfunction!(packets::packets, module)?)?;
    module.add_function(wrap_pyfunction!(json::dump, module)?)?;
    module.add_function(wrap_pyfunction!(json::dumps, module)?)?;
    module.add_function(wrap_pyfunction!(reduce::reduce, module)?)?;
    module.add_function(wrap_pyfunction!(replay::path, module)?)?;
    module.add_function(wrap_pyfunction!(replay::elements, module)?)?;
    module.add_function(wrap_pyfunction!(predictions::predict, module)?)?;
    module.add_function(wrap_pyfunction!(predictions::predicted_course, module)?)?;
    module.add_function(wrap_pyfunction!(predictions::changed_setting, module)?)?;
    module.add_function(wrap_pyfunction!(predictions::together_bps, module)?)?;
    module.add_function(wrap_pyfunction!(emulation::emulate, module)?)?;
    module.add_function(wrap_pyfunction!(emulation::trace_times, module)?)?;
    module.add_class::<replay::Passages>()?;
    module.add_class::<analysis::Analysis>()?;
    module.add_class::<table::Table>()?;
    module.add(
        "TrafficError",
        module.py().get_type::<traffic::TrafficError>(),
    )?;
    module.add_class::<sockets::SocketSampler>()?;
    module.add_class::<drops::DropMonitor>()?;
    module.add_class::<events::EventMonitor>()?;
    module.add_function(wrap_pyfunction!(sockets::socket_owners, module)?)?;
    module.add_function(wrap_pyfunction!(traffic::new_secret, module)?)?;
    module.add_function(wrap_pyfunction!(traffic::shared_secret, module)?)?;
    module.add_function(wrap_pyfunction!(host::host_metadata, module)?)?;
    module.add_function(wrap_pyfunction!(host::host_metadata_after, module)?)?;
    module.add_function(wrap_pyfunction!(host::queue_counters, module)?)?;
    module.add_class::<traffic::TrafficTest>()?;
    module.add_class::<traffic::Keyring>()?;
    module.add_class::<traffic::Responder>()?;
    #[cfg(debug_assertions)]
    {
        module.add_function(wrap_pyfunction!(guard::_panic, module)?)?;
        module.add_class::<guard::_Panicking>()?;
    }
    guard::guard(module)
}
