#include "data/readers/readers.h"

#include <gtest/gtest.h>

#include "data/readers/paths.h"
#include "engine/base/utf8.h"
#include "tests/data/support.h"

namespace trainer::data {
namespace {

using config::DataFormat;
using config::DataSource;
using Fields = std::vector<std::pair<std::string, std::string>>;

/// All records of a text in `source.format`.
std::vector<Record> read(const std::string& text, DataSource source, const std::string& name = "file") {
  TempFolder folder;
  source.path = {folder.write(name, text)};
  std::vector<Record> records;
  read_records(source, [&](Record&& record) {
    EXPECT_EQ(record.file, source.path[0]);
    records.push_back(std::move(record));
  });
  return records;
}

std::string failure(const std::string& text, const DataSource& source, const std::string& name = "file") {
  return error_of<InputError>([&] { read(text, source, name); });
}

TEST(Delimited, SplitsAtTheLastOrFirstDelimiter) {
  auto records =
      read("a@b@positive\r\nc@neutral\r\n\r\n", {.format = DataFormat::kDelimited, .columns = {"sentence", "label"}});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].fields, (Fields{{"sentence", "a@b"}, {"label", "positive"}}));
  EXPECT_EQ(records[1].line, 2);
  records = read("a::b::c", {.format = DataFormat::kDelimited, .delimiter = "::", .split_at = "first"});
  EXPECT_EQ(records[0].fields, (Fields{{"source", "a"}, {"target", "b::c"}}));
}

TEST(Delimited, NamesTheLineWithoutDelimiter) {
  std::string message = failure("a@b\n\nno label here\n", {.format = DataFormat::kDelimited});
  contains(message, "file:3: no '@'");
  contains(message, "no label here");
  contains(error_of<ConfigError>([] { read("a@b", {.format = DataFormat::kDelimited, .columns = {"a"}}); }),
           "2 columns");
}

TEST(Csv, ReadsQuotesNewlinesAndBlankLines) {
  auto records = read("\xEF\xBB\xBFid,text\r\n1,\"a, \"\"b\"\"\r\nc\"\r\n\r\n2,plain \"quote\"\n3,\n4,\"\"",
                      {.format = DataFormat::kCsv});
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].fields, (Fields{{"id", "1"}, {"text", "a, \"b\"\r\nc"}}));
  EXPECT_EQ(records[0].line, 2);
  EXPECT_EQ(records[1].fields, (Fields{{"id", "2"}, {"text", "plain \"quote\""}}));
  EXPECT_EQ(records[1].line, 5);
  EXPECT_EQ(*records[2].find("text"), "");
  EXPECT_EQ(*records[3].find("text"), "");
}

TEST(Csv, ColumnsReplaceTheHeaderLine) {
  DataSource source{.format = DataFormat::kTsv, .columns = {"a", "b"}};
  EXPECT_EQ(read("1\t2\n3\t4", source).size(), 2u);
  EXPECT_EQ(read("a\tb\n3\t4", source).size(), 1u);  // the file has a header line nevertheless
}

TEST(Csv, RejectsMalformedFiles) {
  DataSource csv{.format = DataFormat::kCsv};
  contains(failure("a,b\n1,2\n1,2,3\n", csv), "file:3: expected 2 fields, one per column, found 3");
  contains(failure("a,b\n\"x\n\ny,2\n", csv), "file:2: a quoted field begins here");
  contains(failure("a,b\n\"x\"y,2\n", csv), "file:2: text follows the closing quote");
  contains(failure("a,a\n1,2\n", csv), "file:1: two columns");
  contains(failure("a,\n1,2\n", csv), "file:1: a column has no name");
  contains(failure("a,b\n", csv), "no records");
  contains(failure("", csv), "no records");
}

