// Parquet and Arrow files that other libraries wrote (tests/data/tables/make_tables.py), and damaged ones.
#include <gtest/gtest.h>

#include "data/readers/class_label.h"
#include "data/readers/dataset_folder.h"
#include "data/readers/readers.h"
#include "tests/data/support.h"
#include "tests/support/source_dir.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

const fs::path kTables = fs::path(source_dir()) / "tests/data/tables";

/// The records as text, one line for each: columns, values, and which of them are JSON.
std::vector<std::string> lines_of(const std::string& path, const config::DataSource& options = {}) {
  config::DataSource source = options;
  source.path = {path};
  std::vector<std::string> lines;
  read_records(source, [&](Record&& record) {
    std::string line;
    for (const auto& [name, text] : record.fields)
      line += fmt::format("{}={}{} ", name, text, record.is_json(name) ? " (JSON)" : "");
    lines.push_back(line);
  });
  return lines;
}

class Tables : public testing::TestWithParam<const char*> {};

TEST_P(Tables, AreReadAsTheSameRowsInJsonLines) {
  const fs::path table = kTables / GetParam(), own = table.string() + ".jsonl";
  EXPECT_EQ(lines_of(table), lines_of(fs::exists(own) ? own : kTables / "rows.jsonl"));
}

INSTANTIATE_TEST_SUITE_P(OfOtherLibraries, Tables,
                         testing::Values("none.parquet", "snappy.parquet", "gzip.parquet", "zstd.parquet",
                                         "lz4.parquet", "pages_v2.parquet", "types.parquet", "fastparquet.parquet",
                                         "images.parquet", "class_label.parquet", "file.arrow", "stream.arrow", "types.arrow",
                                         "polars_views.arrow", "lz4.feather"));

TEST(Tables, DeclareTheNamesOfClasses) {
  for (const char* name : {"class_label.parquet", "class_label.arrow"}) {
    EXPECT_EQ(class_names_of_table(kTables / name, "label"), (std::vector<std::string>{"neg", "pos"})) << name;
    EXPECT_TRUE(class_names_of_table(kTables / name, "text").empty()) << name;
  }
  EXPECT_TRUE(class_names_of_table(kTables / "snappy.parquet", "label").empty());
  config::DataSource both;
  both.path = {(kTables / "class_label.parquet").string()};
  EXPECT_EQ(declared_class_names(both, "label"), (std::vector<std::string>{"neg", "pos"}));
  both.path.push_back((kTables / "snappy.parquet").string());
  EXPECT_TRUE(declared_class_names(both, "label").empty()) << "the paths don't agree";
}

TEST(Tables, CountRowsAndBytes) {
  RecordStream stream({.path = {(kTables / "snappy.parquet").string()}});
  Record record;
  for (int64_t row = 1; stream.next(record); ++row) EXPECT_EQ(record.line, row);
  EXPECT_EQ(stream.part(), 1.0);
}

/// Each byte of a file in turn is inverted, or the file ends there: it is refused, or read.
void damage(const std::string& name) {
  const TempFolder folder;
  const std::string good = read_all(kTables / name);
  const size_t step = std::max<size_t>(1, good.size() / 150);
  int refused = 0;
  for (size_t at = 0; at < good.size(); at += step)
    for (const bool cut : {false, true}) {
      std::string bad = good;
      if (cut)
        bad.resize(at);
      else
        bad[at] = static_cast<char>(~bad[at]);
      const std::string path = folder.write(name, bad);
      try {
        lines_of(path);
      } catch (const InputError& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with(path)) << error.what();
        ++refused;
      }
    }
  EXPECT_GT(refused, 130) << name;
}

TEST(Tables, DamagedParquetIsRefused) {
  damage("snappy.parquet");
  damage("types.parquet");
}

TEST(Tables, DamagedArrowIsRefused) {
  damage("types.arrow");
  damage("file.arrow");
}

TEST(Tables, OtherFilesAreNamed) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& content) {
    return error_of<InputError>([&] { lines_of(folder.write("a.parquet", content)); });
  };
  contains(refusal("PAR1"), "damaged or incomplete");
  contains(refusal("PARE and more"), "encrypted");
  contains(refusal("FEA1 and more"), "Feather version 1");
  contains(refusal("\x1F\x8B\x08 and more"), "gunzip");
  contains(refusal("version https://git-lfs.github.com/spec/v1\n"), "git lfs pull");
  contains(refusal("{\"text\": \"a\"}\n"), "neither Parquet nor Arrow");
}

