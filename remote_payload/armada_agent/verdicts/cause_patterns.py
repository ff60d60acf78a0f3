"""Classify a line of a failure: the classes of causes, and the messages of real programs that identify them.

| reason           | what failed                                                      |
|------------------|------------------------------------------------------------------|
| `oom`            | a GPU's memory                                                   |
| `host_oom`       | the machine's memory, or the limit of its cgroup or /dev/shm     |
| `disk_full`      | a disk or a quota                                                |
| `nan_loss`       | the loss: it is not a number                                     |
| `missing_module` | a Python module or a shared library                              |
| `missing_file`   | a file or a folder                                               |
| `network`        | a name that cannot be resolved, or a server that does not answer |
| `signal_<NAME>`  | unknown: a signal ended the process (`cause.py` decides these)   |

What a rank reports because another one is gone is not a cause (`is_consequence`), nor what a launcher reports about its
ranks. Each pattern has recorded outputs under tests/unit/verdicts/recordings.
"""

import re
from typing import Optional

OOM = "oom"
HOST_OOM = "host_oom"
DISK_FULL = "disk_full"
NAN_LOSS = "nan_loss"
MISSING_MODULE = "missing_module"
MISSING_FILE = "missing_file"
NETWORK = "network"

SENTENCES = {
    OOM: "a GPU's memory ran out",
    HOST_OOM: "the machine's memory ran out",
    DISK_FULL: "the disk is full",
    NAN_LOSS: "the loss is not a number",
    MISSING_MODULE: "a module or library is missing",
    MISSING_FILE: "a file is missing",
    NETWORK: "a server could not be reached",
}

BETWEEN = "between the job's own processes"
"""Marks an exception that does not concern a network, whatever its name."""

