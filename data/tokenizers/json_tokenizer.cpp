#include "data/tokenizers/json_tokenizer.h"

#include <algorithm>

#include "data/json/parse_json.h"
#include "data/tokenizers/models/byte_alphabet.h"
#include "data/tokenizers/text/characters.h"
#include "data/tokenizers/tokenizer_files.h"
#include "data/tokenizers/tokenizer_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxTokenizerBytes = 256 << 20;

class JsonTokenizer : public Tokenizer {
 public:
  JsonTokenizer(TokenizerStages stages, TokenizerSettings settings, std::vector<fs::path> files)
      : stages_(std::move(stages)), settings_(std::move(settings)), files_(std::move(files)) {
    add_configured_tokens();
    stages_.added.prepare(stages_.normalizer.get());
    size_ = 1 + std::max(stages_.largest_id, int64_t{stages_.added.largest_id()});
    if (stages_.pre_tokenizer) {
      needs_origins_ = stages_.pre_tokenizer->needs_origins(stages_.normalizer != nullptr);
      bytes_ = stages_.pre_tokenizer->leave_bytes();
    }
    unk_id_ = role(settings_.unk_token.empty() ? stages_.unk_token : settings_.unk_token);
    bos_id_ = role(settings_.bos_token);
    eos_id_ = role(settings_.eos_token);
    pad_id_ = role(settings_.pad_token);
    if (eos_id_ < 0 && settings_.eos_id < size_) eos_id_ = settings_.eos_id;
  }

