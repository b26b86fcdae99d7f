// The sections of the configuration file as plain structs. The initializers are the defaults; the tables in
// engine/config/tables/ define everything else about each option (help, choices, ranges, aliases, questions).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/optimizers.h"

namespace trainer::config {

/// kDeepspeed and kMegatronLm occur only in files: engine/config/translate replaces them in a plan.
enum class DistributedType { kNo, kMultiCpu, kMultiGpu, kFsdp, kDeepspeed, kMegatronLm, kDataParallel };
enum class MixedPrecision { kNo, kBf16, kFp16 };
enum class MatmulPrecision { kHighest, kHigh, kMedium };
enum class ShardingStrategy { kFullShard, kShardGradOp, kNoShard, kHybridShard, kHybridShardZero2 };
enum class WrapPolicy { kTransformerBased, kSizeBased, kNoWrap };
enum class BackwardPrefetch { kPre, kPost, kNone };
enum class StateDictType { kFull, kLocal, kSharded };
enum class Task { kCausalLm, kSeq2SeqLm, kSequenceClassification, kImageClassification };
enum class DataFormat { kAuto, kDelimited, kCsv, kTsv, kJson, kJsonl, kText, kParquet, kMnist, kMegatron };
enum class SampleBy { kLine, kParagraph, kDocument };
enum class OnBadSample { kError, kSkip };
/// Which records data.max_samples uses: those at the beginning, or some drawn from all of them.
enum class RecordChoice { kFirst, kRandom };
enum class TooLong { kCut, kDrop, kError };
/// Dialogue format of a record; kNone: not a dialogue, but a source and a target.
enum class Dialogue { kNone, kMessages, kShareGpt, kAlpaca, kPrompt, kPlay };
/// Which part of a causal sample is learned.
enum class Learn { kAll, kAssistant, kLastTurn };
enum class Schedule {
  kLinear,
  kCosine,
  kConstant,
  kConstantWithWarmup,
  kCosineWithRestarts,
  kCosineWithMinLr,
  kPolynomial,
  kInverseSqrt,
  kWarmupStableDecay,
  // DeepSpeed's
  kWarmupLr,
  kWarmupDecayLr,
  kWarmupCosineLr
};
enum class DdpBackend { kGloo, kMpi, kNccl };
enum class GlooTransport { kTls, kAuthenticated, kTcp };
/// What happens to a run when a loss or a gradient is not plausible.
enum class OnDivergence { kStop, kSkip, kRollback };
/// When checkpoints are saved: every save_steps updates, after each epoch, after an evaluation that is the best so far,
/// or only at the end.
enum class SaveStrategy { kSteps, kEpoch, kBest, kNo };
/// Compression of gradients between ranks: none, 16 bits, or low-rank products of two matrices.
enum class CommHook { kNo, kFp16, kBf16, kPowerSgd, kBatchedPowerSgd };
/// The losses of pairs (models/nn/preference_loss.h).
enum class PreferenceLoss { kSigmoid, kRobust, kHinge, kIpo, kSigmoidNorm };
enum class LoraBias { kNone, kAll, kLoraOnly };

/// `fsdp_config`: how parameters, gradients and optimizer state are sharded over ranks.
struct FsdpConfig {
  int64_t version = 1;
  ShardingStrategy sharding_strategy = ShardingStrategy::kFullShard;
  WrapPolicy auto_wrap_policy = WrapPolicy::kTransformerBased;
  std::vector<std::string> transformer_layer_cls_to_wrap;  // empty: the model's block class
  int64_t min_num_params = 100'000'000;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPre;
  bool forward_prefetch = false;
  StateDictType state_dict_type = StateDictType::kFull;
  bool offload_params = false;
  bool offload_pin_memory = true;
  bool use_orig_params = true;
  bool cpu_ram_efficient_loading = true;
  bool sync_module_states = true;
  bool activation_checkpointing = false;
  std::string reduce_dtype = "float32";  // of the gradient reduction
};

/// A value, or "auto": derived from other options.
template <class T>
struct Auto {
  bool given = false;
  T value{};
};

/// `deepspeed_config`: Accelerate's keys for DeepSpeed, which translate_deepspeed converts to our options.
struct DeepspeedConfig {
  std::string config_file;  // a ds_config.json
  int64_t zero_stage = 2;
  std::string offload_optimizer_device = "none";  // none | cpu | nvme
  std::string offload_param_device = "none";
  std::string offload_optimizer_nvme_path;
  std::string offload_param_nvme_path;
  Auto<int64_t> gradient_accumulation_steps;
  Auto<double> gradient_clipping;
  bool zero3_init_flag = false;
  bool zero3_save_16bit_model = false;
  std::vector<std::string> moe_layer_cls_names;
  std::string multinode_launcher = "pdsh";
  std::string hostfile;
  std::string exclusion_filter;
  std::string inclusion_filter;
};

/// `megatron_lm_config`: Accelerate's keys for Megatron-LM, which translate_megatron converts to our options.
struct MegatronConfig {
  int64_t tp_degree = 1;
  int64_t pp_degree = 1;
  int64_t num_micro_batches = 1;
  bool sequence_parallelism = false;
  bool recompute_activations = false;
  bool use_distributed_optimizer = false;
  double gradient_clipping = 1.0;  // 0: none
};

/// `parallelism_config`: ranks along each axis of the mesh; their product is num_processes.
struct ParallelismConfig {
  int64_t dp_replicate_size = 1;
  int64_t dp_shard_size = 1;
  int64_t tp_size = 1;
  int64_t cp_size = 1;
  int64_t sp_size = 1;
  // Ours: Accelerate has pipelines under megatron_lm_config only.
  int64_t pp_size = 1;
  int64_t pp_chunks = 1;              // model chunks per stage
  int64_t pp_last_blocks = 0;         // of the last stage; 0: as many as in the others
  bool tp_sequence_parallel = false;  // also split the activations between layers
  std::string cp_comm_strategy = "allgather";
};

/// `model.quantization_config`: transformers' BitsAndBytesConfig, same names and defaults.
struct QuantizationConfig {
  bool load_in_4bit = false;
  std::string bnb_4bit_quant_type = "fp4";  // nf4 | fp4
  bool bnb_4bit_use_double_quant = false;
  std::string bnb_4bit_compute_dtype;              // "": that of mixed_precision
  std::vector<std::string> llm_int8_skip_modules;  // empty: the output head
};

/// `model`: a Hugging Face folder, or config.json's keys in place.
struct ModelConfig {
  std::string path;    // folder with config.json and weights
  std::string config;  // JSON text of `model.config`; "" when `path` is given
  std::string dtype = "auto";
  QuantizationConfig quantization_config;
};

/// `tokenizer`: where the tokenizer files are.
struct TokenizerConfig {
  std::string path;  // folder or spiece.model; "" means model.path
};

struct ValidationConfig {
  double fraction = 0.0;
  std::string path;
};

/// One source of samples.
struct DataSource {
  std::vector<std::string> path;  // files, folders, globs
  std::vector<double> weights;    // sampling weight of each `path`; empty: every sample once
  DataFormat format = DataFormat::kAuto;
  std::string delimiter = "@";
  std::string split_at = "last";  // first | last: the delimiter that splits a line
  SampleBy sample_by = SampleBy::kLine;  // of a text file
  std::vector<std::string> columns;
  std::string encoding = "utf-8";
  OnBadSample on_bad_sample = OnBadSample::kError;
  bool deduplicate = false;  // keeps only the first of identical records
};

/// `data.megatron`: how samples are cut from `.bin/.idx` files, by Megatron's names.
struct MegatronDataConfig {
  int64_t sequence_length = 1024;
  std::string split = "969,30,1";  // of training, validation and test
  int64_t eod_id = -1;             // the token between documents; -1: the tokenizer's end-of-sequence id
  bool eod_mask_loss = false;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
};

/// Of data.dialogue: prompt, unless data.source and data.target name others.
inline constexpr const char* kPromptColumn = "prompt";
inline constexpr const char* kCompletionColumn = "completion";
/// Of pairs (dpo): the replies, unless data.target and data.rejected name others.
inline constexpr const char* kChosenColumn = "chosen";
inline constexpr const char* kRejectedColumn = "rejected";

/// `data`: the samples, and how they are converted to model input.
struct DataConfig {
  Task task = Task::kSeq2SeqLm;
  DataSource train;
  ValidationConfig validation;
  std::string source = "source";  // a column, or a template "{sentence}"
  std::string target = "target";
  std::string rejected;  // of pairs: the rejected reply; "": the samples aren't pairs
  int64_t max_source_length = 512;
  int64_t max_target_length = 128;
  int64_t max_length = 1024;  // of a causal sample, or of a text to classify
  int64_t max_samples = 0;    // 0: all
  RecordChoice max_samples_choice = RecordChoice::kFirst;
  int64_t min_length = 1;  // tokens; shorter samples are dropped
  TooLong on_too_long = TooLong::kCut;
  bool group_texts = false;         // causal: concatenated texts, cut into samples of max_length
  std::vector<std::string> labels;  // class names; empty: those of the model, or of the samples, sorted
  Dialogue dialogue = Dialogue::kNone;
  std::string messages;       // the column with the turns; "": the format's usual name
  std::string system;         // a system message for dialogues that have none
  std::string character;      // plays: the speaker whose lines are learned
  std::string chat_template;  // "": the tokenizer's own; a file; or the name of a built-in one
  Learn learn = Learn::kAssistant;
  MegatronDataConfig megatron;
  int64_t preprocessing_num_workers = 0;  // tokenization threads; 0: all cores
  std::string cache_dir;                  // "": $XDG_CACHE_HOME/trainer/data
  double cache_max_gb = 0;                // of all token caches there; 0: any
  int64_t cache_max_days = 90;            // since a token cache was last used; 0: any
  bool packing = true;
  bool shuffle = true;
};

/// A list of names, or (exactly one string) a regular expression or "all-linear", as PEFT reads `target_modules`.
struct NamesOrPattern {
  std::vector<std::string> names;
  std::string pattern;
  bool empty() const { return names.empty() && pattern.empty(); }
};

/// `lora`: PEFT's LoraConfig, same names and defaults.
struct LoraConfig {
  std::string path;  // an adapter folder to start from
  std::string peft_type = "LORA";
  std::string task_type;  // "" or checked against data.task
  bool inference_mode = false;
  int64_t r = 8;
  double lora_alpha = 8;
  double lora_dropout = 0.0;
  NamesOrPattern target_modules;  // empty: the model type's default
  NamesOrPattern exclude_modules;
  std::vector<std::string> modules_to_save;
  LoraBias bias = LoraBias::kNone;
  bool use_rslora = false;
  bool fan_in_fan_out = false;
  std::string init_lora_weights = "true";  // true | false | gaussian | pissa | pissa_niter_N | olora
  bool use_dora = false;
  std::vector<int64_t> layers_to_transform;  // empty: all
  std::vector<std::string> layers_pattern;
  std::map<std::string, int64_t> rank_pattern;  // by a pattern of the layer's path
  std::map<std::string, double> alpha_pattern;
  // IA3
  NamesOrPattern feedforward_modules;  // empty: the model type's default
  bool init_ia3_weights = true;
  // VERA, LOHA
  bool init_weights = true;
  // VERA
  double vera_dropout = 0.0;
  double d_initial = 0.1;
  int64_t projection_prng_key = 0;
  bool save_projection = true;
  // LOHA
  double alpha = 8;
  double rank_dropout = 0.0;
  double module_dropout = 0.0;
  bool use_effective_conv2d = false;
  // PREFIX_TUNING, PROMPT_TUNING, P_TUNING
  int64_t num_virtual_tokens = 0;
  bool prefix_projection = false;
  int64_t encoder_hidden_size = 0;                      // 0: the model's width
  std::string encoder_reparameterization_type = "MLP";  // MLP | LSTM
  int64_t encoder_num_layers = 2;
  double encoder_dropout = 0.0;
  std::string prompt_tuning_init = "RANDOM";  // RANDOM | TEXT | SAMPLE_VOCAB
  std::string prompt_tuning_init_text;
};

/// `dpo`: the loss of TRL's DPOConfig, same names and defaults.
struct DpoConfig {
  PreferenceLoss loss_type = PreferenceLoss::kSigmoid;
  double beta = 0.1;
  double label_smoothing = 0;
  double rpo_alpha = 0;  // 0: no such term
};

/// `training.lr_scheduler_kwargs`: parameters of a schedule in addition to warmup_steps.
struct ScheduleConfig {
  double warmup_min_lr = 0;           // warmup_lr, warmup_decay_lr
  std::string warmup_type = "log";    // log | linear: DeepSpeed's schedules
  int64_t total_num_steps = 0;        // warmup_decay_lr, warmup_cosine_lr; 0: all updates of the run
  double warmup_min_ratio = 0;        // warmup_cosine_lr
  double cos_min_ratio = 1e-4;        // warmup_cosine_lr
  double num_cycles = 0;              // 0: the schedule's own default
  double lr_end = 1e-7;               // polynomial
  double power = 1.0;                 // polynomial
  int64_t timescale = 0;              // inverse_sqrt; 0: warmup_steps, or 10000
  double min_lr = -1;                 // cosine_with_min_lr; -1: not given
  double min_lr_rate = -1;            // cosine_with_min_lr; -1: not given
  int64_t num_decay_steps = -1;       // warmup_stable_decay; -1: not given
  int64_t num_stable_steps = -1;      // warmup_stable_decay; -1: the remaining ones
  std::string decay_type = "cosine";  // warmup_stable_decay: cosine | linear | 1-sqrt
  double min_lr_ratio = 0;            // warmup_stable_decay
};

/// `training.ddp_comm_state_option`: PowerSGD's, with torch's names and the defaults of its PowerSGDState.
struct PowerSgdConfig {
  int64_t matrix_approximation_rank = 1;
  int64_t start_power_sgd_iter = 1000;  // uncompressed updates before it starts
  double min_compression_rate = 2;      // a matrix that would shrink less is sent uncompressed
  bool use_error_feedback = true;       // adds the compression error to the next gradient
  bool warm_start = true;               // starts from the factors of the last update
  double orthogonalization_epsilon = 0;
  int64_t random_seed = 0;
};

/// `training.loss_scaling`: for mixed_precision fp16, with DeepSpeed's names and the defaults of torch.amp.GradScaler.
struct LossScalingConfig {
  int64_t initial_scale_power = 16;     // the scale starts at 2 to this power
  int64_t loss_scale_window = 2000;     // updates without an overflow after which the scale doubles
  int64_t hysteresis = 1;               // overflows after which the scale is halved
  bool consecutive_hysteresis = false;  // an update without an overflow resets their count
  double min_loss_scale = 1;
};

/// `training`: TrainingArguments' names and defaults.
struct TrainingConfig {
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 8;
  int64_t gradient_accumulation_steps = 1;
  int64_t global_batch_size = 0;  // 0: per_device_train_batch_size * gradient_accumulation_steps * ranks
  double num_train_epochs = 3.0;
  int64_t max_steps = -1;
  double learning_rate = 5e-5;
  Schedule lr_scheduler_type = Schedule::kLinear;
  ScheduleConfig lr_scheduler_kwargs;
  double warmup_steps = 0;  // below 1: a ratio of all updates
  double weight_decay = 0.0;
  double max_grad_norm = 1.0;  // 0: no clipping
  OptimizerName optim = OptimizerName::kAdamWFused;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double sgd_momentum = 0.0;
  std::string optim_args;        // "key=value, …": further arguments of the optimizer
  double loraplus_lr_ratio = 0;  // LoRA+: learning rate of B relative to A; 0: equal
  double label_smoothing_factor = 0;
  bool group_by_length = false;  // samples of similar length in one update
  bool auto_find_batch_size = false;
  int64_t max_tokens = 0;  // of a rank in one forward pass; 0: per_device_train_batch_size decides
  bool gradient_checkpointing = false;
  bool activation_offloading = false;  // the inputs of recomputed blocks wait in host memory
  bool dropout = true;                 // false: every dropout of the model is off
  bool tf32 = false;                   // fp32 matrix products of GPUs round their inputs to 10 bits
  MatmulPrecision float32_matmul_precision = MatmulPrecision::kHighest;
  bool cuda_graphs = false;            // passes of repeated shapes are recorded on GPUs and replayed
  DdpBackend ddp_backend = DdpBackend::kGloo;
  GlooTransport gloo_transport = GlooTransport::kTls;
  int64_t ddp_timeout = 1800;  // seconds
  CommHook ddp_comm_hook = CommHook::kNo;
  CommHook ddp_comm_wrapper = CommHook::kNo;
  PowerSgdConfig ddp_comm_state_option;
  double ddp_bucket_cap_mb = 25;
  int64_t local_sgd_steps = 0;  // local updates between averagings of the weights; 0: off
  LossScalingConfig loss_scaling;
  bool check_first_steps = true;
  OnDivergence on_divergence = OnDivergence::kStop;
  double loss_spike_deviations = 0;  // above the mean of the last losses; 0: only non-finite values diverge
  int64_t snapshot_steps = 100;      // for rollback
};

/// `checkpoint`: when to save, and where to resume.
struct CheckpointConfig {
  SaveStrategy save_strategy = SaveStrategy::kSteps;
  int64_t save_steps = 500;                     // 0: only at the end
  int64_t save_total_limit = 0;                 // 0: keep all
  std::string metric_for_best_model = "none";   // of the best checkpoint, which is kept
  bool load_best_model_at_end = false;          // the final model is the best checkpoint's
  bool async_save = false;                      // written while training goes on
  std::string on_error = "warn";                // warn | stop: what to do if a save fails
  int64_t replicas = 1;                         // copies of each checkpoint, on machines that share no folder
  std::string hash = "xxh3";                    // xxh3 | sha256
  std::string sign;                             // file of the private key that signs; "": none
  std::string trusted_key;                      // file of the public key that must have signed; "": any or none
  std::string resume_from_checkpoint = "auto";  // auto | true | false | a folder
  bool save_on_signal = true;
  double grace_seconds = 25;  // for stopping and saving
};

/// `evaluation`: what is measured on the validation samples.
struct EvaluationConfig {
  int64_t eval_steps = 0;                    // 0: at the end of each epoch when there are validation samples
  std::vector<std::string> metrics{"loss"};  // names of engine/base/metrics.h
  bool generate = false;
  int64_t max_new_tokens = 0;  // 0: data.max_target_length
  double temperature = 0;      // 0: always the most likely token
  int64_t top_k = 0;           // 0: all
  double top_p = 1;
  int64_t num_beams = 1;  // 1: no beam search
  double length_penalty = 1;
  int64_t show_predictions = 8;
  bool eval_on_start = false;
  double eval_delay = 0;                // updates, or epochs if eval_steps is 0
  int64_t early_stopping_patience = 0;  // 0: the run makes all its updates
  double early_stopping_threshold = 0;
};

/// `logging`.
struct LoggingConfig {
  int64_t logging_steps = 10;
  std::vector<std::string> report_to;
  int64_t histogram_steps = 0;  // between histograms of gradients and weights, for TensorBoard; 0: none
  int64_t metrics_port = 0;  // of the launcher's metrics page; 0: none
  std::string metrics_address = "127.0.0.1";
};

/// The whole file: Accelerate's keys at the top, our sections below them.
struct Config {
  std::string compute_environment = "LOCAL_MACHINE";
  DistributedType distributed_type = DistributedType::kNo;
  MixedPrecision mixed_precision = MixedPrecision::kNo;
  int64_t num_processes = 0;  // 0: not given
  int64_t num_machines = 1;
  int64_t min_machines = 0;  // a run with fewer stops; 0: num_machines
  int64_t machine_rank = 0;
  std::string main_process_ip;
  int64_t main_process_port = 0;
  int64_t max_restarts = 0;  // of all ranks, after a rank or a machine is lost
  bool use_cpu = false;
  std::vector<std::string> gpu_ids{"all"};  // CUDA's indices or names of the GPUs of each machine
  bool enable_cpu_affinity = false;         // ranks run on the NUMA node of their GPU
  std::vector<std::string> devices;         // DATA_PARALLEL: of the single process
  bool debug = false;
  int64_t num_cpu_threads_per_process = 0;  // 0: one
  FsdpConfig fsdp_config;
  std::optional<DeepspeedConfig> deepspeed_config;   // absent in a plan
  std::optional<MegatronConfig> megatron_lm_config;  // absent in a plan
  std::optional<ParallelismConfig> parallelism_config;

  int64_t seed = 42;
  bool deterministic = false;
  std::string output_dir = "trainer_output";
  ModelConfig model;
  TokenizerConfig tokenizer;
  DataConfig data;
  std::optional<LoraConfig> lora;  // absent: every weight is trained
  std::optional<DpoConfig> dpo;    // absent: the loss is the cross-entropy
  TrainingConfig training;
  CheckpointConfig checkpoint;
  EvaluationConfig evaluation;
  LoggingConfig logging;
};

}  // namespace trainer::config