TEST(Json, ReadsAnArrayAndKeepsLines) {
  auto records = read("\n[\n {\"a\": \"x\\n[\\\"]}\", \"n\": 1.5},\n\n {\"a\": null, \"b\": [1, {\"c\": 2}]}\n]\n",
                      {.format = DataFormat::kJson});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].fields, (Fields{{"a", "x\n[\"]}"}, {"n", "1.5"}}));
  EXPECT_EQ(records[0].line, 3);
  EXPECT_EQ(records[1].fields, (Fields{{"a", ""}, {"b", "[1,{\"c\":2}]"}}));
  EXPECT_EQ(records[1].line, 5);
}

TEST(Json, RejectsMalformedFiles) {
  DataSource json{.format = DataFormat::kJson};
  contains(failure("{\"a\": 1}", json), "must be an array");
  contains(failure("[{\"a\": 1},\n {\"a\" 2}]", json), "file:2:7: not valid JSON");
  contains(failure("[{\"a\": 1}\n", json), "has no closing");
  contains(failure("[{\"a\": 1},]", json), "element of the array is missing");
  contains(failure("[{\"a\": 1}] x", json), "text follows");
  contains(failure("[1]", json), "must be an object");
  contains(failure("[]", json), "no records");
  contains(failure("[{\"a\": " + std::string(100000, '[') + std::string(100000, ']') + "}]", json), "nested deeper");
}

TEST(Json, ReadsTheArrayOfAnObject) {
  auto records =
      read("{\"version\": [1, {\"a\": 2}], \"data\": [{\"a\": 1},\n{\"a\": 2}], \"empty\": [], \"info\": {\"b\": []}}",
           {.format = DataFormat::kJson});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].fields, (Fields{{"a", "2"}}));
  EXPECT_EQ(records[1].line, 2);
}

TEST(Json, KeepsTheOriginalTextOfValues) {
  Record record = read(
      "{\"a\": 1.50, \"b\": 1e999, \"c\": 12345678901234567890123, \"d\": \"5\", \"e\": 5, \"f\": null, \"g\": "
      "{ \"z\" : [ true , \"\\u00e9 \" ] , \"y\" : { } }}",
      {.format = DataFormat::kJsonl})[0];
  EXPECT_EQ(record.fields, (Fields{{"a", "1.50"},
                                   {"b", "1e999"},
                                   {"c", "12345678901234567890123"},
                                   {"d", "5"},
                                   {"e", "5"},
                                   {"f", ""},
                                   {"g", "{\"z\":[true,\"\\u00e9 \"],\"y\":{}}"}}));
  EXPECT_FALSE(record.is_json("d"));
  EXPECT_TRUE(record.is_json("e") && record.is_json("f") && record.is_json("g"));
}

TEST(Jsonl, ReadsLinesAndNamesTheBadOne) {
  DataSource jsonl{.format = DataFormat::kJsonl};
  EXPECT_EQ(read("{\"a\": \"\\u00e9\"}\r\n\r\n{\"a\": true}", jsonl)[1].fields, (Fields{{"a", "true"}}));
  contains(failure("{\"a\": 1}\n{\"a\": \"x}\n", jsonl), "file:2:");
  contains(failure("{\"a\": \"\\ud800\"}\n", jsonl), "not valid JSON");
  contains(failure("{\"a\": 1}\n[2]\n", jsonl), "file:2:1: a record must be an object");
}

TEST(Text, GivesOneColumn) {
  auto records = read("one\n \t\ntwo\r\n", {.format = DataFormat::kText});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].fields, (Fields{{"text", "two"}}));
  EXPECT_EQ(records[1].where(), records[1].file + ":3");
}

