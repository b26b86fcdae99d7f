"""Measures what shared memory saves over Gloo between the ranks of one machine: pairs of runs with and without it.

TRAINER_SHARE_MEMORY=0 makes the ranks of one machine use Gloo over the loopback interface. Prints the milliseconds of an
update and the processor seconds of the run, and the ratio pair by pair. Uses the helpers of tests/end_to_end.
"""

import argparse
import os
import pathlib
import resource
import statistics

import watching

WARM_UP = 5  # updates that are not counted
SMALL = {"model_type": "t5", "vocab_size": 400, "d_model": 64, "d_kv": 16, "d_ff": 256, "num_layers": 2, "num_heads": 4,
         "dropout_rate": 0.1}
LARGE = {**SMALL, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 4, "num_heads": 8}
STRATEGIES = {
    "DDP": {"distributed_type": "MULTI_CPU"},
    "FSDP": {"distributed_type": "FSDP", "fsdp_config": {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                                                         "fsdp_transformer_layer_cls_to_wrap": "T5Block"}},
    "tensor parallel": {"distributed_type": "MULTI_CPU", "parallelism_config": {"parallelism_config_tp_size": 2}},
}


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=pathlib.Path, default=watching.ROOT / "build/release/bin/trainer")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    _, _, support = watching.load_helpers(arguments.trainer)
    print(f"{arguments.ranks} ranks, one thread each, full training, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with watching.Bench(support.EndToEnd) as test:
        for size, model in (("T5, width 64", SMALL), ("T5, width 512", LARGE)):
            for strategy, options in STRATEGIES.items():
                faster, cheaper, found = [], [], {}
                for pair in range(arguments.pairs):
                    for share in ("1", "0") if pair % 2 else ("0", "1"):
                        os.environ["TRAINER_SHARE_MEMORY"] = share
                        name = f"{size}-{strategy}-{pair}-{share}".replace(" ", "-")
                        job = {"num_processes": arguments.ranks, "num_cpu_threads_per_process": 1,
                               "model": {"config": model}, "evaluation": None, "checkpoint": {"save_steps": 0},
                               "training": {"max_steps": WARM_UP + arguments.steps}}
                        before = processor_seconds()
                        test.launch(test.job(name, job, options))
                        lines = [line for line in support.read_lines(test.folder / name) if "step_seconds" in line]
                        seconds = statistics.median(line["step_seconds"] for line in lines[WARM_UP:])
                        found[share] = seconds, processor_seconds() - before
                    faster.append(found["0"][0] / found["1"][0])
                    cheaper.append(found["0"][1] / found["1"][1])
                print(f"{size}, {strategy}: an update over Gloo {1e3 * found['0'][0]:.1f} ms, in shared memory "
                      f"{1e3 * found['1'][0]:.1f} ms: {statistics.median(faster):.2f}x ({min(faster):.2f} to "
                      f"{max(faster):.2f}); processor time of the run {statistics.median(cheaper):.2f}x", flush=True)


if __name__ == "__main__":
    main()
