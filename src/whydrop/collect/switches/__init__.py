"""Counters of switches, polled by SNMP at the ticks of the wall clock.

`config` says which switches, `source` what gives readings of one (`snmp` does; a switch that streams its counters by
gNMI would be another), `schedule` when, and `collecting` brings them together. `reading.Reading` is what any way of
asking a switch gives; `counting` makes growth of counters from it, `keeping` puts it into a store, `disco_writing` into
files of DISCO v2, and `exporter` shows it to Prometheus.
"""
