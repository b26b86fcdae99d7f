"""Lines 230 to 234 of the catalog: the files that `trainer convert` reads, and the one it writes."""

from case import CONFIGURATION, MACHINE, Case, as_nobody, can_be_nobody

AXOLOTL = "base_model: org/model\nmicro_batch_size: 1\n"


def convert(line, what, text, *says, name="theirs.yaml", arguments=("-o", "new.yaml"), prepare=lambda place: None, **more):
    def make(place):
        if text is not None:
            place.write(name, text)
        prepare(place)
        return ["convert", name, *arguments]
    return Case(line, what, make, more.pop("code", CONFIGURATION), says, **more)


def read_only(place):
    (place.folder / "fixed").mkdir()
    (place.folder / "fixed").chmod(0o555)


LINES = [
    convert(230, "a file that is missing", None, "theirs.yaml"),
    convert(230, "a folder", None, "theirs.yaml", prepare=lambda place: (place.folder / "theirs.yaml").mkdir()),
    convert(230, "an empty file", "", "theirs.yaml"),
    convert(230, "a file that is not text", b"\x89PNG\r\n\x1a\n\0\0", "theirs.yaml"),
    convert(231, "a file of Accelerate", "distributed_type: FSDP\nnum_processes: 2\n", "none of the files", "base_model",
            "model_name_or_path"),
    convert(231, "a config.json", '{"model_type": "llama", "hidden_size": 8}', "none of the files", name="config.json"),
    convert(231, "a list", "- a\n- b\n", "key: value"),
    convert(231, "a dialect that is misspelled", AXOLOTL, "did you mean 'axolotl'", arguments=("--from", "axolot")),
    convert(231, "keys of LLaMA-Factory and of TRL", "model_name_or_path: m\nstage: sft\ndataset_name: d\n", "(stage)",
            "(dataset_name)", "--from"),
    convert(231, "a file of TRL that could be for two commands", "model_name_or_path: m\ndataset_name: d\n", "dataset_name",
            "--from trl_sft or --from trl_dpo"),
    convert(232, "broken YAML", AXOLOTL + "datasets: [{path: a\n", "theirs.yaml:3"),
    convert(232, "broken JSON", '{"learning_rate": 1e-4,, "bf16": true}', "theirs.json:1", name="theirs.json"),
    convert(232, "a key twice", AXOLOTL + "lora_r: 8\nlora_r: 16\n", "theirs.yaml:4", "lora_r"),
    convert(233, "values of the wrong type, all at once",
            AXOLOTL + "num_epochs: many\nload_in_4bit: perhaps\nsequence_len: long\nrl: kto\ndatasets: 5\n",
            "theirs.yaml:3:13", "theirs.yaml:4:15", "theirs.yaml:5:15", "theirs.yaml:6:5", "theirs.yaml:7:11",
            most_lines=20),
    convert(233, "a data set that is not a group", AXOLOTL + "datasets: [a, b]\n", "datasets[0]", "datasets[1]", most_lines=8),
    convert(233, "an adapter that is a list", AXOLOTL + "adapter: [lora]\n", "theirs.yaml:3", "adapter"),
    convert(233, "a learning rate that is negative", AXOLOTL + "learning_rate: -1\n", "learning_rate", "at least 0"),
    convert(234, "an output file that exists", AXOLOTL, "new.yaml", "--overwrite",
            prepare=lambda place: place.write("new.yaml", "mine")),
    convert(234, "an output file that is a folder", AXOLOTL, "new.yaml", arguments=("-o", "new.yaml", "--overwrite"),
            code=MACHINE, prepare=lambda place: (place.folder / "new.yaml").mkdir()),
    convert(234, "a folder that is read-only", AXOLOTL, "fixed", arguments=("-o", "fixed/new.yaml"), code=MACHINE,
            prepare=read_only, before=as_nobody(), needs=can_be_nobody),
]
