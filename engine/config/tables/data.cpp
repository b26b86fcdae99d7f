#include <algorithm>

#include "engine/config/tables.h"

namespace trainer::config {
namespace {

bool delimited(const Config& config) {
  return config.data.train.format == DataFormat::kDelimited;
}

}  // namespace

const Entries& source_table() {
  using C = DataSource;
  static const Entries entries = table<C>(
      option("path", &C::path)
          .help("A file, a folder, a glob, a dataset in the Hugging Face Hub's cache, or a list of them. Required.")
          .ask("Which file holds the training samples?")
          .path_or_hub_dataset(),
      option("weights", &C::weights)
          .help("Sampling weights of the mixture, one number for each `path`. Empty: every sample once per epoch."),
      option("format", &C::format)
          .help("File format of the samples; auto chooses by the file extension. parquet and arrow read both kinds of "
                "file.")
          .ask("In which format?"),
      option("delimiter", &C::delimiter)
          .help("Text that separates the columns of a delimited line.")
          .ask("What separates the columns of a line?")
          .when("data.train.format is delimited", delimited),
      option("split_at", &C::split_at)
          .help("Where a line with two columns and several delimiters is split: at the first or the last delimiter.")
          .one_of({"first", "last"})
          .when("data.train.format is delimited", delimited),
      option("sample_by", &C::sample_by)
          .help("What is a sample of a text file: a line, a paragraph, which ends at an empty line, or the whole "
                "document. As in the library datasets.")
          .ask("What is a sample: a line, a paragraph (up to an empty line) or the whole file?")
          .no_effect_if(
              [](const Config& c) {
                return c.data.train.format != DataFormat::kText && c.data.train.format != DataFormat::kAuto;
              },
              "only text files are divided into samples"),
      option("columns", &C::columns)
          .help("Column names of a file without a header. Default for delimited files: source and target.")
          .ask("What are the names of the columns? (empty: the file's)"),
      option("encoding", &C::encoding).help("Text encoding of the files.").one_of({"utf-8", "latin-1"}),
      option("on_bad_sample", &C::on_bad_sample)
          .help("What to do with an unusable record: error stops and reports file and line; skip drops it and reports "
                "the number of dropped records at the end."),
      option("deduplicate", &C::deduplicate).help("Keeps only the first of several records with identical columns."));
  return entries;
}

const Entries& megatron_data_table() {
  using C = MegatronDataConfig;
  static const Entries entries = table<C>(
      option("sequence_length", &C::sequence_length).help("Tokens per sample.").at_least(1),
      option("split", &C::split)
          .help("Proportions of training, validation and test documents, as in Megatron's --split."),
      option("eod_id", &C::eod_id)
          .help("Id of the token between documents. -1: the tokenizer's end-of-sequence token.")
          .at_least(-1),
      option("eod_mask_loss", &C::eod_mask_loss)
          .help(
              "Leaves the token after an end-of-document token, the first one of the next document, out of the loss."),
      option("reset_position_ids", &C::reset_position_ids)
          .help("Position ids restart at every document. Needs reset_attention_mask."),
      option("reset_attention_mask", &C::reset_attention_mask)
          .help("Tokens attend only to their own document. In this engine position ids restart with it too."));
  return entries;
}

const Entries& validation_table() {
  using C = ValidationConfig;
  static const Entries entries =
      table<C>(option("fraction", &C::fraction)
                   .help("Fraction of the training samples held out for validation. 0: none.")
                   .ask("Which fraction of the samples should be held out for validation?")
                   .at_least(0.0)
                   .below(1.0),
               option("path", &C::path)
                   .help("Separate files with validation samples, in the format of the training samples.")
                   .path_or_hub_dataset());
  return entries;
}

const Entries& data_table() {
  using C = DataConfig;
  auto seq2seq = [](const Config& c) { return c.data.task == Task::kSeq2SeqLm; };
  auto not_seq2seq = [](const Config& c) {
    return c.data.task == Task::kCausalLm || c.data.task == Task::kSequenceClassification;
  };
  auto causal = [](const Config& c) { return c.data.task == Task::kCausalLm; };
  auto classes = [](const Config& c) { return c.data.task == Task::kSequenceClassification; };
  auto dialogue = [](const Config& c) { return c.data.dialogue != Dialogue::kNone; };
  auto columns = [](const Config& c) {
    return c.data.dialogue == Dialogue::kNone || c.data.dialogue == Dialogue::kPrompt;
  };
  auto pairs = [](const Config& c) { return c.dpo.has_value(); };
  auto targets = [=](const Config& c) { return columns(c) || pairs(c); };
  auto chooses_turns = [=](const Config& c) { return dialogue(c) && !pairs(c); };
  auto limits_targets = [=](const Config& c) {
    const auto& metrics = c.evaluation.metrics;
    const bool generates =
        c.evaluation.generate || std::find(metrics.begin(), metrics.end(), "accuracy") != metrics.end();
    return seq2seq(c) || (generates && c.evaluation.max_new_tokens == 0);
  };
  auto play = [](const Config& c) { return c.data.dialogue == Dialogue::kPlay; };
  auto megatron = [](const Config& c) { return c.data.train.format == DataFormat::kMegatron; };
  auto not_megatron = [](const Config& c) { return c.data.train.format != DataFormat::kMegatron; };
  auto limited = [=](const Config& c) { return c.data.max_samples > 0 && not_megatron(c); };
  static const Entries ours = table<C>(
      option("task", &C::task).help("The task to train for."),
      section("train", &C::train, source_table()).help("The training samples."),
      section("validation", &C::validation, validation_table()).help("The validation samples."),
      option("source", &C::source)
          .help("The input: a column, or a template such as \"{sentence}\". Default: source for seq2seq_lm, prompt for "
                "data.dialogue: prompt and for pairs (dpo), otherwise text. Pairs in records without the column prompt "
                "have what both replies begin with as their prompt.")
          .ask("Which column is the input?")
          .when("data.dialogue is none or prompt", columns),
      option("target", &C::target)
          .help("The text or label to predict: a column, or a template. Default: target for seq2seq_lm, label for "
                "sequence_classification, completion for data.dialogue: prompt, chosen for pairs (dpo), otherwise none "
                "for causal_lm, which learns all of the source.")
          .ask("Which column should be predicted?")
          .when("data.dialogue is none or prompt, or dpo is given", targets),
      option("rejected", &C::rejected)
          .help("Of a pair, the reply that is worse than data.target: a column, or a template. Default: rejected.")
          .ask("Which column is the rejected reply?")
          .when("dpo is given", pairs),
      option("max_source_length", &C::max_source_length)
          .help("Maximum tokens of an input; longer ones are truncated.")
          .at_least(1)
          .when("data.task is seq2seq_lm", seq2seq),
      option("max_target_length", &C::max_target_length)
          .help("Maximum tokens of a target; longer ones are truncated. Also limits generated texts if "
                "evaluation.max_new_tokens is 0.")
          .at_least(1)
          .when("data.task is seq2seq_lm, or evaluation generates with max_new_tokens 0", limits_targets),
      option("max_length", &C::max_length)
          .help("Maximum tokens per sample: the whole of it, so for causal_lm input and output together, with the chat "
                "template's tokens. Trainers that call it max_seq_length mean the same. At most the model's positions.")
          .at_least(1)
          .when("data.task is causal_lm or sequence_classification", not_seq2seq),
      option("max_samples", &C::max_samples)
          .help("Uses only this many records for training and data.validation.fraction. 0: all.")
          .at_least(0)
          .when("data.train.format is not megatron", not_megatron),
      option("max_samples_choice", &C::max_samples_choice)
          .help(
              "Which ones: first, those at the beginning of the files; or random, drawn from all of them by seed: the "
              "same ones on any number of ranks, and after a resume.")
          .when("data.max_samples is above 0", limited),
      option("min_length", &C::min_length).help("Samples with fewer tokens are dropped.").at_least(0),
      option("on_too_long", &C::on_too_long)
          .help("What to do with a sample that exceeds its maximum length: cut truncates it, drop leaves it out, error "
                "stops and reports file and line."),
      option("group_texts", &C::group_texts)
          .help("Concatenates texts, each followed by the end-of-sequence token, and cuts the result into samples of "
                "max_length tokens, for pre-training: a sample can begin and end inside a text, and hold several. "
                "false: each text is a sample of its own, and one longer than max_length follows on_too_long.")
          .ask("Should the texts be joined and cut into samples of equal length?")
          .when("data.task is causal_lm", causal),
      option("labels", &C::labels)
          .help("Class names, in the order of their ids. Empty: those of the checkpoint or the model's config.json, "
                "otherwise those in the samples, sorted (integers numerically).")
          .when("data.task is sequence_classification", classes),
      option("dialogue", &C::dialogue)
          .help("Dialogue format of the records: messages (role and content), sharegpt (from and value), alpaca "
                "(instruction, input, output), prompt (the columns or templates data.source and data.target), or play "
                "(SPEAKER: lines of a text).")
          .ask("Which dialogue format do the records have? (none: plain text)")
          .when("data.task is causal_lm", causal),
      option("messages", &C::messages)
          .help(
              "Column with the turns, of pairs (dpo) with those before the replies. Empty: messages or conversations; "
              "for pairs prompt, if it is a list of turns, else those with which both replies begin.")
          .when("data.dialogue is given", dialogue),
      option("system", &C::system)
          .help("A system message for dialogues that have none, neither as a turn nor in the column system.")
          .when("data.dialogue is given", dialogue),
      option("character", &C::character)
          .help("Speaker whose lines are learned. Empty: all speakers.")
          .ask("Which character's lines should be learned? (empty: all of them)")
          .when("data.dialogue is play", play),
      option("chat_template", &C::chat_template)
          .help(
              "Template that turns a dialogue into text: a built-in one, or one in Jinja. Empty: the tokenizer's own.")
          .ask("Which chat template? (the tokenizer has none)")
          .one_of({"", "chatml", "llama2", "llama3", "mistral", "alpaca"}, "a file with a template, or its text")
          .path()
          .when("data.dialogue is given", dialogue),
      option("learn", &C::learn)
          .help("Turns that contribute to the loss: the assistant's, all, or only the last one. each_turn: as assistant, "
                "in a sample of its own for each reply, for templates that print earlier replies differently (Qwen3's). "
                "Of pairs (dpo), all of the replies does.")
          .when("data.dialogue is given and dpo isn't", chooses_turns),
      section("megatron", &C::megatron, megatron_data_table())
          .help("How samples are cut from .bin and .idx files.")
          .when("data.train.format is megatron", megatron),
      option("preprocessing_num_workers", &C::preprocessing_num_workers)
          .help("Tokenization threads. 0: one per core.")
          .at_least(0),
      option("cache_dir", &C::cache_dir)
          .help("Folder of the token cache, which later runs reuse. Empty: $XDG_CACHE_HOME/trainer/data, else "
                "~/.cache/trainer/data.")
          .path(),
      option("cache_max_gb", &C::cache_max_gb)
          .help("After tokenizing, the least recently used token caches are removed until all together have at most "
                "this many GB, except those that a run opened within the last hour. 0: any size.")
          .at_least(0.0),
      option("cache_max_days", &C::cache_max_days)
          .help("After tokenizing, token caches that no run has opened for this many days are removed. 0: none.")
          .at_least(0)
          .at_most(100'000),
      option("packing", &C::packing)
          .help("Packs the samples of an update back to back instead of padding them. It changes no sample: attention "
                "and positions restart at each one, and the update has as many samples as without it. What other "
                "trainers call packing, samples of "
                "several texts, is group_texts.")
          .harmless({"true"})
          .no_effect("samples are never padded"),
      option("shuffle", &C::shuffle)
          .help("Shuffles the samples every epoch, from seed. false: the order of the files."),
      unsupported("max_seq_length", "use data.max_length"));
  static const Entries entries = joined({ours, sft_keys()});
  return entries;
}

}  // namespace trainer::config
