"""A job that reaches out of the worker it runs in, in every way that a hostile candidate could."""

# Jobs have one signature, and a hostile one takes the shortest way.
# ruff: noqa: ARG001, PTH101, PTH115, PTH208

import ctypes
import mmap
import os
import socket
import subprocess
from pathlib import Path


def try_all(bench, request, blobs):
    """Run `request["try"]`, names of functions below; what each could do, or the errno it met."""
    done = {}
    for name in request["try"]:
        try:
            done[name] = f"did it: {globals()[name](request)!r}"[:200]
        except OSError as fault:
            done[name] = f"errno {fault.errno}"
    return done, []


def read_shadow(request):
    return Path("/etc/shadow").read_text()


def read_home(request):
    return Path(request["home_file"]).read_text()


def list_home(request):
    return os.listdir(request["home"])


def read_sibling(request):
    return Path(request["sibling"]).read_text()


def read_suite(request):
    return Path(request["suite"]).read_text()


def read_own_source(request):
    return Path(__file__).read_text()


def write_home(request):
    return Path(request["home"], "planted").write_text("x")


def write_tmp(request):
    return Path("/tmp/planted").write_text("x")


def write_shm(request):
    return Path("/dev/shm/planted").write_text("x")


def append_shm(request):
    with Path(request["shm"]).open("a") as file:
        return file.write("x")


def empty_by_reading(request):
    """Opening a file for reading may cut it to nothing: no right to write is asked for."""
    os.close(os.open(request["tool"], os.O_RDONLY | os.O_TRUNC))


def write_packages(request):
    import msgspec

    return Path(msgspec.__file__).with_name("planted.py").write_text("x")


def chmod_home_file(request):
    os.chmod(request["home_file"], 0)


def truncate_home_file(request):
    os.truncate(request["home_file"], 0)


def link_home_file(request):
    os.link(request["home_file"], "linked")


def chmod_by_handle(request):
    descriptor = os.open(request["home_file"], os.O_PATH)
    os.chmod(f"/proc/self/fd/{descriptor}", 0)


def internet_socket(request):
    return socket.socket(socket.AF_INET).fileno()


def datagram_socket(request):
    return socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).fileno()


def unix_socket(request):
    return socket.socket(socket.AF_UNIX).fileno()


def netlink_socket(request):
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).fileno()


def read_judge_memory(request):
    class Part(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))

    buffer = ctypes.create_string_buffer(8)
    here = Part(ctypes.addressof(buffer), 8)
    there = Part(request["address"], 8)
    return _libc("process_vm_readv", request["judge"], here, 1, there, 1)


def read_judge_environment(request):
    return Path(f"/proc/{request['judge']}/environ").read_bytes()


def read_judge_descriptors(request):
    return os.readlink(f"/proc/{request['judge']}/fd/0")


def trace_parent(request):
    return _libc("ptrace", 16, os.getppid(), None, None)


def kill_judge(request):
    return os.kill(request["judge"], 0)


def kill_everyone(request):
    return os.kill(-1, 0)


def limit_judge(request):
    import resource

    return resource.prlimit(request["judge"], resource.RLIMIT_NOFILE)


def new_namespace(request):
    return _libc("unshare", 0x10000000)


def remount(request):
    return _libc("mount", b"none", b"/tmp", b"tmpfs", 0, None)


def start_program(request):
    return subprocess.run(["/bin/true"], check=True).returncode


def start_process(request):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


def memory_file(request):
    return os.memfd_create("hidden")


def shared_segment(request):
    return _libc("shmget", 0x1234, 4096, 0o1600)


def raw_calls(bench, request, blobs):
    """The errno of each system call of `request["calls"]`, by name; further arguments are zero."""
    libc = ctypes.CDLL(None, use_errno=True)
    met = {}
    for name, call in request["calls"].items():
        number, *arguments = call if isinstance(call, list) else [call]
        arguments += [0] * (6 - len(arguments))
        ctypes.set_errno(0)
        if libc.syscall(*map(ctypes.c_long, (number, *arguments))) == 0 and name.startswith(
            "clone"
        ):
            os._exit(0)  # the child
        met[name] = ctypes.get_errno()
    return met, []


def _libc(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    result = getattr(libc, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def start_own_program(request):
    """A program that the worker wrote itself; its folder is its own, and nothing runs from it."""
    content = Path("/bin/true").read_bytes()
    made = os.open("mine", os.O_WRONLY | os.O_CREAT, 0o755)
    os.write(made, content)
    os.close(made)
    return subprocess.run(["./mine"], check=True).returncode


def other_machine(bench, request, blobs):
    """`getpid` by the numbers of a 32-bit program: `mov eax, 20; int 0x80; ret`."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    entry = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return {"pid": ctypes.CFUNCTYPE(ctypes.c_int)(entry)()}, []


def program_reads_home(request):
    """Exit code of a program that is told to read a file: 1 when it could not."""
    return subprocess.run(["cat", request["home_file"]], check=False).returncode
