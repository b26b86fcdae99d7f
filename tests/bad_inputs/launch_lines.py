"""Lines 211 to 229 of the catalog: launching and the network. Tests that need several programs at a time are in
network_test.py."""

import os
import pathlib
import socket

from case import CONFIGURATION, DONE, MACHINE, PEER, TRAINER, Case, Elsewhere, NotHere, as_nobody, can_be_nobody

SEVERAL = {"distributed_type": "MULTI_CPU", "num_processes": 2}
CORES = os.cpu_count() or 1


def launch(line, what, flags, *says, code=CONFIGURATION, job=SEVERAL, command="launch", prepare=lambda place: None, **more):
    def make(place):
        words = flags(place) if callable(flags) else flags
        prepare(place)
        return [command, "--config_file", place.job({"evaluation": None, "data": {"validation": None}}, job), *words]
    return Case(line, what, make, code, says, **more)


def machines(line, what, flags, *says, **more):
    """Machine 0 of two, which must not wait for the other."""
    return launch(line, what, lambda place: ["--num_machines", "2", "--num_processes", "2", *(
        flags(place) if callable(flags) else flags)], *says, **more)


def at(address, port="29500"):
    return ["--machine_rank", "0", "--main_process_ip", address, "--main_process_port", port]


def secret(line, what, prepare, *says, **more):
    """The secret is in a file that `prepare(path)` makes."""
    return machines(line, what, at("127.0.0.1", str(free_port())), "TRAINER_SECRET_FILE", *says,
                    prepare=lambda place: prepare(place.folder / "secret"),
                    environment={"TRAINER_SECRET_FILE": "secret"}, **more)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def with_mode(mode, content="open sesame, says who knows it"):
    def prepare(path):
        path.write_text(content)
        path.chmod(mode)
    return prepare


TAKEN = []  # sockets that stay open as long as this program runs


def taken_port(_):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    TAKEN.append(listener)
    return at("127.0.0.1", str(listener.getsockname()[1]))


def low_ports_need_rights():
    start = pathlib.Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    return can_be_nobody() and start.exists() and int(start.read_text()) > 81


def environment(line, what, variables, *says, code=CONFIGURATION, **more):
    return launch(line, what, [], *says, code=code, environment=variables, **more)


def mlflow(line, what, variables, *says, **more):
    return launch(line, what, [], *says, job={"logging": {"report_to": "mlflow"}}, environment=variables,
                  needs=lambda: pathlib.Path(TRAINER).with_name("trainer-tracker").exists(), **more)