TEST(Text, IsDividedAsByTheLibraryDatasets) {
  const auto samples = [](const std::string& text, config::SampleBy by) {
    std::vector<std::string> all;
    for (const Record& record : read(text, {.format = DataFormat::kText, .sample_by = by}))
      all.push_back(*record.find("text"));
    return all;
  };
  using Texts = std::vector<std::string>;
  const std::string poem = "one\ntwo\n\nthree\r\n\r\n\nfour\n \nfive\n\n\n\n";
  EXPECT_EQ(samples(poem, config::SampleBy::kLine), (Texts{"one", "two", "three", "four", "five"}));
  EXPECT_EQ(samples(poem, config::SampleBy::kParagraph), (Texts{"one\ntwo", "three", "\nfour\n \nfive"}));
  EXPECT_EQ(samples(poem, config::SampleBy::kDocument),
            (Texts{"one\ntwo\n\nthree\n\n\nfour\n \nfive\n\n\n\n"}));
  EXPECT_EQ(samples("last\n", config::SampleBy::kParagraph), (Texts{"last\n"}));
  EXPECT_EQ(samples("\n \n\nlast", config::SampleBy::kParagraph), (Texts{"last"}));
}

TEST(Text, AParagraphThatEndsWhereAPartOfTheFileDoesIsFound) {
  for (size_t size = 65'530; size < 65'540; ++size)  // around the size of what is read at a time
    for (const std::string end : {"\n\n", "\r\n\r\n"}) {
      const auto records = read(std::string(size, 'x') + end + "b" + end + "c",
                                {.format = DataFormat::kText, .sample_by = config::SampleBy::kParagraph});
      ASSERT_EQ(records.size(), 3u) << size;
      EXPECT_EQ(records[2].fields[0].second, "c");
      EXPECT_EQ(records[2].line, 5);
    }
}

TEST(Encoding, IsCheckedAndConverted) {
  DataSource text{.format = DataFormat::kText};
  contains(failure("good\ncaf\xE9\n", text), "file:2:4: byte 0xe9 is not UTF-8");
  contains(failure("\xFF\xFE"
                   "a",
                   text),
           "UTF-16");
  text.encoding = "latin-1";
  EXPECT_EQ(*read("caf\xE9", text)[0].find("text"), "caf\u00e9");
}

TEST(Encoding, PositionsReferToTheFile) {
  contains(failure("{\"\xE9\xE9\": x}", {.format = DataFormat::kJsonl, .encoding = "latin-1"}),
           "file:1:8: not valid JSON");
  contains(failure("\xEF\xBB\xBFna\xEFve", {.format = DataFormat::kText}), "file:1:3: byte 0xef");
  contains(failure("[{\"a\": \"\n\"}]", {.format = DataFormat::kJson}),
           "file:1:9: not valid JSON: a control character");
}

