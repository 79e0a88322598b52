"""Reading files of telemetry into a store: what it is measured on, and how fast it is."""
