#include "engine/evaluation/predictions.h"

#include <unistd.h>

#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/files.h"
#include "engine/base/terminal_text.h"

namespace trainer::evaluation {
namespace {

TEST(TerminalText, CountsColumns) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("für €"), 5U);
  EXPECT_EQ(display_width("日本"), 4U);
  EXPECT_EQ(display_width("e\u0301"), 1U);
  EXPECT_EQ(display_width("😀"), 2U);
  EXPECT_EQ(display_width("🫠"), 2U);  // Unicode 14
  EXPECT_EQ(display_width("a\xff"), 2U);
}

TEST(TerminalText, CutsBetweenLetters) {
  EXPECT_EQ(truncated("abcdef", 6), "abcdef");
  EXPECT_EQ(truncated("abcdef", 5), "abcd…");
  EXPECT_EQ(truncated("日本語", 5), "日本…");
  EXPECT_EQ(truncated("日本語", 4), "日…");
  EXPECT_EQ(truncated("abc", 0), "");
  EXPECT_EQ(fitted("日本語", 4), "日… ");
  EXPECT_EQ(fitted("ab", 4), "ab  ");
}

TEST(TerminalText, RemovesControlCharacters) {
  EXPECT_EQ(one_line("a\tb\nc\x1b[2Jd"), "a b c [2Jd");
  EXPECT_EQ(one_line("\u0085\u202e\u2028x"), "   x");
  EXPECT_EQ(one_line("ok\xff\xc3"), "ok??");
  EXPECT_EQ(one_line("\xed\xa0\x80\xc0\x80\xf5"), "??????");  // a surrogate, an overlong NUL, beyond Unicode
  EXPECT_EQ(one_line("日本€"), "日本€");
}

const std::vector<Prediction> kRows{
    {"Operating profit rose to EUR 13.1 mn", "positive", "positive"},
    {"日本の売上\nfell", "neutral", "negative"},
};

TEST(PredictionTable, PutsPredictionsNextToLabels) {
  EXPECT_EQ(prediction_table(kRows, 100, true),
            "  input                                 prediction  label\n"
            "✓ Operating profit rose to EUR 13.1 mn  positive    positive\n"
            "✗ 日本の売上 fell                       neutral     negative\n");
}

TEST(PredictionTable, FitsIntoTheTerminal) {
  EXPECT_EQ(prediction_table(kRows, 40, true),
            "  input             prediction  label\n"
            "✓ Operating profi…  positive    positive\n"
            "✗ 日本の売上 fell   neutral     negative\n");
  for (size_t width = 14; width < 120; ++width) {
    std::istringstream lines(prediction_table(kRows, width, true));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), width) << line;
  }
}

TEST(PredictionTable, MarksOnlyScoredPredictions) {
  EXPECT_EQ(prediction_table({{"hi", "hello", "good day"}}, 80, false),
            "  input  prediction  label\n"
            "  hi     hello       good day\n");
}

TEST(PredictionTable, ComparesTheOriginalText) {
  EXPECT_TRUE(prediction_table({{"a", "b\n", "b "}}, 80, true).find("✗") != std::string::npos);
}

TEST(WritePredictions, WritesOneObjectPerLine) {
  std::string pattern = (std::filesystem::temp_directory_path() / "predictions.XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(pattern.data());
  write_predictions(folder / "predictions.jsonl", {{"a \"b\"\n", "日本", "x"}, {"\xff", "", ""}});
  EXPECT_EQ(read_file(folder / "predictions.jsonl"),
            "{\"input\":\"a \\\"b\\\"\\n\",\"prediction\":\"日本\",\"label\":\"x\"}\n"
            "{\"input\":\"\ufffd\",\"prediction\":\"\",\"label\":\"\"}\n");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace trainer::evaluation
