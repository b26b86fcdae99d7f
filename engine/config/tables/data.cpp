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
          .help("A file, a folder, a glob, or a list of them. Required.")
          .ask("Which file holds the training samples?")
          .path(),
      option("weights", &C::weights)
          .help("How often the samples of each `path` are drawn, in proportion: one number for each. Empty: every "
                "sample once an epoch."),
      option("format", &C::format)
          .help("How samples stand in the file; auto goes by the ending of its name.")
          .ask("In which format?"),
      option("delimiter", &C::delimiter)
          .help("What divides the columns of a delimited line.")
          .ask("What divides the columns of a line?")
          .when("data.train.format is delimited", delimited),
      option("split_at", &C::split_at)
          .help("Which of several delimiters divides a line of two columns.")
          .one_of({"first", "last"})
          .when("data.train.format is delimited", delimited),
      option("columns", &C::columns)
          .help("Names of the columns of a file without a header; of a delimited one source and target if not given.")
          .ask("What are the names of the columns, separated by commas? (empty: the file's own)"),
      option("encoding", &C::encoding).help("Encoding of the text.").one_of({"utf-8", "latin-1"}),
      option("on_bad_sample", &C::on_bad_sample)
          .help("What becomes of a record that can't be used: error stops with file and line; skip leaves it out and "
                "says at the end how many there were."),
      option("deduplicate", &C::deduplicate).help("Of records with the same columns only the first is kept."));
  return entries;
}

const Entries& megatron_data_table() {
  using C = MegatronDataConfig;
  static const Entries entries = table<C>(
      option("sequence_length", &C::sequence_length).help("Tokens of a sample.").at_least(1),
      option("split", &C::split).help("Proportions of training, validation and test documents, as Megatron's --split."),
      option("eod_id", &C::eod_id)
          .help("The token between documents. -1: the tokenizer's end-of-sequence token.")
          .at_least(-1),
      option("eod_mask_loss", &C::eod_mask_loss)
          .help("What follows the token between documents, the first of another one, is not learnt."),
      option("reset_position_ids", &C::reset_position_ids)
          .help("Positions start again with every document. Needs reset_attention_mask."),
      option("reset_attention_mask", &C::reset_attention_mask)
          .help("Tokens see only their own document. Here positions start again with it too."));
  return entries;
}

const Entries& validation_table() {
  using C = ValidationConfig;
  static const Entries entries = table<C>(
      option("fraction", &C::fraction)
          .help("Part of the training samples that is kept for validation. 0: none.")
          .ask("Which fraction of the samples should be kept for validation?")
          .at_least(0.0)
          .below(1.0),
      option("path", &C::path).help("Validation samples of their own, in the format of the training ones.").path());
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
  auto plain_text = [](const Config& c) { return c.data.dialogue == Dialogue::kNone; };
  auto limits_targets = [=](const Config& c) {
    const auto& metrics = c.evaluation.metrics;
    const bool generates =
        c.evaluation.generate || std::find(metrics.begin(), metrics.end(), "accuracy") != metrics.end();
    return seq2seq(c) || (generates && c.evaluation.max_new_tokens == 0);
  };
  auto play = [](const Config& c) { return c.data.dialogue == Dialogue::kPlay; };
  auto megatron = [](const Config& c) { return c.data.train.format == DataFormat::kMegatron; };
  static const Entries entries = table<C>(
      option("task", &C::task).help("What a sample is."),
      section("train", &C::train, source_table()).help("The training samples."),
      section("validation", &C::validation, validation_table()).help("The validation samples."),
      option("source", &C::source)
          .help("The input: a column, or a template such as \"{sentence}\". Where it is not given: source for "
                "seq2seq_lm, else text.")
          .ask("Which column is the input?")
          .when("data.dialogue is none", plain_text),
      option("target", &C::target)
          .help("What is to be predicted: a column, or a template. Where it is not given: target for seq2seq_lm, label "
                "for sequence_classification, and for causal_lm nothing: all of the source is learnt.")
          .ask("Which column is to be predicted?")
          .when("data.dialogue is none", plain_text),
      option("max_source_length", &C::max_source_length)
          .help("Tokens of an input; longer ones are cut.")
          .at_least(1)
          .when("data.task is seq2seq_lm", seq2seq),
      option("max_target_length", &C::max_target_length)
          .help("Tokens of a target; longer ones are cut. Also the limit of a generated text where "
                "evaluation.max_new_tokens is 0.")
          .at_least(1)
          .when("data.task is seq2seq_lm, or evaluation generates with max_new_tokens 0", limits_targets),
      option("max_length", &C::max_length)
          .help("Tokens of a sample.")
          .at_least(1)
          .when("data.task is causal_lm or sequence_classification", not_seq2seq),
      option("max_samples", &C::max_samples).help("Uses only the first samples. 0: all.").at_least(0),
      option("min_length", &C::min_length).help("Samples with fewer tokens are left out.").at_least(0),
      option("on_too_long", &C::on_too_long)
          .help(
              "What becomes of a sample with more tokens than it may have: cut shortens it, drop leaves it out, error "
              "stops with file and line."),
      option("group_texts", &C::group_texts)
          .help("Lays texts one behind the other and cuts them into samples of max_length tokens, for pre-training.")
          .when("data.task is causal_lm", causal),
      option("labels", &C::labels)
          .help("Names of the classes, in the order of their numbers. Empty: those of the checkpoint or the model's "
                "config.json, or else those in the samples, sorted: integers as numbers.")
          .when("data.task is sequence_classification", classes),
      option("dialogue", &C::dialogue)
          .help("How a record holds a dialogue: messages (role and content), sharegpt (from and value), alpaca "
                "(instruction, input, output), prompt (prompt, completion), or play (SPEAKER: lines of a text).")
          .ask("How does a record hold a dialogue? (none: it is plain text)")
          .when("data.task is causal_lm", causal),
      option("messages", &C::messages)
          .help("The column that holds the turns. Empty: messages or conversations.")
          .when("data.dialogue is given", dialogue),
      option("system", &C::system)
          .help("A system message for dialogues that have none.")
          .when("data.dialogue is given", dialogue),
      option("character", &C::character)
          .help("The speaker whose speeches are learnt. Empty: everyone's.")
          .when("data.dialogue is play", play),
      option("chat_template", &C::chat_template)
          .help("How a dialogue becomes text: a built-in template, or one in Jinja. Empty: the tokenizer's own.")
          .ask("Which chat template? (the tokenizer brings none)")
          .one_of({"", "chatml", "llama2", "llama3", "mistral", "alpaca"}, "a file with a template, or its text")
          .path()
          .when("data.dialogue is given", dialogue),
      option("learn", &C::learn)
          .help("Whose turns are in the loss: the assistant's, all, or the last one only.")
          .when("data.dialogue is given", dialogue),
      section("megatron", &C::megatron, megatron_data_table())
          .help("How samples are cut from .bin and .idx files.")
          .when("data.train.format is megatron", megatron),
      option("preprocessing_num_workers", &C::preprocessing_num_workers)
          .help("Threads that tokenise. 0: one for each core.")
          .at_least(0),
      option("cache_dir", &C::cache_dir)
          .help("Where tokenised samples are kept for the next run. Empty: $XDG_CACHE_HOME/trainer/data, else "
                "~/.cache/trainer/data.")
          .path(),
      option("packing", &C::packing)
          .help("Lays samples one behind the other instead of padding them.")
          .harmless({"true"})
          .no_effect("nothing is ever padded"),
      option("shuffle", &C::shuffle).help("A new order every epoch, from seed. false: the file's order."));
  return entries;
}

}  // namespace trainer::config
