#include "data/tokenizers/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "data/tokenizers/sentencepiece_check.h"
#include "data/tokenizers/special_tokens.h"
#include "data/tokenizers/text/characters.h"
#include "data/tokenizers/tokenizer_files.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxModelBytes = 128 << 20;
constexpr std::string_view kSpaceMark = "\u2581";  // SentencePiece's visible space

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const fs::path& path) : files_(tokenizer_files_in(path.parent_path())) {
    load(path);
    TokenizerSettings settings = read_tokenizer_settings(path);
    add_special_tokens(settings);
    bos_id_ = special_id(settings.bos_token, processor_.bos_id());
    eos_id_ = special_id(settings.eos_token, processor_.eos_id());
    unk_id_ = special_id(settings.unk_token, processor_.unk_id());
    pad_id_ = special_id(settings.pad_token, processor_.pad_id());
    if (eos_id_ < 0) {
      throw InputError(
          "{}: the tokenizer has no end-of-sequence piece </s>.\nName it as eos_token in tokenizer_config.json.",
          path.string());
    }
    size_ = std::max<int64_t>(processor_.GetPieceSize(), special_.end_id());
    // LLaMA's tokenizers put <s> in front, and T5's and the like </s> behind.
    bool llama = path.filename() == "tokenizer.model" && bos_id_ >= 0 && settings.extra_ids == 0;
    add_bos_ = settings.add_bos.value_or(llama) && bos_id_ >= 0;
    add_eos_ = settings.add_eos.value_or(!llama);
    if (!settings.legacy) guard_ = processor_.IdToPiece(processor_.unk_id());
    chat_templates_ = std::move(settings.chat_templates);
  }

  std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
    std::string repaired;
    if (repair_utf8(text, repaired)) text = repaired;
    std::vector<int32_t> ids;
    if (add_special && add_bos_) ids.push_back(bos_id_);
    for (const SpecialTokens::Part& part : special_.split(text)) {
      if (part.id >= 0) {
        ids.push_back(part.id);
      } else {
        bool follows = part.text.data() != text.data();
        std::vector<int> pieces = encode_part(follows ? guard_ + std::string(part.text) : std::string(part.text));
        ids.insert(ids.end(), pieces.begin() + static_cast<ptrdiff_t>(follows ? guard_size() : 0), pieces.end());
      }
    }
    if (add_special && add_eos_) ids.push_back(eos_id_);
    return ids;
  }

  TokenOffsets encode_with_offsets(std::string_view text, bool add_special) const override {
    std::string repaired;
    if (repair_utf8(text, repaired)) text = repaired;
    TokenOffsets result;
    auto push = [&](int32_t id, size_t begin, size_t end) {
      result.ids.push_back(id);
      result.begins.push_back(begin);
      result.ends.push_back(end);
    };
    if (add_special && add_bos_) push(bos_id_, 0, 0);
    for (const SpecialTokens::Part& part : special_.split(text)) {
      auto start = static_cast<size_t>(part.text.data() - text.data());
      if (part.id >= 0) {
        push(part.id, start, start + part.text.size());
        continue;
      }
      const std::string& guard = start > 0 ? guard_ : kNoGuard;
      auto proto = processor_.EncodeAsImmutableProto(guard + std::string(part.text));  // owns its pieces
      auto pieces = proto.pieces();
      for (size_t i = guard.empty() ? 0 : guard_size(); i < pieces.size(); ++i) {
        push(static_cast<int32_t>(pieces[i].id()), start + pieces[i].begin() - guard.size(),
             start + pieces[i].end() - guard.size());
      }
    }
    if (add_special && add_eos_) push(eos_id_, text.size(), text.size());
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
    int id = processor_.PieceToId(piece);  // the unknown id when there is none
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
  const std::string* chat_template(std::string_view name) const override {
    auto found = chat_templates_.find(name);
    return found == chat_templates_.end() ? nullptr : &found->second;
  }

 private:
  static inline const std::string kNoGuard;

  std::vector<int> encode_part(const std::string& text) const {
    std::vector<int> pieces;
    auto status = processor_.Encode(text, &pieces);
    if (!status.ok()) throw InputError("the tokenizer cannot encode a text: {}.", status.ToString());
    return pieces;
  }

  /// How many pieces the guard takes.
  size_t guard_size() const { return guard_.empty() ? 0 : encode_part(guard_).size(); }

  void load(const fs::path& path) {
    std::string model = read_file(path, kMaxModelBytes);
    check_sentencepiece_model(model, path.string());
    auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok()) throw InputError("{}: SentencePiece refuses this model: {}.", path.string(), status.ToString());
  }

  void add_special_tokens(const TokenizerSettings& settings) {
    for (const auto& [id, token] : settings.added) special_.add(token.content, {id, token.lstrip, token.rstrip});
    int32_t pieces = processor_.GetPieceSize();
    for (int32_t id = 0; id < pieces; ++id) {
      if (processor_.IsControl(id) || processor_.IsUnknown(id)) special_.add(processor_.IdToPiece(id), {id});
    }
    for (int32_t i = 0; i < settings.extra_ids; ++i) {
      std::string text = fmt::format("<extra_id_{}>", i);
      auto id = static_cast<int32_t>(pieces + settings.extra_ids - 1 - i);
      if (!id_of(text)) special_.add(text, {id, true, true});
    }
  }

  /// The id of the configured token, which is added behind all others when the model lacks it, as transformers does.
  int32_t special_id(const std::string& token, int fallback) {
    if (token.empty()) return fallback;
    if (auto id = id_of(token)) return *id;
    auto id = static_cast<int32_t>(std::max<int64_t>(processor_.GetPieceSize(), special_.end_id()));
    special_.add(token, {id});
    return id;
  }

  /// Decodes and empties `run`. SentencePiece drops the first space of a text, which counts after a special token.
  void append_run(std::vector<int>& run, std::string& text) const {
    if (run.empty()) return;
    if (!text.empty() && processor_.IdToPiece(run[0]).starts_with(kSpaceMark)) text += ' ';
    std::string part;
    auto status = processor_.Decode(run, &part);
    if (!status.ok()) throw InternalError("SentencePiece cannot decode its own ids: {}", status.ToString());
    text += part;
    run.clear();
  }

  sentencepiece::SentencePieceProcessor processor_;
  SpecialTokens special_;
  std::vector<fs::path> files_;
  int64_t size_ = 0;
  // Put before a text that follows a special token, and its pieces taken away again, so that the model's space in front
  // goes with it: so do transformers' tokenizers that are not "legacy".
  std::string guard_;
  std::map<std::string, std::string, std::less<>> chat_templates_;
  bool add_bos_ = false, add_eos_ = true;
  int32_t pad_id_ = -1, bos_id_ = -1, eos_id_ = -1, unk_id_ = -1;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const fs::path& model_file) {
  return std::make_unique<SentencePieceTokenizer>(model_file);
}

}  // namespace trainer::data