LINES = [
    launch(211, "0 processes", ["--num_processes", "0"], "num_processes", "0"),
    launch(211, "-1 processes", ["--num_processes", "-1"], "num_processes", "-1"),
    launch(211, "1,000,000 processes", ["--num_processes", "1000000"], "num_processes", "1000000"),
    launch(212, "more processes than cores", ["--num_processes", str(4 * CORES)], "cores", str(4 * CORES), code=DONE,
           command="check", although="the catalog itself asks for a warning: it is slow, not wrong"),
    launch(213, "a machine_rank of num_machines or more", ["--num_machines", "2", "--machine_rank", "2",
                                                           "--main_process_ip", "127.0.0.1"], "machine_rank", "2"),
    machines(213, "more copies of checkpoints than machines", [*at("127.0.0.1"), "--set", "checkpoint.replicas=3"],
             "checkpoint.replicas is 3", "num_machines is 2", "its own machine"),
    machines(213, "no copy of checkpoints", [*at("127.0.0.1"), "--set", "checkpoint.replicas=0"], "checkpoint.replicas",
             "0", "at least 1"),
    launch(213, "copies of checkpoints on one machine", ["--set", "checkpoint.replicas=2"], "checkpoint.replicas is 2",
           "num_machines is 1"),
    launch(213, "a rank of WORLD_SIZE or more, from a scheduler", [], "RANK", "5", environment={
        "RANK": "5", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}),
    Elsewhere(214, "network_test.Network.test_machine_twice"),
    machines(215, "no address of machine 0", ["--machine_rank", "0"], "main_process_ip"),
    machines(216, "every interface for an address", at("0.0.0.0"), "main_process_ip", "0.0.0.0"),
    machines(216, "every interface of IPv6", at("::"), "main_process_ip"),
    machines(216, "an address in an unknown zone", at("fe80::1%nosuch0"), "main_process_ip", "fe80::1%nosuch0",
             code=PEER),
    machines(216, "an invalid address", at("no such host"), "main_process_ip", code=PEER),
    machines(216, "port 0", at("127.0.0.1", "0"), "main_process_port", "0", "29500"),
    launch(216, "port 0 on one machine", at("127.0.0.1", "0"), "main_process_port: 0", code=DONE, command="explain",
           although="Accelerate uses it for any port, and one machine needs none"),
    machines(216, "port 99999", at("127.0.0.1", "99999"), "main_process_port", "99999"),
    machines(216, "text for a port", at("127.0.0.1", "abc"), "main_process_port", "abc"),
    machines(216, "an address of another machine", at("192.0.2.1"), "192.0.2.1", "main_process_ip", code=MACHINE),
    machines(217, "a privileged port", at("127.0.0.1", "81"), "127.0.0.1:81", code=MACHINE, before=as_nobody(),
             needs=low_ports_need_rights, prepare=lambda place: place.folder.chmod(0o777)),
    machines(218, "a port in use", taken_port, "the port is in use", "main_process_port", code=MACHINE),
    machines(219, "a missing interface", lambda place: at("127.0.0.1", str(free_port())), "GLOO_SOCKET_IFNAME",
             "nosuch0", environment={"GLOO_SOCKET_IFNAME": "nosuch0"}, code=MACHINE),
    launch(219, "a missing interface, on one machine", [], command="check", code=DONE,
           environment={"GLOO_SOCKET_IFNAME": "nosuch0"}, although="no traffic leaves the machine: ranks use its loopback"),
    secret(220, "no file", lambda path: None, "No such file"),
    secret(220, "an empty file", with_mode(0o600, ""), "empty"),
    secret(220, "a file of line ends", with_mode(0o600, "\n\n"), "empty"),
    secret(220, "a file that everybody can read", with_mode(0o644), "chmod", silent=("open sesame",)),
    secret(220, "1 MB", with_mode(0o600, "x" * 1_000_000), "1000000"),
    secret(220, "a named pipe", lambda path: os.mkfifo(path, 0o600), "not a regular file"),
    machines(220, "an encrypted transport without a secret",
             lambda place: [*at("127.0.0.1", str(free_port())), "--set", "training.gloo_transport=tls"],
             "training.gloo_transport is tls", "no secret", "--new_secret", "gloo_transport: tcp"),
    machines(220, "an unknown transport", [*at("127.0.0.1"), "--set", "training.gloo_transport=ssl"],
             "training.gloo_transport", "ssl", "tls, authenticated, tcp"),
    NotHere(221, "there are no host files: every machine is started with its number; deepspeed_hostfile is reported to "
                 "have no effect"),
    environment(222, "the variables of another launcher, which disagree", {"RANK": "1", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}, "RANK", "WORLD_SIZE"),
    environment(222, "a number of ranks that is not a number", {"RANK": "0", "WORLD_SIZE": "many", "LOCAL_RANK": "0",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}, "WORLD_SIZE", "many"),
    environment(222, "ranks that machines can't divide equally", {"RANK": "0", "WORLD_SIZE": "3", "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}, "WORLD_SIZE", "same number"),
    mlflow(222, "no MLflow server", {}, "MLFLOW_TRACKING_URI", "http://127.0.0.1:5000"),
    mlflow(222, "an MLflow folder", {"MLFLOW_TRACKING_URI": "file:///tmp/runs"}, "MLFLOW_TRACKING_URI", "http://"),
    mlflow(222, "MLflow's tags that are no object", {"MLFLOW_TRACKING_URI": "https://me:hunter2@example.org",
           "MLFLOW_TAGS": "[1]"}, "MLFLOW_TAGS", silent=("hunter2",)),
    environment(223, "invalid devices, which a run on the CPU does not use", {"CUDA_VISIBLE_DEVICES": "rubbish"},
                code=DONE, command="check", although="it is not read: the run is on the CPU"),
    Elsewhere(224, "network_test.Network.test_of_another_run"),
    Elsewhere(225, "network_test.Network.test_strangers"),
    Elsewhere(226, "network_test.Network.test_strangers"),
    Elsewhere(227, "network_test.Network.test_strangers"),
    Elsewhere(228, "network_test.Network.test_strangers"),
    Elsewhere(229, "network_test.Network.test_strangers"),
]