_GPU = (
    r"(?:CUDA|HIP|MPS backend|XPU) out of memory|\bCUDA(?: runtime)? error: out of memory|CUDA_ERROR_OUT_OF_MEMORY"
    r"|cudaErrorMemoryAllocation|CU(?:BLAS|DNN|SPARSE|SOLVER)_STATUS_(?:INTERNAL_ERROR_)?ALLOC_FAILED"
    r"|Cuda failure (?:\d+ )?'out of memory'|^(?:torch\.(?:cuda\.)?)?OutOfMemoryError\b|OOM when allocating tensor"
    r"|RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate)|No available memory for the cache blocks"
)
# Matched before other patterns with "No space left on device": this is memory.
_SHARED_MEMORY = r"shared memory (?:object|segment|file)|out of shared memory|/dev/shm/"  # noqa: S108 - a word, no path
_CONSEQUENCE = (
    BETWEEN + r"|\bgloo\b|ProcessGroup(?:NCCL|Gloo|MPI|Wrapper)|\bnccl(?:Remote|System|Internal|UnhandledCuda)Error\b"
    r"|\bNCCL (?:error|WARN)|Dist(?:Backend|Network|Store)Error|TCPStore|\[c10d\]|Watchdog caught collective|remote worker"
    r"|DataLoader worker \(pid\(s\) |SignalException|RendezvousConnectionError|ncclCommAbort|MPI_ABORT"
)
_LAUNCHERS = r"ChildFailedError|CalledProcessError.*non-zero exit status|^ray\.\w+\.ActorDiedError"
_HOST = (
    r"DefaultCPUAllocator: (?:can't|not enough)|not enough memory: you tried to allocate|\bstd::bad_alloc\b"
    r"|^(?:\w+\.)*_?(?:Array)?MemoryError\b|Cannot allocate memory|\[?Errno 12\]|java\.lang\.OutOfMemoryError"
    r"|Unable to allocate [\d.]+ [KMGTPE]?i?B for an array|Out of memory: Killed process|Memory cgroup out of memory"
    r"|oom[-_]kill|oom_reaper|virtual memory exhausted|ArrowMemoryError|malloc of size \d+ failed"
)
_DISK = (
    r"No space left on device|\bENOSPC\b|\[?Errno 28\]|\(os error 28\)|StorageFull|Disk quota exceeded|\bEDQUOT\b"
    r"|\[?Errno 122\]|PytorchStreamWriter failed|inline_container\.cc:\d+\] \. unexpected pos|iostream error"
    r"|database or disk is full|[Nn]ot enough (?:free )?disk space"
)
_NAN = (
    r"\bloss'?\s?(?:is|was|became|becomes|has become|=|:)?\s?'?(?:a )?(?:infinite or )?(?:nan|inf)\b|the loss is not a number"
    r"|\bnan (?:loss|gradients?)\b|returned nan values|found nan in|nan (?:detected|encountered|or inf found)"
    r"|(?:inf|infinity) (?:detected|encountered|found) in|loss scale already at minimum|minimum loss scale reached"
    r"|^FloatingPointError\b"
)
_MODULE = (
    r"^ModuleNotFoundError\b|No module named |^ImportError\b|cannot open shared object file|undefined symbol: "
    r"|error while loading shared libraries|could not load dynamic library|GLIBC(?:XX)?_[\d.]+' not found"
)
_NETWORK = (
    r"^(?:[\w.]+\.)?(?:ConnectionError|ConnectError|ConnectTimeout(?:Error)?|ReadTimeout(?:Error)?|ProxyError|SSLError"
    r"|MaxRetryError|NameResolutionError|NewConnectionError|ClientConnector\w*Error|gaierror|URLError|OfflineModeIsEnabled"
    r"|LocalEntryNotFoundError|EndpointConnectionError|ConnectionResetError|ConnectionRefusedError)\b"
    r"|(?:could not|couldn't|unable to) resolve|Name or service not known|name resolution|nodename nor servname"
    r"|No route to host|Network is unreachable|Connection (?:refused|timed out|reset by peer)|couldn't connect to"
    r"|could not connect|failed to (?:connect|establish)|Max retries exceeded|HTTPSConnectionPool|CERTIFICATE_VERIFY_FAILED"
    r"|\b50[234] (?:Server Error|Bad Gateway|Service Unavailable|Gateway)|outgoing traffic has been disabled"
    r"|check your (?:internet )?connection"
)
_FILE = (
    r"^FileNotFoundError\b|No such file or directory|\[Errno 2\]|\(os error 2\)|\bENOENT\b|Unable to find '"
    r"|does not appear to have a file named|Incorrect path_or_model_id|is not the path to a directory containing a file"
)
_ORDER = (
    (OOM, re.compile(_GPU)),
    (HOST_OOM, re.compile(_SHARED_MEMORY)),
    ("", re.compile(_CONSEQUENCE + "|" + _LAUNCHERS)),
    (HOST_OOM, re.compile(_HOST)),
    (DISK_FULL, re.compile(_DISK)),
    (NAN_LOSS, re.compile(_NAN, re.IGNORECASE)),
    (MISSING_MODULE, re.compile(_MODULE)),
    (NETWORK, re.compile(_NETWORK, re.IGNORECASE)),
    (MISSING_FILE, re.compile(_FILE)),
)
_IS_CONSEQUENCE = re.compile(_CONSEQUENCE)
_IS_LAUNCHERS = re.compile(_LAUNCHERS)


def classify(words: str) -> Optional[str]:
    """Classify the text of one failure, such as an exception's line or a program's last line; None if unknown."""
    for reason, pattern in _ORDER:
        if pattern.search(words):
            return reason or None
    return None


def is_consequence(words: str) -> bool:
    """Tell whether the text reports that another process is gone, which is not a cause."""
    return classify(words) is None and _IS_CONSEQUENCE.search(words) is not None


def is_launchers(words: str) -> bool:
    """Tell whether the text is a launcher's report about the processes it started."""
    return _IS_LAUNCHERS.search(words) is not None