  std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
    std::vector<int32_t> ids;
    std::vector<PlacedToken> tokens = tokenize(text, add_special, false);
    ids.reserve(tokens.size());
    for (const PlacedToken& token : tokens) ids.push_back(token.id);
    return ids;
  }

  TokenOffsets encode_with_offsets(std::string_view text, bool add_special) const override {
    TokenOffsets result;
    for (const PlacedToken& token : tokenize(text, add_special, true)) {
      result.ids.push_back(token.id);
      result.begins.push_back(token.begin);
      result.ends.push_back(token.end);
    }
    return result;
  }

  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::vector<std::string> pieces;
    for (int32_t id : ids) {
      std::optional<std::string_view> piece = decoded_piece(id);
      if (piece && !(skip_special && stages_.added.is_special(*piece))) pieces.emplace_back(*piece);
    }
    if (stages_.decoder) stages_.decoder->apply(pieces);
    return fmt::format("{}", fmt::join(pieces, stages_.decoder ? "" : " "));
  }

  int64_t size() const override { return size_; }

  std::optional<int32_t> id_of(std::string_view piece) const override {
    if (auto id = stages_.added.id_of(piece)) return id;
    return stages_.model->id_of(piece);
  }

  std::string piece_of(int32_t id) const override {
    require(id >= 0 && id < size_, "token {} of {}", id, size_);
    if (const AddedToken* token = stages_.added.token_of(id)) return token->content;
    return std::string(stages_.model->piece_of(id));
  }

  int32_t pad_id() const override { return pad_id_; }
  int32_t bos_id() const override { return bos_id_; }
  int32_t eos_id() const override { return eos_id_; }
  int32_t unk_id() const override { return unk_id_; }
  const std::vector<fs::path>& files() const override { return files_; }
  const ChatTemplates& chat_templates() const override { return settings_.chat_templates; }

 private:
  /// Adds the tokens that are only in tokenizer_config.json after all others, as transformers does.
  void add_configured_tokens() {
    std::vector<AddedToken> missing;
    for (const auto& [id, token] : settings_.added) {
      if (!id_of(token.content)) missing.push_back(token);
    }
    stages_.added.add(missing, *stages_.model);
    for (const std::string& name : settings_.special_tokens()) {
      if (!id_of(name)) stages_.added.add({{.content = name, .normalized = false, .special = true}}, *stages_.model);
    }
  }

  int32_t role(const std::string& token) const { return token.empty() ? -1 : id_of(token).value_or(-1); }

  std::optional<std::string_view> decoded_piece(int32_t id) const {
    if (const std::string* text = stages_.added.text_of(id)) return *text;
    std::string_view piece = stages_.model->piece_of(id);
    return piece.data() ? std::optional(piece) : std::nullopt;
  }

  void encode_piece(std::string_view text, std::vector<Token>& found) const {
    try {
      if (bytes_)
        stages_.model->encode_bytes(text, found);
      else
        stages_.model->encode(text, found);
    } catch (const InputError& error) {
      throw InputError("{}: {}", files_.empty() ? "tokenizer.json" : files_.front().string(), error.what());
    }
  }

  std::vector<PlacedToken> tokenize(std::string_view text, bool add_special, bool offsets) const {
    check_length(text);
    std::string repaired;
    if (repair_utf8(text, repaired)) text = repaired;
    Pieces pieces = cut(text, offsets);
    std::vector<PlacedToken> tokens;
    tokens.reserve(text.size() / 3 + 8);
    std::vector<Token> found;
    for (const Piece& piece : pieces.list) {
      found.clear();
      if (piece.token >= 0) {
        found.push_back({piece.token, 0, piece.end - piece.begin});
      } else {
        encode_piece(pieces.view(piece), found);
      }
      for (const Token& token : found) tokens.push_back(offsets ? place(pieces, piece, token) : PlacedToken{token.id});
    }
    if (stages_.post_processor) stages_.post_processor->apply(tokens, text, add_special);
    return tokens;
  }

  /// Splits a text into pieces for the model and added tokens.
  Pieces cut(std::string_view text, bool offsets) const {
    Pieces pieces{AlignedText(text, 0, offsets || needs_origins_), {}};
    if (text.empty()) return pieces;
    pieces.list.push_back({0, static_cast<uint32_t>(text.size())});
    stages_.added.split_original(pieces);
    if (stages_.normalizer) normalize(pieces);
    stages_.added.split_normalized(pieces);
    if (stages_.pre_tokenizer) stages_.pre_tokenizer->apply(pieces);
    return pieces;
  }

  void normalize(Pieces& pieces) const {
    if (pieces.list.size() == 1 && pieces.list[0].token < 0) {
      stages_.normalizer->apply(pieces.text);
      pieces.list[0].end = static_cast<uint32_t>(pieces.text.view().size());
    } else {
      pieces.rewrite([&](const Piece& piece, Rewrite& out) {
        AlignedText part(pieces.view(piece), piece.begin, pieces.text.aligned());
        stages_.normalizer->apply(part);
        out.append(part);
      });
    }
    std::erase_if(pieces.list, [](const Piece& piece) { return piece.begin == piece.end; });
  }

  /// The position of a piece's token in the original text.
  PlacedToken place(const Pieces& pieces, const Piece& piece, const Token& token) const {
    size_t begin = piece.begin + token.begin, end = piece.begin + token.end;
    Origin origin = begin < end ? pieces.text.origin(begin, end) : Origin{0, 0};
    PlacedToken placed{token.id, origin.begin, origin.end};
    std::string_view text = piece.token >= 0 ? pieces.view(piece) : stages_.model->piece_of(token.id);
    for (size_t at = 0; at < text.size() && is_space(char_at(text, at).code); at += char_at(text, at).length) {
      placed.leading_spaces += placed.leading_spaces < UINT16_MAX;
    }
    for (size_t at = text.size(); at > 0 && is_space(char_before(text, at).code); at -= char_before(text, at).length) {
      placed.trailing_spaces += placed.trailing_spaces < UINT16_MAX;
    }
    return placed;
  }

  static bool is_space(char32_t code) {
    return code == ByteAlphabet::instance().code_point(' ') || is_white_space(code);
  }

  TokenizerStages stages_;
  TokenizerSettings settings_;
  std::vector<fs::path> files_;
  int64_t size_ = 0;
  bool needs_origins_ = false;
  bool bytes_ = false;  // the model spells bytes
  int32_t pad_id_ = -1, bos_id_ = -1, eos_id_ = -1, unk_id_ = -1;
};

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer_json(const fs::path& file) {
  const std::string text = read_file(file, kMaxTokenizerBytes);
  if (auto parsed = parse_bpe_tokenizer(text)) {
    try {
      return make_json_tokenizer(parsed->root, file, read_tokenizer_settings(file), &parsed->lists);
    } catch (const InputError&) {  // thrown again below, or of a piece that stands twice, of which the last counts
    }
  }
  return make_json_tokenizer(parse_json(text, file.string()), file, read_tokenizer_settings(file));
}

std::unique_ptr<Tokenizer> make_json_tokenizer(const nlohmann::json& root, const fs::path& file,
                                               TokenizerSettings settings, TokenLists* lists) {
  return std::make_unique<JsonTokenizer>(read_tokenizer_json(root, file.string(), lists), std::move(settings),
                                         tokenizer_files_in(file.parent_path()));
}

}  // namespace trainer::data
