// Broken files: tests/data/bad has one file per fault and, next to it, the expected outcome of reading it under each
// value of on_bad_sample. After changing messages: WRITE_EXPECTED=1 readers_test --gtest_filter='BadFiles.*', then
// review the diff.
#include <gtest/gtest.h>

#include "data/readers/readers.h"
#include "tests/data/support.h"
#include "tests/support/source_dir.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

const fs::path kBad = fs::path(source_dir()) / "tests/data/bad";

std::string without_folder(std::string text) {
  const std::string folder = kBad.string() + "/";
  for (size_t at; (at = text.find(folder)) != std::string::npos;) text.erase(at, folder.size());
  return text;
}

/// Reads a file with the options that the prefix of its name selects.
std::string outcome(const fs::path& path, config::OnBadSample rule) {
  config::DataSource source{.path = {path.string()}, .on_bad_sample = rule};
  const std::string name = path.filename().string();
  if (name.starts_with("delimited")) source.format = config::DataFormat::kDelimited;
  if (name.starts_with("latin1")) source.encoding = "latin-1";
  std::string text;
  try {
    const ReadSummary summary = read_records(source, [](Record&&) {});
    text = fmt::format("{} records\n", summary.records);
    for (const std::string& note : summary.notes()) text += note + "\n";
  } catch (const InputError& error) {
    text = fmt::format("{}\n", error.what());
  }
  return without_folder(text);
}

std::vector<fs::path> bad_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kBad)) {
    if (entry.path().extension() != ".expected") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(BadFiles, AreReportedWithPlaceAndReason) {
  const std::vector<fs::path> files = bad_files();
  EXPECT_GE(files.size(), 50u);
  for (const fs::path& file : files) {
    const std::string said =
        "error: " + outcome(file, config::OnBadSample::kError) + "skip: " + outcome(file, config::OnBadSample::kSkip);
    const fs::path expected = file.string() + ".expected";
    if (std::getenv("WRITE_EXPECTED") != nullptr) std::ofstream(expected) << said;
    EXPECT_EQ(said, read_all(expected)) << file;
    EXPECT_FALSE(said.starts_with("error: 0") || said.starts_with("error: 1")) << file << " is accepted";
  }
}

TEST(BadFiles, EveryExpectedFileHasItsInput) {
  for (const auto& entry : fs::directory_iterator(kBad)) {
    if (entry.path().extension() == ".expected") {
      EXPECT_TRUE(fs::exists(fs::path(entry.path()).replace_extension())) << entry.path();
    }
  }
}

}  // namespace
}  // namespace trainer::data
