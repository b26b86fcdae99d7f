#include "data/tokenizers/tokenizer_trainer.h"

#include <sentencepiece_trainer.h>

#include <unordered_map>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// Gives texts to SentencePiece.
class TextIterator : public sentencepiece::SentenceIterator {
 public:
  explicit TextIterator(const std::vector<std::string>& texts) : texts_(texts) {}
  bool done() const override { return at_ >= texts_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return texts_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& texts_;
  size_t at_ = 0;
};

/// SentencePiece's message without its source file and condition: what follows the last "]".
std::string reason(const std::string& message) {
  size_t bracket = message.rfind("] ");
  return bracket == std::string::npos ? message : message.substr(bracket + 2);
}

}  // namespace

std::string train_tokenizer(const std::vector<std::string>& texts, const TokenizerTraining& training) {
  if (texts.empty()) throw InputError("there is no text to train a tokenizer from.");
  const std::unordered_map<std::string, std::string> settings = {
      {"model_type", training.model_type},
      {"vocab_size", std::to_string(training.vocab_size)},
      {"pad_id", "0"},
      {"eos_id", "1"},
      {"unk_id", "2"},
      {"bos_id", "-1"},
      {"pad_piece", "<pad>"},
      {"eos_piece", "</s>"},
      {"unk_piece", "<unk>"},
      {"character_coverage", "0.9999"},
      {"max_sentence_length", std::to_string(1 << 24)},  // by default, longer lines are left out without a word
      {"num_threads", "1"},                              // sums of several threads differ in their last bits
      {"hard_vocab_limit", "false"},                     // a short text may hold fewer pieces
      {"minloglevel", "2"},
  };
  TextIterator iterator(texts);
  std::string model;
  auto status = sentencepiece::SentencePieceTrainer::Train(settings, &iterator, &model);
  if (!status.ok()) {
    throw InputError("cannot train a tokenizer of {} pieces from {} texts: {}", training.vocab_size, texts.size(),
                     reason(status.ToString()));
  }
  return model;
}

std::string tokenizer_config_json(const TokenizerTraining& training) {
  nlohmann::ordered_json config = {
      {"eos_token", "</s>"},  {"extra_ids", training.extra_ids},  {"pad_token", "<pad>"},
      {"unk_token", "<unk>"}, {"tokenizer_class", "T5Tokenizer"},
  };
  return config.dump(2) + "\n";
}

}  // namespace trainer::data
