"""Writes what Seq2SeqTrainingArguments.to_json_string() gives for a usual program: every field, as people keep it.
version_4.json is made the same way with transformers 4.57.1.

pip install -r tests/golden/requirements.txt; python tests/config/training_arguments/make_json.py version_5.json
"""

import pathlib
import sys

import transformers

wanted = dict(output_dir="runs/classifier", run_name="classifier", report_to=["tensorboard"],
              per_device_train_batch_size=16, gradient_accumulation_steps=2, learning_rate=2e-5, num_train_epochs=4,
              weight_decay=0.01, lr_scheduler_type="cosine", warmup_steps=50, seed=7, eval_strategy="steps", eval_steps=100,
              save_strategy="steps", save_steps=100, save_total_limit=2, load_best_model_at_end=True,
              metric_for_best_model="accuracy", greater_is_better=True, logging_steps=25, use_cpu=True,
              predict_with_generate=True, generation_num_beams=4, generation_max_length=32)
if transformers.__version__.startswith("4."):
    wanted["logging_dir"] = "runs/classifier/logs"  # by default, it has the name of the machine
arguments = transformers.Seq2SeqTrainingArguments(**wanted)
(pathlib.Path(__file__).parent / sys.argv[1]).write_text(arguments.to_json_string() + "\n")
