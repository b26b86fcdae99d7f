// Converts a SentencePiece model to Hugging Face's tokenizer.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/sentencepiece_model.h"

namespace trainer::data {

/// The settings that a tokenizer adds to its SentencePiece model.
struct SentencePieceSetup {
  std::map<int32_t, AddedToken> special;  // recognized in the text before the model's rules apply
  bool legacy = true;                     // each part between special tokens gets the model's leading space
  std::string bos, eos;                   // added around a text; "" for none
  int32_t bos_id = -1, eos_id = -1;
};

/// A tokenizer.json that tokenizes the text between special tokens as SentencePiece does. The libraries' rules differ,
/// so some models can't be converted with the same ids: compare them (tokenizer_probe.h).
/// The model must have passed check_sentencepiece_model.
nlohmann::ordered_json sentencepiece_json(const SentencePieceModel& model, const SentencePieceSetup& setup);

}  // namespace trainer::data