TEST(Utf8, ChecksBoundaryCodePoints) {
  for (const char* good :
       {"", "a", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_EQ(find_invalid_utf8(std::string("ab") + bad), 2u);
  }
}

TEST(Lines, HaveAMaximumLength) {
  contains(failure("ok\n" + std::string(kMaxRecordBytes + 1, 'x'), {.format = DataFormat::kText}),
           "file:2: the record is longer than 16 MiB");
}

TEST(BadRecords, AreSkippedAndCounted) {
  TempFolder folder;
  const std::string a = folder.write("a.jsonl", "{\"a\": 1}\n[]\n{\"a\"}\n\xFF\n{\"a\": 2}\n3\n"),
                    b = folder.write("b.jsonl", "");
  const DataSource source{.path = {a, b, a}, .on_bad_sample = config::OnBadSample::kSkip};
  std::vector<size_t> entries;
  const ReadSummary summary = read_records(source, [&](Record&& record) { entries.push_back(record.entry); });
  EXPECT_EQ(entries, (std::vector<size_t>{0, 0, 2, 2}));
  EXPECT_EQ(summary.records, 4);
  EXPECT_EQ(summary.entry_records, (std::vector<int64_t>{2, 0, 2}));
  EXPECT_EQ(summary.bad.count(), 9);
  EXPECT_EQ(summary.notes(), (std::vector<std::string>{
                                 "skipped by on_bad_sample: 2 × not UTF-8; the first: " + a + ":4:1",
                                 "skipped by on_bad_sample: 2 × not valid JSON; the first: " + a + ":3:5",
                                 "skipped by on_bad_sample: 4 × not a JSON object; the first: " + a + ":2:1",
                                 "skipped by on_bad_sample: 1 × a file without records; the first: " + b,
                             }));
}

TEST(Duplicates, AreSkipped) {
  const DataSource source{.format = DataFormat::kJsonl, .deduplicate = true};
  auto records = read(
      "{\"a\": \"1\", \"b\": \"2\"}\n{\"b\": \"2\", \"a\": \"1\"}\n{\"a\": \"2\", \"b\": \"1\"}\n"
      "{\"a\": 1, \"b\": \"2\"}\n{\"a\": \"1\", \"b\": \"2\"}\n{\"a\": \"12\"}\n",
      source);
  std::vector<int64_t> lines;
  for (const Record& record : records) lines.push_back(record.line);
  EXPECT_EQ(lines, (std::vector<int64_t>{1, 3, 4, 6}));
}

TEST(Duplicates, UseFewBytesPerRecord) {
  RecordSet set;
  constexpr int64_t kCount = 200000;
  Record record{{{"n", ""}}};
  for (int64_t i = 0; i < kCount; ++i) {
    record.fields[0].second = std::to_string(i);
    ASSERT_TRUE(set.add(record));
    if (i > kCount / 2 && i % 1000 == 0) {
      EXPECT_LE(set.memory(), 25 * set.size());
    }
  }
  EXPECT_EQ(set.size(), kCount);
  for (int64_t i = 0; i < kCount; i += 997) {
    record.fields[0].second = std::to_string(i);
    EXPECT_FALSE(set.add(record));
  }
}

TEST(Paths, AreExpandedInOrder) {
  TempFolder folder;
  std::string b = folder.write("d/b.txt", "2"), a = folder.write("d/a.txt", "1");
  folder.write("d/.hidden.txt", "x");
  folder.write("d/readme.md", "x");
  std::string single = folder.write("z.csv", "h\n1");
  DataSource source{.path = {single, (folder / "d").string(), (folder / "d/?.txt").string()}};
  EXPECT_EQ(expand_paths(source), (std::vector<std::string>{single, a, b, a, b}));
}

TEST(Paths, InAFolderMustHaveOneFormat) {
  TempFolder folder;
  folder.write("a.jsonl", "{}");
  folder.write("b.JSONL.gz", "{}");
  folder.write("c.ndjson.zst", "{}");
  const DataSource source{.path = {folder.string()}};
  auto entries = find_sources(source);
  ASSERT_EQ(entries.size(), 1u);
  ASSERT_EQ(entries[0].files.size(), 3u);
  EXPECT_EQ(entries[0].files[2].format, DataFormat::kJsonl);
  folder.write("d.csv", "a");
  const std::string message = error_of<InputError>([&] { find_sources(source); });
  contains(message, "two formats, such as a.jsonl (jsonl) and d.csv (csv)");
  contains(message, "/*.jsonl");
}

TEST(Paths, ReportMissingFiles) {
  TempFolder folder;
  folder.write("train.csv", "x");
  auto fail = [&](const std::string& name) {
    return error_of<InputError>([&] { expand_paths({.path = {(folder / name).string()}}); });
  };
  contains(fail("trian.csv"), "did you mean 'train.csv'?");
  contains(fail("gone/x.csv"), "does not exist");
  contains(fail("*.json"), "no file matches");
  std::filesystem::create_directory(folder / "empty");
  contains(fail("empty"), "no data files");
}

TEST(Format, IsDetectedByExtension) {
  EXPECT_EQ(format_of("x.CSV", DataFormat::kAuto), DataFormat::kCsv);
  EXPECT_EQ(format_of("x.ndjson", DataFormat::kAuto), DataFormat::kJsonl);
  EXPECT_EQ(format_of("x.csv", DataFormat::kText), DataFormat::kText);
  contains(error_of<InputError>([] { format_of("x.bin", DataFormat::kAuto); }), "Set `format`");
}

}  // namespace
}  // namespace trainer::data
