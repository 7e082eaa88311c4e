"""Explain what happened from the logs of all systems involved, with the lines that show it.

Pipeline, in order. The first steps run on Spark workers, the others on the driver:

1.  `inputs`                  find the files, their size and compression
2.  `scan.ranges`             split them into byte ranges (`ByteRange`) and group these into tasks
3.  `spark.spark_session`, `spark.scan_job`  start Spark and run `range_scan.scan_ranges` for each task
4.  `scan.mode_detection`     decide from the start of a file how to read it (`FileMode`)
5.  `scan.block`, `scan.record_scan`, `scan.header_dfa`  find the records of a block of bytes (`Block`)
6.  `scan.literal_search`, `scan.literal_automaton`  search the block for the literals of all event patterns
7.  `scan.event_matcher`      match patterns at these literals (`EventMatch`)
8.  `scan.event_budget`       keep a bounded number of matches as `LogEvent`s, count the others
9.  `scan.templates`          count log templates
10. `scan.error_classifier`, `scan.error_lines`  count lines that report errors
11. `timeline.merge`          merge the results of all ranges (`MergedScan`)
12. `timeline.clocks`, `timeline.component`  align clocks, assign events to components
13. `timeline.occurrence`, `timeline.timeline`  merge repetitions, index the result (`Occurrence`, `Timeline`)
14. `timeline.causes`         find cause chains
15. `diagnose`                match signatures (`SignatureMatch`) and build diagnoses (`Diagnosis`)
16. `timeline.lifetimes`, `timeline.bursts`  find lifetimes and bursts
17. `report`                  render the `Answer` as JSON, HTML, Perfetto trace or Parquet; `cli.render.diagnosis` prints it

`range_scan` combines steps 4 to 10 into a `RangeScan` per range and a `TaskScan` per task; `analyze` combines steps 12 to 16.
A log line thus becomes an `EventMatch`, a `LogEvent`, an `Occurrence` and part of a `Diagnosis`.

The result of a scan is bounded, whatever the size of the logs. Everything after it is pure: the same scan gives the same
answer. `library` declares the known formats, events, causal rules and signatures. This package changes nothing, reads only the
files that were named, and does not guess: a chain ends where its evidence ends.
"""
