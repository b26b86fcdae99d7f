#include "data/tokenizers/tokenizer_trainer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

/// Passes texts to SentencePiece.
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

/// SentencePiece's message without its source file and condition: the part after the last "]".
std::string reason(const std::string& message) {
  size_t bracket = message.rfind("] ");
  return bracket == std::string::npos ? message : message.substr(bracket + 2);
}

using Settings = std::unordered_map<std::string, std::string>;

Settings settings_of(const TokenizerTraining& training) {
  const bool t5 = training.layout == TokenizerLayout::kT5;
  Settings settings = {
      {"model_type", !training.model_type.empty() ? training.model_type
                     : t5                         ? "unigram"
                                                  : "bpe"},
      {"vocab_size", std::to_string(training.vocab_size)},
      {"character_coverage", "0.9999"},
      {"max_sentence_length", std::to_string(1 << 24)},  // by default, longer lines are skipped silently
      {"num_threads", "1"},                              // with several threads, sums differ in their last bits
      {"hard_vocab_limit", "false"},                     // a short text may contain fewer pieces
      {"minloglevel", "2"},
  };
  const Settings of_t5{{"pad_id", "0"},        {"eos_id", "1"},       {"unk_id", "2"},       {"bos_id", "-1"},
                       {"pad_piece", "<pad>"}, {"eos_piece", "</s>"}, {"unk_piece", "<unk>"}};
  const Settings of_llama{{"unk_id", "0"},
                          {"bos_id", "1"},
                          {"eos_id", "2"},
                          {"pad_id", "-1"},
                          {"byte_fallback", "true"},
                          {"split_digits", "true"},
                          // Decoding restores a text exactly, including line breaks.
                          {"normalization_rule_name", "identity"},
                          {"remove_extra_whitespaces", "false"},
                          {"allow_whitespace_only_pieces", "true"}};
  settings.merge(Settings(t5 ? of_t5 : training.layout == TokenizerLayout::kLlama ? of_llama : Settings{}));
  return settings;
}

std::string train_model(const std::vector<std::string>& texts, const TokenizerTraining& training) {
  TextIterator iterator(texts);
  std::string model;
  auto status = sentencepiece::SentencePieceTrainer::Train(settings_of(training), &iterator, &model);
  if (!status.ok()) {
    throw InputError("cannot train a tokenizer of {} pieces from {} texts: {}", training.vocab_size, texts.size(),
                     reason(status.ToString()));
  }
  return model;
}

/// Words in lower case with spaces around punctuation, as BERT splits them.
std::string as_bert_reads(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::ispunct(byte) != 0)
      out.append({' ', c, ' '});
    else
      out += byte < 0x80 ? static_cast<char>(std::tolower(byte)) : c;
  }
  return out;
}

/// SentencePiece marks the beginning of a word, WordPiece its continuation.
std::string vocabulary_for_bert(const std::string& model, int64_t most) {
  constexpr std::string_view kWord = "\xe2\x96\x81";
  sentencepiece::SentencePieceProcessor processor;
  const auto status = processor.LoadFromSerializedProto(model);
  require(status.ok(), "the trained model is broken: {}", status.ToString());
  std::vector<std::string> lines{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  std::set<std::string> seen(lines.begin(), lines.end());
  const auto add = [&](const std::string& line) {
    if (static_cast<int64_t>(lines.size()) < most && seen.insert(line).second) lines.push_back(line);
  };
  std::vector<std::string> begins, others;
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    if (processor.IsUnknown(id) || processor.IsControl(id)) continue;
    const std::string& piece = processor.IdToPiece(id);
    if (piece == kWord) continue;
    if (piece.starts_with(kWord))
      begins.push_back(piece.substr(kWord.size()));
    else
      others.push_back(piece);
  }
  for (const std::string& piece : others)  // single characters in both forms, so that no word is unknown
    if (count_characters(piece) == 1) add(piece), add("##" + piece);
  for (const std::string& piece : begins) add(piece);
  for (const std::string& piece : others) add("##" + piece);
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string config_text(const nlohmann::ordered_json& config) {
  return config.dump(2) + "\n";
}

}  // namespace

std::vector<TokenizerFile> train_tokenizer(const std::vector<std::string>& texts, const TokenizerTraining& training) {
  if (texts.empty()) throw InputError("the files have no text to train a tokenizer from.");
  const std::string name = "tokenizer_config.json";
  switch (training.layout) {
    case TokenizerLayout::kT5:
      return {{"spiece.model", train_model(texts, training)},
              {name, config_text({{"eos_token", "</s>"},
                                  {"extra_ids", training.extra_ids},
                                  {"pad_token", "<pad>"},
                                  {"unk_token", "<unk>"},
                                  {"tokenizer_class", "T5Tokenizer"}})}};
    case TokenizerLayout::kLlama:
      return {{"tokenizer.model", train_model(texts, training)},
              {name, config_text({{"add_bos_token", true},
                                  {"add_eos_token", false},
                                  {"bos_token", "<s>"},
                                  {"eos_token", "</s>"},
                                  {"unk_token", "<unk>"},
                                  {"legacy", false},
                                  {"tokenizer_class", "LlamaTokenizer"}})}};
    case TokenizerLayout::kBert:
      break;
  }
  std::vector<std::string> words;
  for (const std::string& text : texts) words.push_back(as_bert_reads(text));
  return {{"vocab.txt", vocabulary_for_bert(train_model(words, training), training.vocab_size)},
          {name, config_text({{"do_lower_case", true},
                              {"cls_token", "[CLS]"},
                              {"mask_token", "[MASK]"},
                              {"pad_token", "[PAD]"},
                              {"sep_token", "[SEP]"},
                              {"unk_token", "[UNK]"},
                              {"tokenizer_class", "BertTokenizer"}})}};
}

}  // namespace trainer::data
