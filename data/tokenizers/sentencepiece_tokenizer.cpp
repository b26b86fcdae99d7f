#include "data/tokenizers/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <mutex>

#include "data/json/parse_json.h"
#include "data/tokenizers/json_tokenizer.h"
#include "data/tokenizers/sentencepiece_check.h"
#include "data/tokenizers/sentencepiece_json.h"
#include "data/tokenizers/special_tokens.h"
#include "data/tokenizers/text/characters.h"
#include "data/tokenizers/tokenizer_files.h"
#include "data/tokenizers/tokenizer_probe.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxModelBytes = 128 << 20;
constexpr std::string_view kSpaceMark = "\u2581";  // SentencePiece's visible space

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const fs::path& path)
      : path_(path), files_(tokenizer_files_in(path.parent_path())), settings_(read_tokenizer_settings(path)) {
    load(path);
    add_special_tokens();
    bos_id_ = special_id(settings_.bos_token, processor_.bos_id());
    eos_id_ = special_id(settings_.eos_token, processor_.eos_id());
    unk_id_ = special_id(settings_.unk_token, processor_.unk_id());
    pad_id_ = special_id(settings_.pad_token, processor_.pad_id());
    if (eos_id_ < 0) {
      throw InputError(
          "{}: the tokenizer has no end-of-sequence piece </s>.\nName it as eos_token in tokenizer_config.json.",
          path.string());
    }
    size_ = std::max<int64_t>(processor_.GetPieceSize(), special_.end_id());
    // LLaMA's tokenizers prepend <s>; those of the T5 family append </s>.
    bool llama = path.filename() == "tokenizer.model" && bos_id_ >= 0 && settings_.extra_ids == 0;
    add_bos_ = settings_.add_bos.value_or(llama) && bos_id_ >= 0;
    add_eos_ = settings_.add_eos.value_or(!llama);
    if (!settings_.legacy) guard_ = choose_guard();
  }

  std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
    std::vector<int32_t> ids;
    for_each_token(text, add_special, [&](int32_t id, size_t, size_t) { ids.push_back(id); });
    return ids;
  }

  TokenOffsets encode_with_offsets(std::string_view text, bool add_special) const override {
    TokenOffsets result;
    for_each_token(text, add_special, [&](int32_t id, size_t begin, size_t end) {
      result.ids.push_back(id);
      result.begins.push_back(begin);
      result.ends.push_back(end);
    });
    return result;
  }

  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::string text;
    std::vector<int> run;  // ordinary pieces in a row
    for (int32_t id : ids) {
      if (id < 0 || id >= size_) continue;
      const std::string* special = special_.text_of(id);
      if (!special) {
        if (id < processor_.GetPieceSize()) run.push_back(id);
      } else if (!skip_special) {
        append_run(run, text);
        text += *special;
      }
    }
    append_run(run, text);
    return text;
  }

  int64_t size() const override { return size_; }

  std::optional<int32_t> id_of(std::string_view piece) const override {
    if (const SpecialToken* token = special_.find(piece)) return token->id;
    int id = processor_.PieceToId(piece);  // the unknown id for a piece it doesn't have
    bool found = id >= 0 && id < processor_.GetPieceSize() && processor_.IdToPiece(id) == piece;
    return found ? std::optional<int32_t>(id) : std::nullopt;
  }

  std::string piece_of(int32_t id) const override {
    require(id >= 0 && id < size_, "token {} of {}", id, size_);
    if (const std::string* special = special_.text_of(id)) return *special;
    return id < processor_.GetPieceSize() ? processor_.IdToPiece(id) : "";
  }

  int32_t pad_id() const override { return pad_id_; }
  int32_t bos_id() const override { return bos_id_; }
  int32_t eos_id() const override { return eos_id_; }
  int32_t unk_id() const override { return unk_id_; }
  const std::vector<fs::path>& files() const override { return files_; }
  const ChatTemplates& chat_templates() const override { return settings_.chat_templates; }

  std::string tokenizer_json() const override {
    std::call_once(json_once_, [this] { json_ = make_json(); });
    return json_;
  }

 private:
  static inline const std::string kNoGuard;

  /// Calls push(id, begin, end) for each token of `text`.
  template <class Push>
  void for_each_token(std::string_view text, bool add_special, const Push& push) const {
    std::string repaired;
    if (repair_utf8(text, repaired)) text = repaired;
    if (add_special && add_bos_) push(bos_id_, 0, 0);
    for (const SpecialTokens::Part& part : special_.split(text)) {
      auto start = static_cast<size_t>(part.text.data() - text.data());
      if (part.id >= 0) {
        push(part.id, start, start + part.text.size());
      } else {
        encode_part(part.text, start, push);
      }
    }
    if (add_special && add_eos_) push(eos_id_, text.size(), text.size());
  }

  /// A part that follows a special token is encoded after the guard, whose pieces are dropped. Consecutive unknown
  /// characters are one piece: if the guard's piece extends into the part, it belongs to the part.
  template <class Push>
  void encode_part(std::string_view part, size_t start, const Push& push) const {
    const std::string& guard = start > 0 ? guard_ : kNoGuard;
    sentencepiece::ImmutableSentencePieceText encoded;
    auto status = processor_.Encode(guard + std::string(part), encoded.mutable_proto());
    if (!status.ok()) throw InputError("the tokenizer cannot encode a text: {}.", status.ToString());
    for (const auto& piece : encoded.pieces()) {
      const auto id = static_cast<int32_t>(piece.id());
      const bool is_guards =
          piece.begin() < guard.size() && (id != processor_.unk_id() || piece.piece().ends_with(guard));
      if (is_guards) continue;
      push(id, start + std::max<size_t>(piece.begin(), guard.size()) - guard.size(),
           start + piece.end() - guard.size());
    }
  }

  /// Whether normalization leaves an unknown character unchanged.
  bool is_kept(const std::string& character) const {
    std::vector<int> ids = processor_.EncodeAsIds(character);
    return std::any_of(ids.begin(), ids.end(),
                       [&](int id) { return processor_.IsUnknown(id) || processor_.IsByte(id); });
  }

  /// A character that is in no piece, so that nothing merges with it, and that normalization leaves unchanged.
  std::string choose_guard() const {
    for (char32_t code = 0xE000; code < 0xF900; ++code) {  // private-use characters
      std::string guard;
      append_character(guard, code);
      bool known = false;
      for (int id = 0; id < processor_.GetPieceSize() && !known; ++id) {
        known = processor_.IdToPiece(id).find(guard) != std::string::npos;
      }
      if (!known && is_kept(guard)) return guard;
    }
    throw InputError("{}: every private-use character has a piece, but `legacy: false` needs one without.",
                     path_.string());
  }

  void load(const fs::path& path) {
    std::string model = read_file(path, kMaxModelBytes);
    check_sentencepiece_model(model, path.string());
    auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok()) throw InputError("{}: SentencePiece rejects this model: {}.", path.string(), status.ToString());
  }

  void add_special_tokens() {
    for (const auto& [id, token] : settings_.added) special_.add(token.content, {id, token.lstrip, token.rstrip});
    int32_t pieces = processor_.GetPieceSize();
    for (int32_t id = 0; id < pieces; ++id) {
      if (processor_.IsControl(id) || processor_.IsUnknown(id)) special_.add(processor_.IdToPiece(id), {id});
    }
    for (int32_t i = 0; i < settings_.extra_ids; ++i) {
      std::string text = fmt::format("<extra_id_{}>", i);
      auto id = static_cast<int32_t>(pieces + settings_.extra_ids - 1 - i);
      if (!id_of(text)) special_.add(text, {id, true, true});
    }
  }

  /// The id of the configured token, which is added after all others if the model lacks it, as transformers does.
  int32_t special_id(const std::string& token, int fallback) {
    if (token.empty()) return fallback;
    if (auto id = id_of(token)) return *id;
    auto id = static_cast<int32_t>(std::max<int64_t>(processor_.GetPieceSize(), special_.end_id()));
    special_.add(token, {id});
    return id;
  }

  std::string make_json() const {
    SentencePieceSetup setup;
    setup.legacy = settings_.legacy;
    for (const auto& [text, token] : special_.all()) {
      auto added = settings_.added.find(token.id);
      setup.special[token.id] = {.content = text,
                                 .lstrip = token.strip_left,
                                 .rstrip = token.strip_right,
                                 .normalized = false,
                                 .special = added == settings_.added.end() || added->second.special};
    }
    if (add_bos_) setup.bos = piece_of(setup.bos_id = bos_id_);
    if (add_eos_) setup.eos = piece_of(setup.eos_id = eos_id_);
    const std::string content = processor_.serialized_model_proto();
    const SentencePieceModel model = read_sentencepiece_model(content);
    std::string text = sentencepiece_json(model, setup).dump();
    const std::string difference = difference_of(text, model.model_type == SentencePieceModel::kUnigram);
    if (difference.empty()) return text;
    log::warning(
        "{}: no tokenizer.json is written next to it, because it would give different ids: {}.\n"
        "transformers may tokenize differently with this model: compare its ids with those of `trainer tokenize "
        "--ids`.",
        path_.string(), difference);
    return "";
  }

  /// The first difference between the tokenizer that `text` describes and this one; "" for none. For equally likely
  /// pieces the libraries may choose different orders: they add up scores in 32 and 64 bits.
  std::string difference_of(const std::string& text, bool is_unigram) const {
    std::vector<std::string> special;
    for (const auto& [token, unused] : special_.all()) special.push_back(token);
    try {
      auto other = make_json_tokenizer(parse_json(text, "tokenizer.json"), "tokenizer.json", {});
      return first_difference(*this, *other, special, is_unigram);
    } catch (const InputError& error) {
      return error.what();
    }
  }

  /// Decodes and clears `run`. SentencePiece drops the first space of a text, which must be kept after a special token.
  void append_run(std::vector<int>& run, std::string& text) const {
    if (run.empty()) return;
    if (!text.empty() && processor_.IdToPiece(run[0]).starts_with(kSpaceMark)) text += ' ';
    std::string part;
    auto status = processor_.Decode(run, &part);
    if (!status.ok()) throw InternalError("SentencePiece cannot decode its own ids: {}", status.ToString());
    text += part;
    run.clear();
  }

  fs::path path_;
  std::vector<fs::path> files_;
  TokenizerSettings settings_;
  sentencepiece::SentencePieceProcessor processor_;
  SpecialTokens special_;
  int64_t size_ = 0;
  // Without `legacy`: prepended to a text after a special token, so that the guard gets the model's leading space.
  std::string guard_;
  bool add_bos_ = false, add_eos_ = true;
  int32_t pad_id_ = -1, bos_id_ = -1, eos_id_ = -1, unk_id_ = -1;
  mutable std::once_flag json_once_;
  mutable std::string json_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const fs::path& model_file) {
  return std::make_unique<SentencePieceTokenizer>(model_file);
}

}  // namespace trainer::data
