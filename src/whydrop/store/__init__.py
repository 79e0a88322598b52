"""The store: many recordings' worth of tables in one folder, or below one prefix of an object store, for years.

A store holds Parquet files only, in one folder for each table and UTC day::

    STORE/
        whydrop-store.json                    version of the layout
        counters/day=2018-02-11/<part>.parquet
        ndt/day=2018-02-11/<part>.parquet
        tcp/day=2018-02-11/<part>.parquet
        sources/<sha256>.json                 one file for each file that was read into it: what came of it

Any engine that reads Parquet reads it: `tables` says what the columns mean, `engines` opens it with DuckDB or Spark,
or opens other people's tables in BigQuery as if they were one.
"""
