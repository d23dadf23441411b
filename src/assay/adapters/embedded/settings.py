"""How the embedded server is set up: values for a small machine, all of them on its command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a caller may choose. The process that starts the server decides for all that join it.

    `idle_grace`: seconds without any client before the server stops. `connect_timeout`: seconds that a
    running server may take to answer. `parameters`: further PostgreSQL parameters.
    """

    idle_grace: float = 20.0
    connect_timeout: float = 10.0
    max_connections: int = 100
    shared_buffers: str = "128MB"
    log_bytes: int = 5_000_000
    parameters: Mapping[str, str] = field(default_factory=dict)


# Errors quote what they choke on ("invalid input syntax for type integer: …"), so level ERROR stays out of
# the log altogether; `terse` drops the DETAIL line that would hold a key's values or a crashed query.
_PRIVATE_LOG = {
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "log_duration": "off",
    "log_lock_waits": "off",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_line_prefix": "%m [%p] ",
    "log_timezone": "UTC",
}

_ALWAYS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "on",
    "full_page_writes": "on",
    "password_encryption": "scram-sha-256",
    "shared_preload_libraries": "",
}

# Parallel workers need /dev/shm, which is 64 MB in many containers, and cores, of which there are two.
_TUNING = {
    "timezone": "UTC",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "random_page_cost": "1.1",
    "effective_cache_size": "1GB",
    "max_wal_size": "1GB",
}


def server_command(postgres: str, data: str, port: int, settings: ServerSettings) -> list[str]:
    """The command line of `postgres` on the folder `data`."""
    parameters = {
        **_TUNING,
        "max_connections": str(settings.max_connections),
        "shared_buffers": settings.shared_buffers,
        **settings.parameters,
        **_PRIVATE_LOG,
        **_ALWAYS,
        "port": str(port),
    }
    command = [postgres, "-D", data]
    for name, value in parameters.items():
        command += ["-c", f"{name}={value}"]
    return command
