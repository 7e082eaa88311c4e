"""A script under the bootstrap runs as it would under `python`, and how it ended is written down. No Spark here."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.harness.drivers import Driver

pytestmark = pytest.mark.live


@pytest.mark.parametrize("flags", [("-P",), ()], ids=["as a runner starts it", "by hand"])
def test_a_script_sees_what_it_would_see_under_python(driver: Driver, flags: tuple[str, ...]) -> None:
    script = driver.put(
        "import sys, json, inspect\n"
        "import sibling\n"
        "def me(): pass\n"
        "print(json.dumps({'argv': sys.argv, 'file': __file__, 'name': __name__, 'path': sys.path[0],\n"
        "    'main': sys.modules['__main__'].me is me, 'source': inspect.getsource(me), 'spec': __spec__, 'doc': __doc__,\n"
        "    'package': __package__, 'sibling': sibling.VALUE, 'annotations': 'print_function' in globals()}))\n",
        "scrîpt with späces.py",
    )
    driver.put("VALUE = 'ß'", "sibling.py")
    arguments = ["--a b", "-x", "ä\n🙂", "", "--", "--config={}"]
    driver.start(script, *arguments, flags=flags)
    assert driver.wait() == 0
    seen = json.loads(driver.output())
    plain = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=True)
    assert seen == json.loads(plain.stdout)
    assert seen["path"] == str(driver.code)
    assert driver.end() == {
        "how": "finished",
        "reason": "its script ended",
        "condition": "",
        "exception": "",
        "started": True,
        "java_status": None,
    }


def test_a_failure_is_a_sentence_with_its_place_and_a_traceback_without_ours(driver: Driver) -> None:
    driver.put("def deep():\n    raise KeyError('x')\n", "below.py")
    code = driver.run(
        "import below\ntry:\n    below.deep()\nexcept KeyError as error:\n    raise ValueError('bad\\nvalue') from error\n"
    )
    assert code == 1
    end = driver.end()
    assert (end["how"], end["exception"]) == ("failed", "ValueError")
    assert end["reason"] == "its script failed: ValueError: bad value (line 5 of script.py)"
    output = driver.output()
    assert output.startswith("Traceback (most recent call last):\n")
    assert "The above exception was the direct cause" in output and "KeyError: 'x'" in output
    assert "bootstrap" not in output and "holdfast" not in output


def test_a_failure_beside_the_script_is_located_there(driver: Driver) -> None:
    driver.put("def deep():\n    import json\n    json.loads('{')\n", "below.py")
    assert driver.run("import below\nbelow.deep()") == 1
    assert driver.end()["exception"] == "JSONDecodeError"
    assert driver.end()["reason"].endswith("(line 3 of below.py)")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (b"x = (\n", "its script failed: SyntaxError: '(' was never closed (line 1 of script.py)"),
        (b"PK\x03\x04\x00\x00", "null bytes"),
        (b"x = '\xff'\n", "SyntaxError"),
        (b"import broken\n", "(line 2 of broken.py)"),
    ],
    ids=["syntax", "a zip file", "not UTF-8", "a broken neighbour"],
)
def test_what_is_no_python_never_started(driver: Driver, source: bytes, reason: str) -> None:
    driver.put("\ndef", "broken.py")
    script = driver.code / "script.py"
    script.write_bytes(source)
    driver.start(script)
    assert driver.wait() == 1
    end = driver.end()
    assert (end["how"], end["started"]) == ("failed", False)
    assert reason in end["reason"]
    assert "bootstrap" not in driver.output()


def test_a_script_that_is_not_there_never_started(driver: Driver) -> None:
    driver.start(driver.code / "gone.py")
    assert driver.wait() == 1
    assert driver.end()["started"] is False
    assert driver.end()["reason"].startswith("its script failed: FileNotFoundError: No such file or directory: ")


def test_text_that_a_script_cannot_parse_is_an_ordinary_failure(driver: Driver) -> None:
    assert driver.run("import ast\nast.literal_eval('1 +')") == 1
    assert (driver.end()["exception"], driver.end()["started"]) == ("SyntaxError", True)


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
def test_an_exit_is_respected(driver: Driver, statement: str, code: int, how: str) -> None:
    assert driver.run(f"import sys\n{statement}") == code
    assert driver.end()["how"] == how
    if "no input" in statement:
        assert driver.end()["reason"] == "its script ended: no input at all"
        assert driver.output() == "no input\nat all\n"
    elif code:
        assert driver.end()["reason"] == f"its script ended with exit code {code}"


def test_an_end_without_a_word_leaves_none(driver: Driver) -> None:
    assert driver.run("import os\nos._exit(7)") == 7
    assert not (driver.control / "end.json").exists()


def test_the_last_words_come_after_everything_that_the_script_does_at_its_end(driver: Driver) -> None:
    source = (
        "import atexit, os, threading, time\n"
        "end = os.path.join(os.environ['HOLDFAST_CONTROL'], 'end.json')\n"
        "atexit.register(lambda: print('atexit', os.path.exists(end)))\n"
        "def work():\n    time.sleep(0.3)\n    print('thread', os.path.exists(end))\n"
        "threading.Thread(target=work).start()\n"
    )
    assert driver.run(source) == 0
    assert driver.output().splitlines() == ["thread False", "atexit False"]
    assert driver.end()["how"] == "finished"


def test_a_forked_child_that_runs_to_the_end_says_nothing(driver: Driver) -> None:
    source = "import os\npid = os.fork()\nif pid == 0:\n    raise ValueError('the child')\nos.waitpid(pid, 0)\n"
    assert driver.run(source) == 0
    assert driver.end()["how"] == "finished"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_script_may_use_processes_and_end_them(driver: Driver, method: str) -> None:
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


def test_sigterm_ends_what_has_no_queries_as_usual(driver: Driver) -> None:
    driver.start(driver.put("import time\nprint('here')\ntime.sleep(600)"))
    driver.until_printed("here")
    os.kill(driver.pid, signal.SIGTERM)
    assert driver.wait() == -signal.SIGTERM
    assert not (driver.control / "end.json").exists()


def test_an_interruption_is_called_that(driver: Driver) -> None:
    driver.start(driver.put("import time\nprint('here')\ntime.sleep(600)"))
    driver.until_printed("here")
    os.kill(driver.pid, signal.SIGINT)
    assert driver.wait() == 130
    assert driver.end()["reason"] == "it was interrupted (line 3 of script.py)"
    assert "KeyboardInterrupt" in driver.output()


def test_a_batch_script_can_see_that_it_is_to_stop(driver: Driver) -> None:
    source = (
        "import time\nfrom holdfast.job import context\nctx = context()\nprint('here', ctx.attempt)\n"
        "while not ctx.stopping: time.sleep(0.02)\nprint('done')\n"
    )
    driver.start(driver.put(source))
    driver.until_printed("here 1")
    driver.ask_to_stop()
    assert driver.wait() == 0
    assert driver.end()["how"] == "stopped"


def test_a_failed_script_does_not_live_on_in_a_thread(driver: Driver) -> None:
    source = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\nraise ValueError('x')\n"
    assert driver.run(source) == 1
    assert driver.end()["reason"] == "its script failed: ValueError: x (line 3 of script.py)"


def test_a_control_directory_that_is_gone_or_full_stops_nobody(driver: Driver) -> None:
    driver.start(driver.put("print('ran')"), HOLDFAST_CONTROL="/proc/nowhere")
    assert driver.wait() == 0
    assert driver.output() == "ran\n"


def test_what_a_script_prints_is_there_even_if_it_is_killed(driver: Driver) -> None:
    driver.start(driver.put("import time\nprint('a line')\ntime.sleep(600)"))
    driver.until_printed("a line")


def test_a_missing_argument_ends_the_script_with_that_sentence(driver: Driver) -> None:
    assert driver.run("from holdfast.job import context\nprint(context().args.input)\n") == 1
    assert driver.end()["reason"] == "the argument --input is missing: this script needs it (line 2 of script.py)"
