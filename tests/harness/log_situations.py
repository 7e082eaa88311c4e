"""Synthetic log lines of ZooKeeper, Kafka and Flink, and reports that quote such lines."""

from datetime import datetime, timedelta

DAY = datetime(2026, 3, 4)  # noqa: DTZ001 -- logs state no time zone


def at(clock: str) -> datetime:
    hour, minute, second = clock.split(":")
    return DAY + timedelta(hours=int(hour), minutes=int(minute), seconds=float(second))


def zookeeper_line(moment: datetime, server: int, thread: str, message: str, level: str = "INFO") -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d} [myid:{server}] - {level:5} [{thread}] - {message}\n"


def kafka_line(moment: datetime, message: str, logger: str, level: str = "INFO") -> str:
    return f"[{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}] {level} {message} ({logger})\n"


def flink_line(moment: datetime, message: str, logger: str, level: str = "INFO") -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d} {level:5} {logger:60} [] - {message}\n"


def stall_line(server: int, onset: datetime, length_ms: int, behind_ms: int = 0) -> str:
    """Return the warning of a server about a slow write that began at `onset`."""
    end = onset + timedelta(milliseconds=length_ms + behind_ms)
    message = f"fsync-ing the write ahead log in SyncThread:{server} took {length_ms}ms which will adversely affect operation latency."
    return zookeeper_line(end, server, f"SyncThread:{server}:FileTxnLog@338", message, "WARN")


def healthy_log(server: int, begin: datetime, minutes: int = 10) -> str:
    """Return the log of a healthy server."""
    text = ""
    for minute in range(minutes):
        moment = begin + timedelta(minutes=minute, milliseconds=137 * server)
        text += zookeeper_line(moment, server, "main:PurgeManager@139", "Purge task started.")
        message = f"Established session 0x{server}0000{minute:04x} with negotiated timeout 10000 for client /10.0.0.{minute}:5{minute:03d}"
        text += zookeeper_line(moment, server, f"CommitProcWorkThread-{server}:ZooKeeperServer@588", message)
    return text


JOB_ALIVE = "aa11" * 8
JOB_OLD = "0dd0" * 8
SESSION = "0x30000003f4a0003"

RESURRECTION = f"""We had an outage, and this is how it went. Our clocks show Pacific time.

\t10:04:11 JM 2 completes checkpoint 812.
\t10:04:57 ZK 1 (follower) loses connectivity to the leader, by a timeout
\t10:04:57 ZK 1 closes connection to JM 2 (the active one)
\t10:04:57 ZK 2 (leader) has a network error and closes connection to ZK 1
\t10:04:57 JM 2 cannot read from ZooKeeper:

\t\tUnable to read additional data from server sessionid {SESSION}, likely server has closed socket

\t10:04:57 JM 2 is suspended
\t
\t\tState change: SUSPENDED

\t10:04:57 JM 2 gives up

\t\tJobManager akka://flink/user/jobmanager was revoked leadership.
\t\tJob {JOB_ALIVE} has been suspended.

\t10:04:57 JM 2 connects again

\t\tSession establishment complete on server zk2/10.0.0.2:2181, sessionid = {SESSION}, negotiated timeout = 40000
\t\tState change: RECONNECTED

\t10:04:58: JM 1 takes over

\t\tJobManager akka.tcp://flink@jm1:6123/user/jobmanager was granted leadership with leader session ID Some(ae0a1a17-eccc-40b4-985d-93bc59f5b936).

\t10:05:07 JM 1 finds two jobs where there is one

\t\tAttempting to recover job {JOB_ALIVE}.
\t\tAttempting to recover job {JOB_OLD}.

\t10:05:09 JM 1 starts the wrong one

\t\tSubmitting recovered job {JOB_OLD}.
\t\tFound 0 checkpoints in ZooKeeper.

\t10:05:10 JM 1 has no room for the right one

\t\tJob words ({JOB_ALIVE}) switched from state RUNNING to FAILING. NoResourceAvailableException: Not enough free slots available

\t10:05:40 – 10:30:00 JM 1 tries for ever

\t\tRestarting the job words ({JOB_ALIVE}).
\t\tRestoring from latest valid checkpoint: Checkpoint 812 @ 1772647450500 for {JOB_ALIVE}.

We think that the JM gives up leadership too early. Has anybody else seen this?
"""
"""1772647450500 is 2026-03-04 18:04:10.5 UTC."""

OUT_OF_ORDER = """It began after the servers were replaced:

026-03-04 02:47:44,535 INFO org.apache.flink.runtime.executiongraph.ExecutionGraph - Source (1/8) switched from RUNNING to FAILED.
java.lang.Exception: TaskManager was lost/killed: worker-3
at org.apache.flink.runtime.instance.SimpleSlot.releaseSlot(SimpleSlot.java:217)
at java.lang.Thread.run(Thread.java:748)

somebody added a comment - 05/05/2026 09:24 PM
2026-03-04 02:48:24,523 ERROR org.apache.curator.framework.imps.CuratorFrameworkImpl - Background operation retry gave up
at java.lang.Thread.run(Thread.java:748)

2026-03-04 02:47:45,015 WARN org.apache.zookeeper.ClientCnxn - Session 0x2579bebfd265054 for server 10.0.0.1/10.0.0.1:2181, unexpected error, closing socket connection and attempting reconnect
java.io.IOException: Connection reset by peer

2026-03-04 02:47:59,521 ERROR org.apache.curator.ConnectionState - Connection timed out for connection string (10.0.0.1:2181) and timeout (15000) / elapsed (15002)

and then nothing came back.
"""

RESET = """Around then one subtask began to read a partition from its beginning. Its log says only:

March 4th 2026, 02:35:01.711	Fetch offset 2340400514 is out of range for partition clicks-124, resetting offset

The broker that leads it had a hiccup just before:

[2026-03-04 09:34:54,799] INFO Unable to read additional data from server sessionid 0x161305b7bd81a09, likely server has closed socket, closing socket connection and attempting reconnect (org.apache.zookeeper.ClientCnxn)
[2026-03-04 09:34:55,464] WARN Unable to reconnect to ZooKeeper service, session 0x161305b7bd81a09 has expired (org.apache.zookeeper.ClientCnxn)
[2026-03-04 09:34:55,465] INFO zookeeper state changed (Expired) (org.I0Itec.zkclient.ZkClient)
[2026-03-04 09:34:55,472] INFO re-registering broker info in ZK for broker 2005 (kafka.server.KafkaHealthcheck$SessionExpireListener)

By 9:35:02 everything was back.
"""

NO_LOGS = """When a job cannot be recovered, the whole cluster goes down.

We think that one job should fail alone. How to see it:
    start a job
    kill the leader
    watch every manager end
"""
