"""Scripts under the bootstrap, without Spark: they behave as under `python`, and an exit record is written."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.harness.drivers import DriverProcess

pytestmark = pytest.mark.live


@pytest.mark.parametrize("flags", [("-P",), ()], ids=["started by a runner", "started by hand"])
def test_script_sees_the_same_environment_as_under_python(driver: DriverProcess, flags: tuple[str, ...]) -> None:
    script = driver.write_script(
        "import sys, json, inspect\n"
        "import sibling\n"
        "def me(): pass\n"
        "print(json.dumps({'argv': sys.argv, 'file': __file__, 'name': __name__, 'path': sys.path[0],\n"
        "    'main': sys.modules['__main__'].me is me, 'source': inspect.getsource(me), 'spec': __spec__, 'doc': __doc__,\n"
        "    'package': __package__, 'sibling': sibling.VALUE, 'annotations': 'print_function' in globals()}))\n",
        "scrîpt with späces.py",
    )
    driver.write_script("VALUE = 'ß'", "sibling.py")
    arguments = ["--a b", "-x", "ä\n🙂", "", "--", "--config={}"]
    driver.python_flags = flags
    driver.start(script, *arguments)
    assert driver.wait() == 0
    seen = json.loads(driver.output())
    plain = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=True)
    assert seen == json.loads(plain.stdout)
    assert seen["path"] == str(driver.code)
    assert driver.exit_record() == {
        "how": "finished",
        "reason": "the script ended",
        "condition": "",
        "exception": "",
        "started": True,
        "java_status": None,
    }


def test_failure_has_a_reason_with_line_and_a_traceback_without_holdfast_frames(driver: DriverProcess) -> None:
    driver.write_script("def deep():\n    raise KeyError('x')\n", "below.py")
    code = driver.run(
        "import below\ntry:\n    below.deep()\nexcept KeyError as error:\n    raise ValueError('bad\\nvalue') from error\n"
    )
    assert code == 1
    end = driver.exit_record()
    assert (end["how"], end["exception"]) == ("failed", "ValueError")
    assert end["reason"] == "the script failed: ValueError: bad value (line 5 of script.py)"
    output = driver.output()
    assert output.startswith("Traceback (most recent call last):\n")
    assert "The above exception was the direct cause" in output and "KeyError: 'x'" in output
    assert "bootstrap" not in output and "holdfast" not in output


def test_failure_in_a_module_beside_the_script_names_that_module(driver: DriverProcess) -> None:
    driver.write_script("def deep():\n    import json\n    json.loads('{')\n", "below.py")
    assert driver.run("import below\nbelow.deep()") == 1
    assert driver.exit_record()["exception"] == "JSONDecodeError"
    assert driver.exit_record()["reason"].endswith("(line 3 of below.py)")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (b"x = (\n", "the script failed: SyntaxError: '(' was never closed (line 1 of script.py)"),
        (b"PK\x03\x04\x00\x00", "null bytes"),
        (b"x = '\xff'\n", "SyntaxError"),
        (b"import broken\n", "(line 2 of broken.py)"),
    ],
    ids=["syntax error", "zip file", "invalid UTF-8", "broken module beside the script"],
)
def test_invalid_python_counts_as_not_started(driver: DriverProcess, source: bytes, reason: str) -> None:
    driver.write_script("\ndef", "broken.py")
    script = driver.code / "script.py"
    script.write_bytes(source)
    driver.start(script)
    assert driver.wait() == 1
    end = driver.exit_record()
    assert (end["how"], end["started"]) == ("failed", False)
    assert reason in end["reason"]
    assert "bootstrap" not in driver.output()


def test_missing_script_counts_as_not_started(driver: DriverProcess) -> None:
    driver.start(driver.code / "gone.py")
    assert driver.wait() == 1
    assert driver.exit_record()["started"] is False
    assert driver.exit_record()["reason"].startswith("the script failed: FileNotFoundError: No such file or directory: ")


def test_syntax_error_in_parsed_text_is_an_ordinary_failure(driver: DriverProcess) -> None:
    assert driver.run("import ast\nast.literal_eval('1 +')") == 1
    assert (driver.exit_record()["exception"], driver.exit_record()["started"]) == ("SyntaxError", True)


@pytest.mark.parametrize(
    ("statement", "code", "how"),
    [
        ("sys.exit(3)", 3, "failed"),
        ("sys.exit(0)", 0, "finished"),
        ("sys.exit()", 0, "finished"),
        ("sys.exit('no input\\nat all')", 1, "failed"),
        ("sys.exit(-1)", 255, "failed"),
    ],
)
def test_sys_exit_determines_exit_code_and_record(driver: DriverProcess, statement: str, code: int, how: str) -> None:
    assert driver.run(f"import sys\n{statement}") == code
    assert driver.exit_record()["how"] == how
    if "no input" in statement:
        assert driver.exit_record()["reason"] == "the script ended: no input at all"
        assert driver.output() == "no input\nat all\n"
    elif code:
        assert driver.exit_record()["reason"] == f"the script ended with exit code {code}"


def test_exit_code_of_which_the_system_keeps_zero_is_named_in_full(driver: DriverProcess) -> None:
    assert driver.run("import os\nraise SystemExit(os.system('exit 1'))") == 0
    assert driver.exit_record()["how"] == "failed"
    assert driver.exit_record()["reason"] == "the script ended with exit code 256"


def test_os_exit_leaves_no_exit_record(driver: DriverProcess) -> None:
    assert driver.run("import os\nos._exit(7)") == 7
    assert not (driver.control / "end.json").exists()


def test_exit_record_is_written_after_threads_and_exit_handlers_of_the_script(driver: DriverProcess) -> None:
    source = (
        "import atexit, os, threading, time\n"
        "end = os.path.join(os.environ['HOLDFAST_CONTROL'], 'end.json')\n"
        "atexit.register(lambda: print('atexit', os.path.exists(end)))\n"
        "def work():\n    time.sleep(0.3)\n    print('thread', os.path.exists(end))\n"
        "threading.Thread(target=work).start()\n"
    )
    assert driver.run(source) == 0
    assert driver.output().splitlines() == ["thread False", "atexit False"]
    assert driver.exit_record()["how"] == "finished"


def test_forked_child_writes_no_exit_record(driver: DriverProcess) -> None:
    source = "import os\npid = os.fork()\nif pid == 0:\n    raise ValueError('the child')\nos.waitpid(pid, 0)\n"
    assert driver.run(source) == 0
    assert driver.exit_record()["how"] == "finished"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_script_can_start_and_terminate_processes(driver: DriverProcess, method: str) -> None:
    source = (
        "import multiprocessing, time\n"
        "def square(x): return x * x\n"
        "def sleep(): time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        f"    mp = multiprocessing.get_context('{method}')\n"
        "    with mp.Pool(2) as pool: print(pool.map(square, [1, 2, 3]))\n"
        "    processes = [mp.Process(target=sleep, daemon=True) for _ in range(10)]\n"
        "    for process in processes:\n"
        "        process.start()\n"
        "        process.terminate()\n"
        "    for process in processes: process.join(30)\n"
        "    print({process.exitcode for process in processes})\n"
    )
    assert driver.run(source) == 0
    assert driver.output().splitlines() == ["[1, 4, 9]", "{-15}"]


def test_sigterm_ends_a_script_without_queries_immediately(driver: DriverProcess) -> None:
    driver.start(driver.write_script("import time\nprint('here')\ntime.sleep(600)"))
    driver.wait_for_output("here")
    os.kill(driver.pid, signal.SIGTERM)
    assert driver.wait() == -signal.SIGTERM
    assert not (driver.control / "end.json").exists()


def test_sigint_is_recorded_as_interruption(driver: DriverProcess) -> None:
    driver.start(driver.write_script("import time\nprint('here')\ntime.sleep(600)"))
    driver.wait_for_output("here")
    os.kill(driver.pid, signal.SIGINT)
    assert driver.wait() == 130
    assert driver.exit_record()["reason"] == "the script was interrupted (line 3 of script.py)"
    assert "KeyboardInterrupt" in driver.output()


def test_batch_script_sees_the_stop_request(driver: DriverProcess) -> None:
    source = (
        "import time\nfrom holdfast.job import context\nctx = context()\nprint('here', ctx.attempt)\n"
        "while not ctx.stopping: time.sleep(0.02)\nprint('done')\n"
    )
    driver.start(driver.write_script(source))
    driver.wait_for_output("here 1")
    driver.request_stop()
    assert driver.wait() == 0
    assert driver.exit_record()["how"] == "stopped"


def test_failed_script_exits_despite_a_running_thread(driver: DriverProcess) -> None:
    source = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\nraise ValueError('x')\n"
    assert driver.run(source) == 1
    assert driver.exit_record()["reason"] == "the script failed: ValueError: x (line 3 of script.py)"


def test_script_runs_without_a_control_directory(driver: DriverProcess) -> None:
    driver.start(driver.write_script("print('ran')"), HOLDFAST_CONTROL="/proc/nowhere")
    assert driver.wait() == 0
    assert driver.output() == "ran\n"


def test_printed_lines_reach_the_log_immediately(driver: DriverProcess) -> None:
    driver.start(driver.write_script("import time\nprint('a line')\ntime.sleep(600)"))
    driver.wait_for_output("a line")


def test_missing_argument_is_named_in_the_exit_record(driver: DriverProcess) -> None:
    assert driver.run("from holdfast.job import context\nprint(context().args.input)\n") == 1
    assert driver.exit_record()["reason"] == "the script needs the argument --input, which was not given (line 2 of script.py)"
