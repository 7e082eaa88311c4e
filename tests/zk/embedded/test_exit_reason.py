"""Exit reasons, found in log lines of ZooKeeper 3.9.5."""

from holdfast.zk.embedded.exit_reason import explain_exit

HEAD = "2026-11-15 19:30:46,2{n:02d} [myid:1] - {level:<5} [main:{where}] - {text}"


def line(n: int, level: str, where: str, text: str) -> str:
    return HEAD.format(n=n, level=level, where=where, text=text)


EXITING = line(99, "ERROR", "ServiceUtils@48", "Exiting JVM with code 1")


def exit_reason(*lines: str, console: str = "", exit_code: int = 1) -> str:
    return explain_exit(log="\n".join(lines) + "\n", console=console, exit_code=exit_code, directory="/zk/server-1")


def test_client_port_in_use_is_the_reason() -> None:
    assert (
        exit_reason(
            line(1, "INFO", "NIOServerCnxnFactory@660", "binding to port /127.0.0.1:23001"),
            line(2, "ERROR", "ZooKeeperServerMain@91", "Unexpected exception, exiting abnormally"),
            "java.net.BindException: Address already in use",
            "\tat java.base/sun.nio.ch.Net.bind0(Native Method) ~[?:?]",
            EXITING,
        )
        == "port 23001 on 127.0.0.1 is in use by another program"
    )


def test_election_port_in_use_is_found_among_other_ports() -> None:
    assert (
        exit_reason(
            line(1, "INFO", "NIOServerCnxnFactory@660", "binding to port /127.0.0.1:23001"),
            line(2, "ERROR", "ListenerHandler@1096", "Exception while listening to address /127.0.0.1:23201"),
            "java.net.BindException: Address already in use",
            line(3, "WARN", "QuorumCnxManager@398", "Cannot open channel to 2 at election address /127.0.0.1:23202"),
            "java.net.ConnectException: Connection refused",
            line(4, "ERROR", "Listener@1115", "Leaving listener thread for address 127.0.0.1:23201 after 3 errors."),
            line(5, "ERROR", "Listener@984", "As I'm leaving the listener thread, I won't vote: 127.0.0.1:23201"),
            EXITING,
            exit_code=14,
        )
        == "port 23201 on 127.0.0.1 is in use by another program"
    )


def test_unwritable_directory_is_the_reason() -> None:
    assert (
        exit_reason(
            line(1, "ERROR", "ZooKeeperServerMain@91", "Unexpected exception, exiting abnormally"),
            "java.io.FileNotFoundException: ./data/version-2/snapshot.0 (Not a directory)",
            "\tat java.base/java.io.FileOutputStream.open0(Native Method) ~[?:?]",
            EXITING,
        )
        == "it cannot write to its directory /zk/server-1: Not a directory"
    )


def test_other_error_is_quoted_with_its_root_cause() -> None:
    assert (
        exit_reason(
            line(1, "ERROR", "QuorumPeerMain@99", "Invalid config, exiting abnormally"),
            "org.apache.zookeeper.server.quorum.QuorumPeerConfig$ConfigException: Error processing ./zoo.cfg",
            "\tat org.apache.zookeeper.server.quorum.QuorumPeerConfig.parse(QuorumPeerConfig.java:200)",
            "Caused by: java.lang.IllegalArgumentException: myid file is missing",
            "\t... 3 more",
            EXITING,
            console="Invalid config, exiting abnormally",
        )
        == 'the last error in its log is "Invalid config, exiting abnormally: '
        'java.lang.IllegalArgumentException: myid file is missing"'
    )


def test_console_output_is_quoted_if_the_log_is_empty() -> None:
    printed = "Error: Could not create the Java Virtual Machine.\nError: A fatal exception has occurred.\n"
    printed = "Picked up JAVA_TOOL_OPTIONS: -Xshare:off\n" + printed
    assert exit_reason(console=printed) == 'it printed "Error: Could not create the Java Virtual Machine."'


def test_signal_is_the_reason_regardless_of_the_log() -> None:
    noise = line(1, "ERROR", "Learner@1", "Failed connect to /127.0.0.1:27256")
    assert exit_reason(noise, exit_code=-9) == "it was terminated by SIGKILL"
    assert exit_reason(noise, exit_code=143) == "it was terminated by SIGTERM"
    assert exit_reason(noise, exit_code=-64) == "it was terminated by SIGRTMAX"
    assert exit_reason(noise, exit_code=-63) == "it was terminated by signal 63"


def test_exit_code_is_the_reason_if_there_is_no_output() -> None:
    assert exit_reason(exit_code=3) == "it ended with exit code 3 and logged no error"
