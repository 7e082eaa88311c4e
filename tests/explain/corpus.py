"""Synthetic situations with labels. Each writes log lines to a scene and returns its required and its accepted diagnoses."""

from collections.abc import Callable
from datetime import timedelta

from tests.harness.log_scene import LogScene, LogWriter

Labels = tuple[set[str], set[str]]
FLINK_LEADER = "org.apache.flink.runtime.jobmaster.JobManagerRunner"
CLIENT = "org.apache.zookeeper.ClientCnxn"
CURATOR = "org.apache.curator.framework.state.ConnectionStateManager"


def log_stall(machine: LogWriter, scene: LogScene, onset_s: float, length_ms: int) -> None:
    end = scene.at(onset_s) + timedelta(milliseconds=length_ms)
    message = f"fsync-ing the write ahead log in SyncThread:{machine.number} took {length_ms}ms which will adversely affect operation latency."
    machine.log(end, message, level="WARN", thread=f"SyncThread:{machine.number}:FileTxnLog@338")


def log_connection_lost(machine: LogWriter, scene: LogScene, at_s: float, session: str) -> None:
    message = f"Unable to read additional data from server sessionid {session}, likely server has closed socket, closing socket connection and attempting reconnect"
    machine.log(scene.at(at_s), message, logger=CLIENT)


def log_connected(machine: LogWriter, scene: LogScene, at_s: float, session: str) -> None:
    message = f"Session establishment complete on server zk2/10.0.0.2:2181, session id = {session}, negotiated timeout = 10000"
    machine.log(scene.at(at_s), message, logger=CLIENT)


def healthy(scene: LogScene) -> Labels:
    scene.ensemble()
    for system in ("kafka", "flink", "spark"):
        scene.machine(system, 1)
    return set(), set()


def hiccup(scene: LogScene) -> Labels:
    """Lose a connection that is back at once, and write slowly for a short time: no diagnosis."""
    servers = scene.ensemble()
    log_stall(servers[0], scene, 0, scene.random.randrange(20, 900))
    manager, session = scene.machine("flink", 1), scene.session()
    log_connection_lost(manager, scene, 5, session)
    log_connected(manager, scene, 5.2, session)
    return set(), set()


def disk_stall(scene: LogScene) -> Labels:
    servers = scene.ensemble()
    log_stall(scene.random.choice(servers), scene, 0, scene.random.randrange(2000, 40_000))
    return {"zk-disk-stall"}, set()


def simultaneous_stall(scene: LogScene) -> Labels:
    servers = scene.ensemble(5)
    for machine in scene.random.sample(servers, scene.random.randrange(2, 6)):
        log_stall(machine, scene, 0, scene.random.randrange(5000, 60_000))
    return {"zk-simultaneous-stall"}, set()


def follower_partitioned(scene: LogScene) -> Labels:
    first, second, _ = scene.ensemble()
    trace = "Exception when following the leader\njava.net.SocketTimeoutException: Read timed out\n\tat java.base/sun.nio.ch.A.b(C.java:1)"
    first.log(scene.at(0), trace, level="WARN")
    first.log(scene.at(0.1), "LOOKING")
    second.log(
        scene.at(0.3),
        "******* GOODBYE /10.0.0.1:4242 ********",
        level="WARN",
        thread="LearnerHandler-/10.0.0.1:4242:LearnerHandler@737",
    )
    return {"zk-follower-partitioned"}, set()


def quorum_lost(scene: LogScene) -> Labels:
    servers = scene.ensemble()
    servers[1].log(scene.at(0), "Shutting down Leader, reason: Not sufficient followers synced, only synced with sids: [ [2] ]")
    for machine in servers:
        machine.log(scene.at(0.2), "LOOKING")
        machine.log(scene.at(0.9), "FOLLOWING - LEADER ELECTION TOOK - 612 MS")
    return {"zk-quorum-lost"}, set()


def session_expired(scene: LogScene) -> Labels:
    servers, manager, session = scene.ensemble(), scene.machine("flink", 1), scene.session()
    servers[0].log(
        scene.at(0), f"Expiring session {session}, timeout of 10000ms exceeded", thread="SessionTracker:ZooKeeperServer@730"
    )
    manager.log(
        scene.at(3), f"Unable to reconnect to ZooKeeper service, session {session} has expired", level="WARN", logger=CLIENT
    )
    return {"zk-session-expired"}, set()


def rolling_restart(scene: LogScene) -> Labels:
    for position, machine in enumerate(scene.ensemble()):
        machine.log(scene.at(-500), f"Starting quorum peer, myid={machine.number}", thread="main:QuorumPeerMain@163")
        machine.log(scene.at(60 * position), f"Starting quorum peer, myid={machine.number}", thread="main:QuorumPeerMain@163")
    return {"zk-rolling-restart"}, set()


def lost_on_suspend(scene: LogScene) -> Labels:
    scene.ensemble()
    manager, session = scene.machine("flink", 1), scene.session()
    log_connection_lost(manager, scene, 0, session)
    manager.log(scene.at(0.1), "State change: SUSPENDED", logger=CURATOR)
    manager.log(scene.at(0.2), "JobMaster for job words was revoked leadership with session id 1", logger=FLINK_LEADER)
    log_connected(manager, scene, 0.8, session)
    return {"leadership-lost-on-suspend"}, set()


