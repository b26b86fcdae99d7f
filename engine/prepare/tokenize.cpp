#include "engine/prepare/tokenize.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include <CLI/CLI.hpp>

#include "data/cache/write_corpus.h"
#include "data/json/parse_json.h"
#include "data/megatron/indexed_file.h"
#include "data/readers/readers.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_trainer.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/help_text.h"

namespace trainer::prepare {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  config::DataSource source;
  std::string output;
  data::TokenizerTraining training;
};

struct IdsArguments {
  std::string tokenizer, file;
  bool decode = false;
};

void add_source_options(CLI::App& app, config::DataSource& source) {
  static const std::map<std::string, config::DataFormat> kFormats = {
      {"auto", config::DataFormat::kAuto}, {"delimited", config::DataFormat::kDelimited},
      {"csv", config::DataFormat::kCsv},   {"tsv", config::DataFormat::kTsv},
      {"json", config::DataFormat::kJson}, {"jsonl", config::DataFormat::kJsonl},
      {"text", config::DataFormat::kText}, {"parquet", config::DataFormat::kParquet},
  };
  app.add_option("--format", source.format, "auto, delimited, csv, tsv, json, jsonl, text or parquet")
      ->transform(CLI::CheckedTransformer(kFormats).description(""));
  app.add_option("--delimiter", source.delimiter, "For --format delimited")->capture_default_str();
  app.add_option("--encoding", source.encoding)->check(CLI::IsMember({"utf-8", "latin-1"}))->capture_default_str();
}

void add_train_options(CLI::App& app, TrainArguments& arguments) {
  app.add_option("--input", arguments.source.path, "Files, folders or globs; the text of every column is used")
      ->required();
  app.add_option("--output", arguments.output, "Folder for the tokenizer's files")->required();
  app.add_option("--vocab_size", arguments.training.vocab_size, "Maximum number of pieces, without the extra ids")
      ->required()
      ->check(CLI::Range(4, 4'000'000));
  static const std::map<std::string, data::TokenizerLayout> kLayouts = {{"t5", data::TokenizerLayout::kT5},
                                                                        {"llama", data::TokenizerLayout::kLlama},
                                                                        {"bert", data::TokenizerLayout::kBert}};
  app.add_option("--layout", arguments.training.layout,
                 "t5 (spiece.model), llama (tokenizer.model) or bert (vocab.txt); default: t5")
      ->transform(CLI::CheckedTransformer(kLayouts).description(""));
  app.add_option("--model_type", arguments.training.model_type, "unigram or bpe; default: unigram for t5, else bpe")
      ->check(CLI::IsMember({"unigram", "bpe"}));
  app.add_option("--extra_ids", arguments.training.extra_ids, "<extra_id_N> after the pieces, for t5")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  add_source_options(app, arguments.source);
}

void add_corpus_options(CLI::App& app, data::CorpusRequest& request) {
  app.add_option("--input", request.source.path,
                 "Files, folders or globs to write as token ids, one document per record");
  app.add_option("--output", request.output, "Writes PREFIX.bin and PREFIX.idx in Megatron's format");
  app.add_option("--text_column", request.text_column, "The column with the text")->capture_default_str();
  app.add_flag("--append_eod", request.append_eod, "Appends the end-of-sequence token to each document");
  add_source_options(app, request.source);
}

void report(const data::TokenizerTraining& training, const fs::path& path, size_t texts) {
  const int64_t size = data::open_tokenizer({.path = path.parent_path()}, "")->size();
  const int64_t extra = training.layout == data::TokenizerLayout::kT5 ? training.extra_ids : 0, pieces = size - extra;
  fmt::print("{}: {} pieces{}, learned from {} texts\na model needs vocab_size {} or more\n", path.string(), pieces,
             extra > 0 ? fmt::format(" and {} extra ids", extra) : "", texts, size);
  if (pieces < training.vocab_size) fmt::print("The texts do not contain {} pieces.\n", training.vocab_size);
}

void run_train(const TrainArguments& arguments) {
  fs::path output = arguments.output;
  check_writable(output);
  std::vector<std::string> texts;
  data::read_records(arguments.source, [&](data::Record&& record) {
    for (auto& [column, text] : record.fields) texts.push_back(std::move(text));
  });
  const std::vector<data::TokenizerFile> files = data::train_tokenizer(texts, arguments.training);
  std::error_code error;
  fs::create_directories(output, error);
  if (error) throw machine_error("create", output, error.value());
  for (auto file = files.rbegin(); file != files.rend(); ++file) publish_file(output / file->name, file->content);
  fs::remove(output / "tokenizer.json", error);  // of a previous tokenizer
  data::save_tokenizer(*data::open_tokenizer({.path = output / files.front().name}, ""), "", output);
  report(arguments.training, output / files.front().name, texts.size());
}

