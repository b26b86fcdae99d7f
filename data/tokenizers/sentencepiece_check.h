// Validates a SentencePiece model before the library loads it: the library crashes on malformed models.
#pragma once

#include <string>
#include <string_view>

namespace trainer::data {

/// Checks that `model`, the content of the file `path`, is a unigram or BPE model that SentencePiece can load and use
/// safely. Source of the layout: sentencepiece_model.proto. Errors: InputError.
void check_sentencepiece_model(std::string_view model, const std::string& path);

}  // namespace trainer::data