def resurrected(scene: LogScene) -> Labels:
    old, new = scene.machine("flink", 1), scene.machine("flink", 2)
    alive, dead = scene.job(), scene.job()
    old.log(scene.at(-30), f"Completed checkpoint 812 for job {alive} (100 bytes in 20 ms).")
    old.log(scene.at(0), f"Job {alive} has been suspended.")
    new.log(scene.at(1), "DefaultDispatcherRunner was granted leadership with leader id ae0a1a17-eccc-40b4-985d-93bc59f5b936.")
    for job in (alive, dead):
        new.log(scene.at(3), f"Recovered JobGraph(jobId: {job}).")
    new.log(scene.at(4), "Found 0 checkpoints in ZooKeeper.")
    return {"job-resurrected"}, set()


def starved(scene: LogScene) -> Labels:
    manager, job = scene.machine("flink", 1), scene.job()
    for turn in range(scene.random.randrange(2, 6)):
        message = f"Job words ({job}) switched from state RUNNING to FAILING.\norg.apache.flink.NoResourceAvailableException: Not enough free slots available"
        manager.log(scene.at(30 * turn), message)
        manager.log(scene.at(30 * turn + 1), f"Restarting the job words ({job}).")
    return {"slot-starvation-loop"}, set()


def restart_loop(scene: LogScene) -> Labels:
    manager, job = scene.machine("flink", 1), scene.job()
    for turn in range(scene.random.randrange(4, 9)):
        manager.log(scene.at(20 * turn), f"Restarting the job words ({job}).")
    return {"restart-loop"}, set()


def recovery_fatal(scene: LogScene) -> Labels:
    manager = scene.machine("flink", 1)
    message = f"Fatal error occurred in the cluster entrypoint.\nCaused by: java.lang.Exception: Could not recover job with job id {scene.job()}."
    manager.log(scene.at(0), message, level="ERROR", logger="org.apache.flink.runtime.entrypoint.ClusterEntrypoint")
    return {"recovery-fatal"}, set()


def broker_lost(scene: LogScene) -> Labels:
    scene.ensemble()
    broker, session = scene.machine("kafka", 1), scene.session()
    log_connection_lost(broker, scene, 0, session)
    broker.log(
        scene.at(8), f"Unable to reconnect to ZooKeeper service, session {session} has expired", level="WARN", logger=CLIENT
    )
    broker.log(scene.at(8.1), "[ZooKeeperClient Kafka server] Session expired.", logger="kafka.zookeeper.ZooKeeperClient")
    broker.log(scene.at(8.2), "Creating /brokers/ids/1 (is it secure? false)", logger="kafka.zk.KafkaZkClient")
    return {"kafka-broker-session-lost", "zk-session-expired"}, set()


def broker_fenced(scene: LogScene) -> Labels:
    controller = scene.machine("kafka", 1)
    message = "[QuorumController id=1] Fencing broker 2 at epoch 7 because its session has timed out."
    controller.log(scene.at(0), message, logger="org.apache.kafka.controller.ReplicationControlManager")
    return {"kafka-broker-session-lost"}, set()


def offset_reset(scene: LogScene) -> Labels:
    consumer = scene.machine("flink", 1)
    offset, partition = scene.random.randrange(1 << 40), f"clicks-{scene.random.randrange(99)}"
    message = f"[Consumer clientId=c, groupId=g] Fetch position FetchPosition{{offset={offset}, offsetEpoch=Optional[0]}} is out of range for partition {partition}, resetting offset"
    consumer.log(scene.at(0), message, logger="org.apache.kafka.clients.consumer.internals.FetchCollector")
    message = f"[Consumer clientId=c, groupId=g] Resetting offset for partition {partition} to position FetchPosition{{offset=3, offsetEpoch=Optional.empty}}."
    consumer.log(scene.at(0.2), message, logger="org.apache.kafka.clients.consumer.internals.SubscriptionState")
    return {"kafka-offset-reset"}, set()


def data_loss(scene: LogScene) -> Labels:
    driver = scene.machine("spark", 1)
    message = "Query words terminated with error\norg.apache.spark.SparkException: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost"
    driver.log(scene.at(0), message, level="ERROR", logger="MicroBatchExecution")
    return {"offset-data-loss"}, set()


def gc_pause(scene: LogScene) -> Labels:
    servers = scene.ensemble()
    length_ms = scene.random.randrange(1500, 30_000)
    message = f"Detected pause in JVM or host machine (e.g. a stop the world GC, or JVM not scheduled): pause of approximately {length_ms}ms"
    servers[0].log(scene.at(0), message, level="WARN", thread="JvmPauseMonitor:JvmPauseMonitor@148")
    return {"gc-pause"}, set()


def clock_skew(scene: LogScene) -> Labels:
    servers = scene.ensemble()
    servers[2].behind = timedelta(milliseconds=scene.random.choice([-1, 1]) * scene.random.randrange(2000, 60_000))
    for number in range(10):
        session = scene.session()
        for machine in servers:
            delay_s = scene.random.uniform(0, 0.02)
            machine.log(
                scene.at(20 * number + delay_s),
                f"Committing global session {session}",
                thread="CommitProcessor:1:LeaderSessionTracker@104",
            )
    return {"clock-skew"}, set()


SITUATIONS: tuple[Callable[[LogScene], Labels], ...] = (
    healthy, healthy, hiccup, disk_stall, simultaneous_stall, follower_partitioned, quorum_lost, session_expired, rolling_restart,
    lost_on_suspend, resurrected, starved, restart_loop, recovery_fatal, broker_lost, broker_fenced, offset_reset, data_loss,
    gc_pause, clock_skew,
)  # fmt: skip  # one item per line is harder to read
SEEDS = 5
