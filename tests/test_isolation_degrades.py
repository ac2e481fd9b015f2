"""Where a machine offers less, the workbench says the weaker word and still works."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.isolation.bubblewrap import program

CONTAINER = """
import json, sys
sys.path[:0] = [{tests!r}]
from workbench.isolation.seccomp import Program
from workbench.isolation.syscalls import prctl
prctl(38, 1)
poorer = Program()
poorer.deny({refused})
if not {namespaces}:
    poorer.deny("unshare", "mount")
    poorer.clone(threads_only=False)
poorer.install()

from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop
jobs = ["isolation_jobs", "isolation_reach_jobs"]
with Workshop(preload=jobs) as shop, shop.worker(Flavor.BARE) as worker:
    reply = worker.call("{job}", {request})
layers = {{layer.name: layer.ok for layer in worker.layers}}
print(json.dumps({{"word": worker.isolation, "layers": layers, "body": reply.body}}))
"""
"""A judge in a container whose own filter refuses these calls, as container runtimes do."""


def in_container(*refused, job="isolation_jobs:echo", request=None, namespaces=False):
    script = CONTAINER.format(
        tests=str(Path(__file__).parent),
        refused=", ".join(map(repr, refused)),
        job=job,
        request=request or {},
        namespaces=namespaces,
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def test_without_namespaces_landlock_and_the_filter_still_hold():
    told = in_container()
    if not (told["layers"]["landlock"] and told["layers"]["seccomp"]):
        pytest.skip("this kernel lacks Landlock or seccomp")
    assert told["word"] == "landlock+seccomp"
    assert not told["layers"]["pid namespace"]


def test_without_landlock_and_bubblewrap_the_word_is_process_only():
    told = in_container("landlock_create_ruleset")
    assert told["word"] == "process only"
    assert not told["layers"]["landlock"]


def test_with_nothing_at_all_a_workers_daemon_still_dies_with_it():
    told = in_container("landlock_create_ruleset", "seccomp", job="isolation_jobs:daemon")
    assert told["word"] == "process only"
    assert not told["layers"]["seccomp"]
    assert not Path(f"/proc/{told['body']['pid']}").exists()


HERE = """
import os, resource, sys
{first}
sys.path[:0] = [{tests!r}]
from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop
with Workshop(preload=["isolation_jobs"]) as shop, shop.worker(Flavor.BARE) as worker:
    print(worker.call("isolation_jobs:keep", {{"text": "code"}}).body["text"])
"""
HABITS = {
    "few open files": "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
    "a umask that takes everything": "os.umask(0o777)",
}


@pytest.mark.parametrize("first", HABITS.values(), ids=HABITS)
def test_a_worker_finds_what_it_needs_whatever_the_judges_own_process_may_not(first):
    script = HERE.format(tests=str(Path(__file__).parent), first=first)
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert told.stdout == "code\n", told.stderr


def test_without_landlock_bubblewrap_alone_hides_the_files(tmp_path):
    if program() is None:
        pytest.skip("bubblewrap is not installed")
    key = tmp_path / "key"
    key.write_text("private")
    request = {
        "home": str(tmp_path),
        "home_file": str(key),
        "try": ["read_home", "list_home", "write_home", "read_shadow", "write_packages"],
    }
    told = in_container(
        "landlock_create_ruleset",
        job="isolation_reach_jobs:try_all",
        request=request,
        namespaces=True,
    )
    if not told["layers"]["bubblewrap"]:
        pytest.skip("bubblewrap does not work here")
    assert told["word"] == "bubblewrap"
    assert not told["layers"]["landlock"]
    assert all(how.startswith("errno") for how in told["body"].values())
