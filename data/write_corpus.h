// Texts to a corpus of token ids on disk, for pre-training.
#pragma once

#include <cstdint>
#include <string>

#include "data/tokenizers/tokenizer.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// Which texts become documents.
struct CorpusRequest {
  config::DataSource source{};
  std::string text_column = "text";
  bool append_eod = false;  // the tokenizer's end-of-sequence token behind each document
  std::string output;       // PREFIX of PREFIX.bin and PREFIX.idx
};

/// What was written.
struct CorpusSummary {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t without_tokens = 0;  // records that were left out for that
};

/// Writes one document a record, without the special tokens that a tokenizer puts around a text. Nothing is held in
/// memory but the record at hand and four bytes a document; the files appear together when all is done.
/// Errors: InputError for bad texts, a missing column, no tokens at all; MachineError.
CorpusSummary write_corpus(const CorpusRequest& request, const Tokenizer& tokenizer);

}  // namespace trainer::data
