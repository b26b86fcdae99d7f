#include "data/tokenize_command.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

#include <CLI/CLI.hpp>

#include "data/json_text.h"
#include "data/readers/readers.h"
#include "data/tokenizer.h"
#include "data/tokenizer_trainer.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  config::DataSource source;
  std::string output;
  TokenizerTraining training;
};

struct IdsArguments {
  std::string tokenizer, file;
  bool decode = false;
};

void add_train_options(CLI::App& app, TrainArguments& arguments) {
  static const std::map<std::string, config::DataFormat> kFormats = {
      {"auto", config::DataFormat::kAuto}, {"delimited", config::DataFormat::kDelimited},
      {"csv", config::DataFormat::kCsv},   {"tsv", config::DataFormat::kTsv},
      {"json", config::DataFormat::kJson}, {"jsonl", config::DataFormat::kJsonl},
      {"text", config::DataFormat::kText},
  };
  app.add_option("--input", arguments.source.path, "Files, folders or globs; the text of every column is learnt from")
      ->required();
  app.add_option("--output", arguments.output, "Folder for spiece.model and tokenizer_config.json")->required();
  app.add_option("--vocab_size", arguments.training.vocab_size, "At most so many pieces, without the extra ids")
      ->required()
      ->check(CLI::Range(4, 4'000'000));
  app.add_option("--model_type", arguments.training.model_type)
      ->check(CLI::IsMember({"unigram", "bpe"}))
      ->capture_default_str();
  app.add_option("--extra_ids", arguments.training.extra_ids, "T5's <extra_id_N> after the pieces")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  app.add_option("--format", arguments.source.format, "auto, delimited, csv, tsv, json, jsonl or text")
      ->transform(CLI::CheckedTransformer(kFormats).description(""));
  app.add_option("--delimiter", arguments.source.delimiter, "For --format delimited")->capture_default_str();
  app.add_option("--encoding", arguments.source.encoding)
      ->check(CLI::IsMember({"utf-8", "latin-1"}))
      ->capture_default_str();
}

void report(const TokenizerTraining& training, const std::string& path, size_t texts) {
  int64_t size = open_tokenizer({.path = path}, "")->size();
  int64_t pieces = size - training.extra_ids;
  fmt::print("{}: {} pieces and {} extra ids, learnt from {} texts. A model needs vocab_size {} or more.\n", path,
             pieces, training.extra_ids, texts, size);
  if (pieces < training.vocab_size) fmt::print("The texts do not hold {} pieces.\n", training.vocab_size);
}

void run_train(const TrainArguments& arguments) {
  fs::path output = arguments.output;
  check_writable(output);
  std::vector<std::string> texts;
  read_records(arguments.source, [&](Record&& record) {
    for (auto& [column, text] : record.fields) texts.push_back(std::move(text));
  });
  std::string model = train_tokenizer(texts, arguments.training);
  std::error_code error;
  fs::create_directories(output, error);
  if (error) throw machine_error("create", output, error.value());
  publish_file(output / "tokenizer_config.json", tokenizer_config_json(arguments.training));
  publish_file(output / "spiece.model", model);
  report(arguments.training, (output / "spiece.model").string(), texts.size());
}

std::vector<int32_t> parse_ids(std::string_view line, const std::string& file, int64_t number) {
  nlohmann::json ids = parse_json(line, file, number);
  auto is_id = [](const nlohmann::json& id) { return id.is_number_unsigned() && id.get<uint64_t>() <= INT32_MAX; };
  if (!ids.is_array() || !std::all_of(ids.begin(), ids.end(), is_id)) {
    throw InputError("{}:{}: an array of token ids is expected, like [71, 12, 1].", file, number);
  }
  return ids.get<std::vector<int32_t>>();
}

/// Every line counts here, blank ones too, so that line n of the output belongs to line n of the file.
void run_ids(const IdsArguments& arguments) {
  auto tokenizer = open_tokenizer({.path = arguments.tokenizer}, "");
  TextFile file = open_text(arguments.file, "utf-8");
  std::string_view rest = file.text;
  for (int64_t number = 1; !rest.empty(); ++number) {
    size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (arguments.decode) {
      fmt::print("{}\n", tokenizer->decode(parse_ids(line, file.path, number)));
    } else {
      fmt::print("[{}]\n", fmt::join(tokenizer->encode(line), ", "));
    }
  }
}

}  // namespace

int tokenize_command(const std::vector<std::string>& args) {
  CLI::App app("Train a tokenizer, or show the ids of a text.", "trainer tokenize");
  TrainArguments train;
  IdsArguments ids;
  CLI::App* train_app = app.add_subcommand("train", "Train a SentencePiece tokenizer laid out for T5");
  add_train_options(*train_app, train);
  app.add_option("--tokenizer", ids.tokenizer, "Folder with a tokenizer");
  app.add_option("--ids", ids.file, "Prints the ids of each line of this file as a JSON array");
  app.add_flag("--decode", ids.decode, "The file has arrays of ids: prints their texts");
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // it wants them reversed
    if (!*train_app && (ids.tokenizer.empty() || ids.file.empty())) {
      throw CLI::RequiredError("`train`, or --tokenizer FOLDER with --ids FILE");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? kDone : kUsageFailure;
  }
  if (*train_app) {
    run_train(train);
  } else {
    run_ids(ids);
  }
  return kDone;
}

}  // namespace trainer::data
