#include "data/tokenizers/sentencepiece_model.h"

#include "data/tokenizers/wire_format.h"

namespace trainer::data {
namespace {

SentencePieceModel::Piece read_piece(std::string_view message) {
  SentencePieceModel::Piece piece;
  for (WireReader reader(message); reader.next();) {
    if (reader.field() == 1) piece.text = reader.bytes();
    if (reader.field() == 2) piece.score = reader.fixed32();
    if (reader.field() == 3) piece.type = static_cast<PieceType>(reader.varint());
  }
  return piece;
}

void read_trainer_spec(std::string_view message, SentencePieceModel& model) {
  for (WireReader reader(message); reader.next();) {
    if (reader.field() == 3) model.model_type = reader.varint();
    if (reader.field() == 24) model.treat_whitespace_as_suffix = reader.varint() != 0;
    if (reader.field() == 35) model.byte_fallback = reader.varint() != 0;
  }
}

void read_normalizer_spec(std::string_view message, SentencePieceModel& model) {
  for (WireReader reader(message); reader.next();) {
    if (reader.field() == 2) model.charsmap = reader.bytes();
    if (reader.field() == 3) model.add_dummy_prefix = reader.varint() != 0;
    if (reader.field() == 4) model.remove_extra_whitespaces = reader.varint() != 0;
    if (reader.field() == 5) model.escape_whitespaces = reader.varint() != 0;
  }
}

}  // namespace

SentencePieceModel read_sentencepiece_model(std::string_view content) {
  SentencePieceModel model;
  for (WireReader reader(content); reader.next();) {
    if (reader.field() == 1) model.pieces.push_back(read_piece(reader.bytes()));
    if (reader.field() == 2) read_trainer_spec(reader.bytes(), model);
    if (reader.field() == 3) read_normalizer_spec(reader.bytes(), model);
  }
  return model;
}

}  // namespace trainer::data
