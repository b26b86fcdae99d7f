"""Asynchronous saving: the pause of training and the write speed, compared with dd and torch.distributed.checkpoint.

    cmake --build --preset release --target save_checkpoint
    python3 tools/bench/checkpoint.py --python /tmp/peer/bin/python --folder /a/disk --megabytes 600

Runs some saves of trainer, the same number of dd runs with the same number of bytes, and the same number of saves of
the peer, in turn. The result of each is the median without the first saves, which run cold code and touch memory for
the first time (a virtual machine takes seconds for that). Each save writes its file while the previous one still
exists, and then removes the previous one, like a run that keeps one checkpoint. The pause is the time that training
waits if the optimizer steps immediately; a forward and a backward pass in between would hide more of it. The peer is
torch.distributed.checkpoint.async_save with its own copying (--python: an environment with torch; skipped without it).
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

PEER = """
import json, os, shutil, sys, time, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
folder, size, saves = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
torch.set_num_threads(1)
width = 1024
state = {f"{kind}.{i}": torch.ones(width, width) for i in range(size // (12 * width * width)) for kind in "wmv"}
for step in range(saves):
    start = time.perf_counter()
    future = dcp.async_save(state, checkpoint_id=f"{folder}/peer-{step}")
    pause = time.perf_counter() - start
    future.result()
    if step > 0:
        shutil.rmtree(f"{folder}/peer-{step - 1}")
    print(json.dumps({"pause": pause, "total": time.perf_counter() - start}), flush=True)
"""
SAVES, COLD = 6, 2


def dd(folder, size):
    """Median seconds of one save."""
    seconds = []
    for save in range(SAVES):
        start = time.perf_counter()
        subprocess.run(["dd", "if=/dev/zero", f"of={folder}/dd-{save}", "bs=1M", f"count={size >> 20}", "conv=fsync"],
                       check=True, capture_output=True)
        if save > 0:
            (folder / f"dd-{save - 1}").unlink()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[COLD:])


def middle_of(saves, key):
    return statistics.median(save[key] for save in saves[COLD:])


def lines(command):
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--python", help="the peer's interpreter")
    parser.add_argument("--folder", type=pathlib.Path, help="a folder on the disk to measure")
    parser.add_argument("--megabytes", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    program = next(options.build.rglob("save_checkpoint"))
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        for number in range(options.rounds):
            ours = lines([program, folder, str(options.megabytes), str(SAVES)])
            size = ours[0]["bytes"]
            row = {"size": size, **{f"our {key}": middle_of(ours, key) for key in ("copy", "pause", "total")}}
            row["dd"] = dd(folder, size)
            if options.python:
                peer = lines([options.python, "-c", PEER, folder, str(size), str(SAVES)])
                row.update({f"peer {key}": middle_of(peer, key) for key in ("pause", "total")})
            for left in folder.iterdir():
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
            rows.append(row)
            print(f"round {number + 1}: " + ", ".join(f"{key} {value:.3f} s" for key, value in row.items() if key != "size"))
    middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
    print(f"{middle['size'] / 2**20:.0f} MiB, medians of {options.rounds}:")
    print(f"  pause / memcpy      {statistics.median(r['our pause'] / r['our copy'] for r in rows):.2f}")
    print(f"  bytes/s / dd's      {statistics.median(r['dd'] / r['our total'] for r in rows):.2f}")
    if options.python:
        print(f"  pause / DCP's       {statistics.median(r['our pause'] / r['peer pause'] for r in rows):.2f}")
        print(f"  total / DCP's       {statistics.median(r['our total'] / r['peer total'] for r in rows):.2f}")


if __name__ == "__main__":
    main()