TEST(Tables, ATableByAnotherNameIsRecognized) {
  const TempFolder folder;
  const std::string path = folder.write("a.csv", read_all(kTables / "snappy.parquet"));
  contains(error_of<InputError>([&] { lines_of(path); }), "format: parquet");
  EXPECT_EQ(lines_of(path, {.format = config::DataFormat::kParquet}).size(), 4U);
}

TEST(DatasetFolder, OfSaveToDisk) {
  const fs::path saved = kTables / "saved";
  EXPECT_EQ(lines_of(saved).front(), "text=train 0 label=0 (JSON) ");
  EXPECT_EQ(lines_of(saved / "validation").front(), "text=validation 0 label=0 (JSON) ");
  EXPECT_EQ(*dataset_files(saved, "validation"),
            std::vector<std::string>{saved / "validation/data-00000-of-00001.arrow"});
  contains(error_of<InputError>([&] { dataset_files(saved, "test"); }), "no split 'test'; it has: train, validation");
}

/// A dataset in the Hub's cache.
class HubFolder : public testing::Test {
 protected:
  std::string put(const std::string& name) {
    const fs::path file = snapshot_ / name;
    fs::create_directories(file.parent_path());
    fs::copy_file(kTables / "snappy.parquet", file);
    return file;
  }
  void readme(const std::string& configs) {
    fs::create_directories(snapshot_);
    std::ofstream(snapshot_ / "README.md") << "---\nlicense: mit\n" << configs << "---\n# A dataset\n";
  }

  TempFolder folder_;
  fs::path cached_ = folder_ / "datasets--somebody--things", snapshot_ = cached_ / "snapshots" / "1a2b";
};

TEST_F(HubFolder, NamesTellTheSplit) {
  const std::string a = put("data/train-00000-of-00002.parquet"), b = put("data/train-00001-of-00002.parquet"),
                    c = put("data/validation-00000-of-00001.parquet");
  for (const fs::path& path : {cached_, snapshot_}) {
    EXPECT_EQ(*dataset_files(path, "train"), (std::vector{a, b}));
    EXPECT_EQ(*dataset_files(path, "validation"), std::vector{c});
  }
  EXPECT_EQ(lines_of(cached_).size(), 8U);
  contains(error_of<InputError>([&] { dataset_files(snapshot_, "test"); }), "it has: train, validation");
}

TEST_F(HubFolder, ReadmeNamesTheFiles) {
  const std::string file = put("en/part-0.parquet"), other = put("en/held_out.parquet");
  readme(
      "configs:\n- config_name: en\n  data_files:\n  - split: train\n    path: en/part-*\n  - split: test\n    path:\n"
      "    - en/held_out.parquet\n");
  EXPECT_EQ(*dataset_files(snapshot_, "train"), std::vector{file});
  EXPECT_EQ(*dataset_files(snapshot_, "test"), std::vector{other});
  readme("configs:\n- config_name: a\n  data_files: a/*\n- config_name: b\n  data_files: b/*\n");
  contains(error_of<InputError>([&] { dataset_files(snapshot_, "train"); }), "configurations a, b");
  readme("configs:\n- config_name: a\n  data_files: ../../secret.parquet\n");
  contains(error_of<InputError>([&] { dataset_files(snapshot_, "train"); }), "outside");
  readme("configs:\n- config_name: a\n  data_files: missing/*\n");
  contains(error_of<InputError>([&] { dataset_files(snapshot_, "train"); }), "Is the download complete?");
}

TEST_F(HubFolder, OtherFoldersAreNotDatasets) {
  EXPECT_FALSE(dataset_files(folder_.string(), "train"));
  std::ofstream(folder_ / "train.jsonl") << "{\"text\": \"a\"}\n";
  std::ofstream(folder_ / "README.md") << "# Notes\n";
  EXPECT_FALSE(dataset_files(folder_.string(), "train"));
}

}  // namespace
}  // namespace trainer::data
