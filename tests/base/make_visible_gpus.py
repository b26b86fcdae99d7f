#!/usr/bin/env python3
"""Makes visible_gpus.txt: what torch (2.11.0), which repeats CUDA's reading, selects for values of CUDA_VISIBLE_DEVICES.

make_visible_gpus.py > visible_gpus.txt. A line is the value, a tab, and the numbers of the GPUs that it selects among
those of UUIDS. (torch doesn't read MIG names.)
"""

import os
import random

import torch

UUIDS = ["GPU-8a56f1c2-0001", "GPU-8a56f1c2-0002", "GPU-77d0aa10-0003", "GPU-c0ffee00-0004"]
ITEMS = ["0", "1", "2", "3", "4", "9", "-1", "", " 1", "2 ", "+3", "1gpu", "x", "NoDevFiles", "GPU-", "GPU-8", "GPU-7",
         "GPU-77d0", "GPU-c0ffee00-0004", "GPU-8a56f1c2-0001", "GPU-8a56f1c2-0002", "GPU-none", "gpu-77d0"]


def selected(value):
    os.environ["CUDA_VISIBLE_DEVICES"] = value
    found = torch.cuda._parse_visible_devices()
    if found and isinstance(found[0], str):
        return torch.cuda._transform_uuid_to_ordinals(found, UUIDS)
    end = next((at for at, number in enumerate(found) if number >= len(UUIDS)), len(found))
    return found[:end]


def main():
    draw = random.Random(17)
    values = ITEMS + [",".join(draw.choice(ITEMS) for _ in range(draw.randint(2, 4))) for _ in range(400)]
    values += [",".join(draw.sample(["0", "1", "2", "3"], draw.randint(1, 4))) for _ in range(20)]
    values += [",".join(draw.sample(["GPU-7", *UUIDS], draw.randint(1, 5))) for _ in range(40)]
    for value in dict.fromkeys(values):
        print(f"{value}\t{','.join(map(str, selected(value)))}")


if __name__ == "__main__":
    main()
