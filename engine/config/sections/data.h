// The section `data`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::config {

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
enum class Learn { kAll, kAssistant, kLastTurn, kEachTurn };

/// Of data.dialogue: prompt, unless data.source and data.target name others.
inline constexpr const char* kPromptColumn = "prompt";
inline constexpr const char* kCompletionColumn = "completion";
/// Of pairs (dpo): the replies, unless data.target and data.rejected name others.
inline constexpr const char* kChosenColumn = "chosen";
inline constexpr const char* kRejectedColumn = "rejected";

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
  std::string split_at = "last";         // first | last: the delimiter that splits a line
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

}  // namespace trainer::config
