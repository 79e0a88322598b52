"""Counters of switches, polled by SNMP at the ticks of the wall clock.

`config` says which switches, `source` what gives readings of one (`snmp` does; a switch that streams its counters by
gNMI would be another), `schedule` when, and `collector` brings them together. Every source gives `readings.Reading`.
`growth` computes from it how counters grew, `keeper` puts both into a database (`pending`), the store and files of
DISCO v2 (`disco_files`), and `exporter` shows them to Prometheus.
"""
