#include "data/cache/write_corpus.h"

#include "data/megatron/indexed_file.h"
#include "data/megatron/indexed_writer.h"
#include "data/readers/readers.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

const std::string& text_of(const Record& record, const std::string& column) {
  if (const std::string* text = record.find(column)) return *text;
  std::string columns;
  for (const auto& [name, text] : record.fields) columns += (columns.empty() ? "" : ", ") + name;
  throw InputError("{}: no column {}; the record has {}.\nName the text's column with --text_column.", record.where(),
                   column, columns.empty() ? "no columns" : columns);
}

}  // namespace

CorpusSummary write_corpus(const CorpusRequest& request, const Tokenizer& tokenizer) {
  const int32_t eod = tokenizer.eos_id();
  if (request.append_eod && eod < 0) {
    throw InputError(
        "--append_eod: the tokenizer has no end-of-sequence token.\nSet eos_token in its "
        "tokenizer_config.json.");
  }
  const std::string prefix = corpus_prefix(request.output);
  IndexedWriter writer(prefix, tokenizer.size());
  CorpusSummary summary;
  read_records(request.source, [&](Record&& record) {
    std::vector<int32_t> ids = tokenizer.encode(text_of(record, request.text_column), false);
    if (ids.empty()) {
      ++summary.without_tokens;
      return;
    }
    if (request.append_eod) ids.push_back(eod);
    writer.add_document(ids);
  });
  if (writer.tokens() == 0) throw InputError("{}: nothing is written because no text gave any tokens.", prefix);
  writer.publish();
  summary.documents = writer.documents();
  summary.tokens = writer.tokens();
  return summary;
}

}  // namespace trainer::data
