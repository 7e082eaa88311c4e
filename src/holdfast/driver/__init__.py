"""Code that runs inside a driver, around the user's script: bootstrap, PySpark hooks, exit record, JVM pre-start.

It imports PySpark only after the script does, and never imports the control plane. It does not decide whether an attempt
continues: it reports to the runner through control files, and stops queries at a batch boundary on request.
"""
