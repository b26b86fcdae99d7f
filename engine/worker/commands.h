// The commands of trainer-worker, one function each. Users call them through `trainer`.
#pragma once

#include <string>
#include <vector>

namespace trainer::worker {

/// `rank [LAST_STEP]`: one rank of a run, or of a replay that ends after an update; started by the supervisor. Returns
/// the exit code and never throws: failures go to the supervisor.
int rank_command(const std::vector<std::string>& args);

/// `profile [--warmup N] [--steps N] [--trace FILE] [--json]`: one rank of a run that ends after train::profile(),
/// which rank 0 prints; started by the supervisor. As rank_command otherwise.
int profile_command(const std::vector<std::string>& args);

/// `selftest all|pairwise|random|resume|resume-all|configuration|configuration-silently SEED COUNT NAME`: one rank of a
/// self-test; started by the supervisor, like a rank of a run. COUNT cases drawn by SEED (0: all) whose name contains
/// NAME. Rank 0 prints the table. Returns 0 when every case passes, kInternalFailure otherwise.
int selftest_command(const std::vector<std::string>& args);

/// `check [--json] [--gpu_memory N|CARD] [--device CARD [--net BANDWIDTH]]`: reads everything a run would read, for the
/// plan on the file descriptor TRAINER_PLAN_FD, and prints what it would do (engine/train/check/check_report.h).
/// Nothing is written. Errors: those of the plan's inputs; ConfigError when a rank needs more than its GPU has.
int check_command(const std::vector<std::string>& args);

/// `fit BYTES`: checks that each rank of the plan on TRAINER_PLAN_FD fits into that much GPU memory; under
/// auto_find_batch_size, with a batch of one sample. The samples must be prepared. If the check fails, the reason goes
/// to standard output.
int fit_command(const std::vector<std::string>& args);

/// `describe-model FOLDER|CONFIG_JSON [TASK]`: train::describe_model().
int describe_model_command(const std::vector<std::string>& args);

/// `estimate-memory --config_json FILE --name MODEL [--task TASK] [--dtype D]... [--lora R] [--target T]...
/// [--num_processes N] [--batch_size B] [--sequence_length L] [--gradient_checkpointing] [--cpu] [--json]`: prints
/// train::estimate_memory().
int estimate_memory_command(const std::vector<std::string>& args);

/// `export-checkpoint SOURCE FOLDER [TENSOR PIPELINE]`: checkpoint::export_checkpoint(), or export_megatron() for that
/// many ranks.
int export_checkpoint_command(const std::vector<std::string>& args);

/// `export SOURCE OUTPUT [--gguf TYPE] [--base MODEL] [--merge] [--dtype NAME] [--json]`:
/// train::export_for_others().
int export_command(const std::vector<std::string>& args);

/// `eval --model TEXT [--predictions FILE] [--json] [--reference JSON]`: one rank of an evaluation of the plan's model
/// on its validation samples, of which rank 0 prints the result; started by the supervisor. As rank_command otherwise.
/// TEXT names the model in the result, JSON is the reference of pairs (config::to_json).
int evaluate_command(const std::vector<std::string>& args);

/// `generate REQUEST`: replies to prompts, as a config::GenerateRequest in JSON says.
int generate_command(const std::vector<std::string>& args);

/// `merge FOLDER ADAPTER... [--base MODEL] [--dtype NAME] [--verify] [--adapter_only] [--json] [--weight=W]...
/// [--combination NAME] [--rank R] [--density D] [--majority_sign NAME] [--seed S]`: train::merge_adapter(), with
/// weights or --adapter_only of what train::combine_adapters() makes; with --verify it also compares the logits.
int merge_command(const std::vector<std::string>& args);

/// `dump-logits --model FOLDER [--adapter FOLDER] [--task TASK] --samples FILE --output FILE`: the logits under teacher
/// forcing, for comparison with other programs. TASK: as data.task, seq2seq_lm by default. FILE: {"samples":
/// [{"source": [ids], "labels": [ids]}]}, labels only for seq2seq_lm. The output holds for each sample `logits_<i>`
/// [labels or source, vocabulary], for classifiers [1, classes].
int dump_logits_command(const std::vector<std::string>& args);

}  // namespace trainer::worker
