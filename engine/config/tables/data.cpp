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
      option("encoding", &C::encoding).help("Encoding of the text.").one_of({"utf-8", "latin-1"}));
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
  static const Entries entries = table<C>(
      option("task", &C::task).help("What a sample is.").supported({Task::kSeq2SeqLm}),
      section("train", &C::train, source_table()).help("The training samples."),
      section("validation", &C::validation, validation_table()).help("The validation samples."),
      option("source", &C::source)
          .help("The input: a column, or a template such as \"{sentence}\".")
          .ask("Which column is the input?"),
      option("target", &C::target)
          .help("What is to be predicted: a column, or a template.")
          .ask("Which column is to be predicted?"),
      option("max_source_length", &C::max_source_length).help("Tokens of an input; longer ones are cut.").at_least(1),
      option("max_target_length", &C::max_target_length).help("Tokens of a target; longer ones are cut.").at_least(1),
      option("max_samples", &C::max_samples).help("Uses only the first samples. 0: all.").at_least(0),
      option("packing", &C::packing)
          .help("Lays samples one behind the other instead of padding them.")
          .harmless({"true"})
          .no_effect("nothing is ever padded"),
      option("shuffle", &C::shuffle).help("A new order every epoch, from seed. false: the file's order."));
  return entries;
}

}  // namespace trainer::config
