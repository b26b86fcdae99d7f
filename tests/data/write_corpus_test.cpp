#include "data/cache/write_corpus.h"

#include <gtest/gtest.h>

#include "data/megatron/indexed_file.h"
#include "tests/data/support.h"
#include "tests/support/source_dir.h"

namespace trainer::data {
namespace {

const std::string kTokenizer = source_dir() + "/tests/golden/tokenizer/unigram";

std::vector<std::string> texts_of(const std::string& prefix, const Tokenizer& tokenizer, bool with_eod) {
  IndexedFile file(prefix);
  std::vector<std::string> texts;
  for (int64_t i = 0; i < file.index().sequences(); ++i) {
    std::vector<int32_t> ids(static_cast<size_t>(file.index().length(i)));
    file.read(i, 0, ids, tokenizer.size());
    EXPECT_EQ(ids.back() == tokenizer.eos_id(), with_eod);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer.eos_id()), with_eod ? 1 : 0);
    texts.push_back(tokenizer.decode(ids));
  }
  return texts;
}

TEST(WriteCorpus, WritesOneDocumentPerText) {
  TempFolder folder;
  const std::string jsonl = folder.write("a.jsonl", R"({"body": "the ship", "n": 1}
{"body": ""}
{"body": "same"}
)");
  auto tokenizer = open_tokenizer({.path = kTokenizer}, "");
  for (bool with_eod : {false, true}) {
    CorpusRequest request{.text_column = "body", .append_eod = with_eod, .output = (folder / "out.bin").string()};
    request.source.path = {jsonl};
    const CorpusSummary summary = write_corpus(request, *tokenizer);
    EXPECT_EQ(summary.documents, 2);
    EXPECT_EQ(summary.without_tokens, 1);
    EXPECT_EQ(texts_of((folder / "out").string(), *tokenizer, with_eod),
              (std::vector<std::string>{"the ship", "same"}));
  }
}

TEST(WriteCorpus, KeepsTheOldFilesAfterABadText) {
  TempFolder folder;
  auto tokenizer = open_tokenizer({.path = kTokenizer}, "");
  CorpusRequest request{.output = (folder / "out").string()};
  request.source.path = {folder.write("good.jsonl", "{\"text\": \"the ship\"}\n")};
  write_corpus(request, *tokenizer);
  const std::string before = read_all(folder / "out.bin");
  request.source.path.push_back(
      folder.write("bad.jsonl", "{\"text\": \"same\"}\n{\"body\": \"same\", \"n\": \"1\"}\n"));
  contains(error_of<InputError>([&] { write_corpus(request, *tokenizer); }),
           "bad.jsonl:2: no column text; the record has body, n.\nName the text's column");
  request.source.path = {folder.write("empty.jsonl", "{\"text\": \"\"}\n")};
  contains(error_of<InputError>([&] { write_corpus(request, *tokenizer); }), "no text gave any tokens");
  EXPECT_EQ(read_all(folder / "out.bin"), before);
  EXPECT_EQ(IndexedFile((folder / "out").string()).index().sequences(), 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.string()), {}), 5);
}

}  // namespace
}  // namespace trainer::data
