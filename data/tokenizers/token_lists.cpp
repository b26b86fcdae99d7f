#include "data/tokenizers/token_lists.h"

#include "data/tokenizers/read_token_model.h"
#include "engine/base/bounded_json.h"

namespace trainer::data {
namespace {

using nlohmann::json;

/// Makes values of everything but the lists. A function that returns false ends the parsing.
class ListParser final : public nlohmann::json_sax<json> {
 public:
  ParsedTokenizer parsed;

  /// Whether both lists were found, once each, in a model of type BPE, and there are pieces.
  bool complete() const {
    const auto model = parsed.root.find("model");
    return vocabs_ == 1 && merges_ == 1 && models_ == 1 && !parsed.lists.vocab.empty() && model != parsed.root.end() &&
           model->is_object() && model->value("type", json()) == "BPE";
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }  // negative
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool binary(binary_t&) override { return false; }

  bool number_unsigned(number_unsigned_t value) override {
    if (list_ != kVocab) return add(value);
    if (value >= static_cast<number_unsigned_t>(kMaxTokenId)) return false;
    parsed.lists.vocab.emplace_back(std::move(key_), static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (list_ == kPair) {
      if (++parts_ > 2) return false;
      (parts_ == 1 ? parsed.lists.merges.emplace_back().first : parsed.lists.merges.back().second) = std::move(value);
      return true;
    }
    if (in_model() && key_ == "type" && value != "BPE") return false;  // before the pieces, in most files
    if (list_ != kMerges) return add(std::move(value));
    auto parts = split_merge(value);
    if (parts) parsed.lists.merges.push_back(std::move(*parts));
    return parts.has_value();
  }

  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }

  bool start_object(std::size_t) override {
    if (in_model() && key_ == "vocab") return ++vocabs_ == 1 && begin(kVocab);
    if (open_.size() == 1 && key_ == "model") ++models_;
    return open(json::object());
  }
  bool end_object() override { return list_ == kVocab ? begin(kNone) : close(); }

  bool start_array(std::size_t) override {
    if (list_ == kMerges) {
      parts_ = 0;
      return begin(kPair);
    }
    if (in_model() && key_ == "merges") return ++merges_ == 1 && begin(kMerges);
    if (in_model() && key_ == "vocab") return false;
    return open(json::array());
  }
  bool end_array() override {
    if (list_ == kPair) return parts_ == 2 && begin(kMerges);
    return list_ == kMerges ? begin(kNone) : close();
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  enum List { kNone, kVocab, kMerges, kPair };

  /// Among the model's own members.
  bool in_model() const { return list_ == kNone && models_ == 1 && open_.size() == 2 && open_.back() == model_; }

  bool begin(List list) {
    list_ = list;
    return true;
  }

  /// Where the next value belongs.
  json& next() {
    if (open_.empty()) return parsed.root;
    if (!open_.back()->is_array()) return (*open_.back())[key_];
    open_.back()->push_back(nullptr);
    return open_.back()->back();
  }

  bool add(json&& value) {
    if (list_ != kNone) return false;
    next() = std::move(value);
    return true;
  }

  bool open(json&& value) {
    if (list_ != kNone || open_.size() >= kMaxJsonDepth) return false;
    const bool is_model = open_.size() == 1 && key_ == "model";
    json& placed = next();
    placed = std::move(value);
    open_.push_back(&placed);
    if (is_model) model_ = &placed;
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  List list_ = kNone;
  int models_ = 0, vocabs_ = 0, merges_ = 0, parts_ = 0;
  std::string key_;          // the last one
  std::vector<json*> open_;  // lists and objects that haven't ended
  const json* model_ = nullptr;
};

}  // namespace

std::optional<ParsedTokenizer> parse_bpe_tokenizer(std::string_view text) {
  ListParser parser;
  if (!json::sax_parse(text.begin(), text.end(), &parser) || !parser.complete()) return std::nullopt;
  return std::move(parser.parsed);
}

std::optional<std::pair<std::string, std::string>> split_merge(std::string_view merge) {
  const size_t space = merge.find(' ');
  if (space == merge.npos || merge.find(' ', space + 1) != merge.npos) return std::nullopt;
  return std::pair(std::string(merge.substr(0, space)), std::string(merge.substr(space + 1)));
}

}  // namespace trainer::data
