// Looks at a SentencePiece model before the library does, which crashes on hostile ones.
#pragma once

#include <string>
#include <string_view>

namespace trainer::data {

/// Checks that `model`, the content of the file `path`, is a unigram or BPE model that SentencePiece can load and use
/// safely. Source of the layout: sentencepiece_model.proto. Errors: InputError.
void check_sentencepiece_model(std::string_view model, const std::string& path);

}  // namespace trainer::data
