"""Commands of `holdfast`, with their modules and summaries, so that `holdfast --help` imports none of them."""

COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Jobs": {
        "submit": ("submit", "Submit a PySpark script, or a declarative pipeline (.yml)."),
        "ls": ("ls", "List jobs, with the reason for each one that is not running."),
        "show": ("show", "Show one job: its state and the reason, its program, progress and events."),
        "events": ("events", "List what happened to one job, or to all jobs."),
        "logs": ("logs", "Print the output of a job."),
        "stop": ("job_control", "Stop a job after its current batch; 'resume' continues it."),
        "resume": ("job_control", "Start a stopped or parked job again from its last committed batch."),
        "restart": ("job_control", "Stop the running attempt after its current batch, and start another."),
        "cancel": ("job_control", "End a job permanently: kill its driver at once and free its name."),
        "upgrade": ("upgrade", "Replace a job's program; the new one continues from the same checkpoint."),
        "apply": ("apply", "Make the cluster's jobs equal to a directory of job files."),
        "savepoint": ("savepoint", "Copy a job's checkpoint: 'savepoint JOB'."),
        "quarantine": ("quarantine", "List, release or discard jobs whose records cannot be read."),
    },
    "Checkpoints": {
        "checkpoint": ("judge_checkpoints", "Judge streaming checkpoints: whole, damaged with the proof, or unknown."),
    },
    "Logs": {
        "explain": ("explain", "Diagnose incidents from logs of ZooKeeper, Kafka, Flink, Spark and Holdfast."),
    },
    "Clusters": {
        "up": ("up_down", "Start a cluster on this machine: ZooKeeper servers and nodes."),
        "down": ("up_down", "Stop the cluster that 'holdfast up' started on this machine."),
        "node": ("node", "Run one node of a cluster in the foreground."),
        "cluster": ("cluster", "Show the leader, the nodes and the health of the ZooKeeper servers."),
    },
    "Shell": {
        "completion": ("completion", "Print the shell script that completes commands and job names."),
    },
}
"""(module in `cli/commands`, summary) by section of the help and command name. A test compares the summaries."""
