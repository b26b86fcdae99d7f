// A SentencePiece model as Hugging Face's tokenizer.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/sentencepiece_model.h"

namespace trainer::data {

/// What a tokenizer adds to its SentencePiece model.
struct SentencePieceSetup {
  std::map<int32_t, AddedToken> special;  // recognized in text before the model's rules
  bool legacy = true;                     // the model's space goes in front of each part between special tokens
  std::string bos, eos;                   // put around a text; "" when not
  int32_t bos_id = -1, eos_id = -1;
};

/// A tokenizer.json that reads text as SentencePiece does between special tokens. The two libraries have different
/// rules, so that some models can't be written with the same ids: compare them (tokenizer_probe.h).
/// The model must have passed check_sentencepiece_model.
nlohmann::ordered_json sentencepiece_json(const SentencePieceModel& model, const SentencePieceSetup& setup);

}  // namespace trainer::data
