"""What to write instead of a refused name, where its kind's sentence would not help its author."""

import re

_OPERATOR = (
    "register one function for every device by torch.library.custom_op or triton_op, under a "
    'literal name in a namespace of your own ("mine::scale"), and call it or torch.ops.mine.scale'
)
_IMPORT = (
    "import an allowed module by its literal name; to learn whether something is there, import it "
    "in a `try` and set a flag in `except ImportError`"
)
_FLAG = (
    'ask for a variable of your own by its literal name, as os.environ.get("MINE_BLOCK", "64") or '
    '`"MINE_DEBUG" in os.environ`; those of a worker, like TRITON_INTERPRET, tell workers apart'
)
_STREAM = "leave it away: the gate sets device and stream, and kernels go to the current one"
_GRAPH = "launch the kernels: the timer repeats calls, and a graph would replay old inputs"
_SCRIPT = 'measure below `if __name__ == "__main__":`, which only a script runs'
_THREADS = "launch kernels one after the other: their work overlaps on the device anyway"
_RANGE = "drop what it returns: only a profiler knows how deep ranges nest"
_TYPE = "compare types (`type(n) is int`, isinstance), or quote one in the message of an error"
_VALUES = "keep it on the device: pass the tensor to the kernel that needs its values"
_ADVICE = {
    r"torch\.library\..*|torch\.ops(\..*)?|.*\.register_kernel": _OPERATOR,
    r"importlib\..*|.*import_module\(.*": _IMPORT,
    r"(os\.)?(environ|getenv)\b.*": _FLAG,
    r"torch\.cuda\.(graph|CUDAGraph|make_graphed_callables)\b.*": _GRAPH,
    r"torch\.cuda\.(current_stream|default_stream|empty_cache|set_device)\b.*": _STREAM,
    r"time|time\..*|triton\.testing\.do_bench.*": _SCRIPT,
    r"(threading|concurrent|multiprocessing|asyncio)\b.*": _THREADS,
    r"torch\.cuda\.nvtx\.range_p.*|.*\brange_(push|pop)\(.*": _RANGE,
    r"type\.__\w+__": _TYPE,
    r".*\.(cpu|item|numpy|tolist)(\(\))?": _VALUES,
}
_COMPILED = [(re.compile(names, re.DOTALL), todo) for names, todo in _ADVICE.items()]


def advice(name: str) -> str:
    """What to write instead of what was found; empty where nothing special is known."""
    return next((todo for names, todo in _COMPILED if names.fullmatch(name)), "")
