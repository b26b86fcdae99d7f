#include "engine/prepare/tokenize.h"

#include <regex>

#include <gtest/gtest.h>

#include "data/megatron/indexed_file.h"
#include "data/tokenizers/tokenizer.h"
#include "tests/data/support.h"
#include "tests/support/source_dir.h"

namespace trainer::prepare {
namespace {

using data::contains, data::error_of, data::IndexedFile, data::open_tokenizer, data::read_all, data::TempFolder;

const std::string kGoldenTokenizer = source_dir() + "/tests/golden/tokenizer/unigram";
const std::string kSamples = source_dir() + "/data/examples/reports.txt";

/// What the command prints.
std::string output_of(const std::vector<std::string>& args, int expected = 0) {
  ::testing::internal::CaptureStdout();
  int code = tokenize_command(args);
  std::fflush(stdout);
  EXPECT_EQ(code, expected);
  return ::testing::internal::GetCapturedStdout();
}

std::vector<std::string> training(const std::string& output, const std::string& type) {
  return {"train", "--input",      kSamples, "--format",     "delimited", "--output",
          output,  "--vocab_size", "200",    "--model_type", type};
}

TEST(TokenizeCommand, TrainsTheSameTokenizerForT5Twice) {
  TempFolder folder;
  for (std::string type : {"unigram", "bpe"}) {
    std::string first = (folder / (type + "/1")).string(), second = (folder / (type + "/2")).string();
    contains(output_of(training(first, type)), "200 pieces and 100 extra ids");
    output_of(training(second, type));
    EXPECT_EQ(read_all(first + "/spiece.model"), read_all(second + "/spiece.model"));
    auto tokenizer = open_tokenizer({.path = first}, "");
    EXPECT_EQ(tokenizer->size(), 300);
    EXPECT_EQ(tokenizer->pad_id(), 0);
    EXPECT_EQ(tokenizer->eos_id(), 1);
    EXPECT_EQ(tokenizer->unk_id(), 2);
    EXPECT_EQ(tokenizer->id_of("<s>"), std::nullopt);
    EXPECT_EQ(tokenizer->id_of("<extra_id_0>"), 299);
    auto ids = tokenizer->encode("Leaks at the ferry doubled in May.");
    EXPECT_EQ(tokenizer->decode(ids), "Leaks at the ferry doubled in May.");
    EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer->unk_id()), 0);
  }
}

TEST(TokenizeCommand, PrintsIdsAndTexts) {
  TempFolder folder;
  std::string ids =
      output_of({"--tokenizer", kGoldenTokenizer, "--ids", folder.write("a.txt", "same\r\n\nthe ship\n")});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), '\n'), 3);
  contains(ids, "]\n[1]\n[");
  EXPECT_EQ(output_of({"--tokenizer", kGoldenTokenizer, "--decode", "--ids", folder.write("ids.txt", ids)}),
            "same\n\nthe ship\n");
  std::string bad = folder.write("bad.txt", "[1]\n[-1]\n");
  contains(error_of<InputError>([&] {
             tokenize_command({"--tokenizer", kGoldenTokenizer, "--decode", "--ids", bad});
           }),
           "bad.txt:2: expected an array of token ids");
}

TEST(TokenizeCommand, HelpShowsAllFlagsInOneStyle) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"--help"}, {"train", "--help"}}) {
    const std::string help = output_of(args);
    EXPECT_FALSE(std::regex_search(help, std::regex("--[a-z]+-"))) << help;
    if (args.size() == 1) contains(help, "--show N");
  }
}

std::string wrong_usage(const std::vector<std::string>& arguments) {
  return error_of<ConfigError>([&] { tokenize_command(arguments); });
}

TEST(TokenizeCommand, RejectsWrongUsage) {
  contains(wrong_usage({}), "--output PREFIX");
  contains(wrong_usage({"--tokenizer", "x"}), "--ids FILE");
  contains(wrong_usage({"train", "--input", "x"}), "--output");
  contains(wrong_usage({"train", "--input", "x", "--output", "y", "--vocab_size", "many"}), "--vocab_size");
  contains(wrong_usage({"--unknown"}), "--unknown");
}

TEST(TokenizeCommand, ItsHelpHasExamples) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"}, {"train", "--help"}}) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(tokenize_command(arguments), 0);
    std::fflush(stdout);
    contains(::testing::internal::GetCapturedStdout(), "\nExamples:\n  trainer tokenize ");
  }
}

TEST(TokenizeCommand, WritesNothingForUselessText) {
  TempFolder folder;
  std::vector<std::string> args = {
      "train", "--input", folder.write("empty.txt", ""), "--output", (folder / "out").string(), "--vocab_size", "50"};
  contains(error_of<InputError>([&] { tokenize_command(args); }), "no records");
  args[2] = folder.write("rich.txt", "abcdefghijklmnopqrstuvwxyz\n");
  args.back() = "8";
  contains(error_of<InputError>([&] { tokenize_command(args); }), "cannot train a tokenizer of 8 pieces");
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(TokenizeCommand, WritesACorpus) {
  TempFolder folder;
  const std::string prefix = (folder / "out").string(), file = folder.write("a.txt", "the ship\nsame\n");
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(tokenize_command({"--tokenizer", kGoldenTokenizer, "--input", file, "--output", prefix, "--append_eod"}),
            0);
  std::fflush(stdout);
  contains(::testing::internal::GetCapturedStdout(), prefix + ".bin and .idx: 2 documents, ");
  EXPECT_EQ(IndexedFile(prefix).index().documents(), 2);
  contains(wrong_usage({"--tokenizer", kGoldenTokenizer, "--input", file}), "--output PREFIX");
  contains(wrong_usage({"--tokenizer", kGoldenTokenizer, "--input", file, "--output", prefix, "--ids", file}),
           "--output PREFIX");
}

}  // namespace
}  // namespace trainer::prepare