std::vector<int32_t> parse_ids(std::string_view line, const std::string& file, int64_t number) {
  nlohmann::json ids = data::parse_json(line, file, number);
  auto is_id = [](const nlohmann::json& id) { return id.is_number_unsigned() && id.get<uint64_t>() <= INT32_MAX; };
  if (!ids.is_array() || !std::all_of(ids.begin(), ids.end(), is_id)) {
    throw InputError("{}:{}: expected an array of token ids, like [71, 12, 1].", file, number);
  }
  return ids.get<std::vector<int32_t>>();
}

/// Blank lines count too, so that line n of the output belongs to line n of the file.
void run_ids(const IdsArguments& arguments) {
  auto tokenizer = data::open_tokenizer({.path = arguments.tokenizer}, "");
  data::TextInput input(data::open_bytes(arguments.file), arguments.file, "utf-8");
  data::LineEnd line_end;
  for (data::RawPiece piece; input.cut(line_end, piece);) {
    const std::string_view line = data::without_line_end(input.text_of(piece));
    if (arguments.decode) {
      fmt::print("{}\n", tokenizer->decode(parse_ids(line, arguments.file, piece.line)));
    } else {
      fmt::print("[{}]\n", fmt::join(tokenizer->encode(line), ", "));
    }
  }
}

void run_corpus(const data::CorpusRequest& request, const std::string& tokenizer) {
  const data::CorpusSummary summary = data::write_corpus(request, *data::open_tokenizer({.path = tokenizer}, ""));
  fmt::print("{}.bin and .idx: {} documents, {} tokens.\n", data::corpus_prefix(request.output), summary.documents,
             summary.tokens);
  if (summary.without_tokens > 0) fmt::print("{} records without text were skipped.\n", summary.without_tokens);
}

}  // namespace

int tokenize_command(const std::vector<std::string>& args) {
  CLI::App app("Train a tokenizer, write texts as token ids, or show the ids of a text.", "trainer tokenize");
  app.footer(
      "With --show N [--config_file FILE] [JOB.yaml] it prints the first N samples of a configuration as the model "
      "reads them, and which part it learns; then it takes the flags of `trainer launch`.\n"
      "\nExamples:\n"
      "  trainer tokenize --show 3 t5.yaml\n"
      "  trainer tokenize --tokenizer models/t5 --ids lines.txt\n"
      "  trainer tokenize --tokenizer models/gpt2 --input 'books/*.txt' --output books\n"
      "  trainer tokenize train --input books --output tokenizer --vocab_size 8000");
  TrainArguments train;
  IdsArguments ids;
  data::CorpusRequest corpus;
  CLI::App* train_app = app.add_subcommand("train", "Train a tokenizer in the layout of T5, LLaMA or BERT");
  train_app->footer("Examples:\n  trainer tokenize train --input books --output tokenizer --vocab_size 8000");
  add_train_options(*train_app, train);
  app.add_option("--tokenizer", ids.tokenizer, "Folder with a tokenizer");
  app.add_option("--ids", ids.file, "Prints the ids of each line of this file as a JSON array");
  app.add_flag("--decode", ids.decode, "Prints the text of each line of this file, an array of ids");
  add_corpus_options(app, corpus);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 expects them reversed
    const bool writes = !corpus.output.empty() && !corpus.source.path.empty();
    if (!*train_app && (ids.tokenizer.empty() || ids.file.empty() == !writes)) {
      throw CLI::RequiredError("`train`, or --tokenizer FOLDER with --ids FILE or with --input FILES --output PREFIX");
    }
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", help_in_80_columns(app.help()));
    return kDone;
  } catch (const CLI::ParseError& error) {
    throw ConfigError("{}; `trainer tokenize --help` lists the flags", error.what());
  }
  if (*train_app) {
    run_train(train);
  } else if (ids.file.empty()) {
    run_corpus(corpus, ids.tokenizer);
  } else {
    run_ids(ids);
  }
  return kDone;
}

}  // namespace trainer::prepare
