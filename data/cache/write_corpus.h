// Writes texts as a corpus of token ids, for pre-training.
#pragma once

#include <cstdint>
#include <string>

#include "data/tokenizers/tokenizer.h"
#include "engine/config/sections/data.h"

namespace trainer::data {

/// Which texts become documents.
struct CorpusRequest {
  config::DataSource source{};
  std::string text_column = "text";
  bool append_eod = false;  // append the tokenizer's end-of-sequence token to each document
  std::string output;       // PREFIX of PREFIX.bin and PREFIX.idx
};

/// What was written.
struct CorpusSummary {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t without_tokens = 0;  // records that were skipped because they have no tokens
};

/// Writes one document per record, without the special tokens that a tokenizer adds around a text. Memory holds only
/// the current record and four bytes per document; both files are published at the end.
/// Errors: InputError for bad texts, a missing column, no tokens at all; MachineError.
CorpusSummary write_corpus(const CorpusRequest& request, const Tokenizer& tokenizer);

}  // namespace trainer::data
