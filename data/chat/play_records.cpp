#include "data/chat/play_records.h"

#include <nlohmann/json.hpp>

#include "data/readers/text_input.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

const std::string& text_of(const Record& line) {
  return line.fields.front().second;
}

std::string_view speaker_of(const Record& line) {
  std::string_view text = trimmed(text_of(line));
  text.remove_suffix(1);
  return trimmed(text);
}

}  // namespace

PlayRecords::PlayRecords(const config::DataSource& source, std::string character)
    : lines_(source), character_(std::move(character)) {}

/// The reader skips empty lines, but counts them.
bool PlayRecords::begins_speech(const Record& line) const {
  const bool behind_gap = line.file != last_file_ || line.line != last_line_ + 1;
  return behind_gap && trimmed(text_of(line)).ends_with(':') && !speaker_of(line).empty();
}

bool PlayRecords::read_speech(Speech& speech) {
  if (!has_line_ && !(has_line_ = lines_.next(line_))) return false;
  if (!begins_speech(line_))
    throw InputError("{}: a play must begin with a speaker on a separate line, like \"HAMLET:\".", line_.where());
  speech = {std::string(speaker_of(line_)), "", line_.file, line_.line, line_.entry};
  last_file_ = line_.file;
  last_line_ = line_.line;
  while ((has_line_ = lines_.next(line_)) && line_.file == speech.file && !begins_speech(line_)) {
    if (!speech.text.empty()) speech.text += line_.line == last_line_ + 1 ? "\n" : "\n\n";
    speech.text += trimmed(text_of(line_));
    last_line_ = line_.line;
  }
  return true;
}

void PlayRecords::give(Record& record) {
  nlohmann::json scene = nlohmann::json::array();
  for (const Speech& speech : scene_) scene.push_back({{"speaker", speech.speaker}, {"text", speech.text}});
  record = Record{{{"scene", scene.dump()}}, scene_.front().file, scene_.front().line, scene_.front().entry, {true}};
  scene_.clear();
  ++scenes_;
}

bool PlayRecords::next(Record& record) {
  for (Speech speech; read_speech(speech);) {
    if (speech.text.empty()) continue;  // interrupted by another speaker
    if (!scene_.empty() && scene_.back().file != speech.file) scene_.clear();
    scene_.push_back(std::move(speech));
    const bool full = scene_.size() == kSceneSpeeches;
    // A scene needs another speaker: otherwise the character's speech has no prompt.
    const bool ends = character_.empty() ? full : scene_.back().speaker == character_ && scene_.size() > 1;
    if (ends) {
      give(record);
      return true;
    }
    if (full || (!character_.empty() && scene_.back().speaker == character_)) scene_.pop_front();
  }
  if (character_.empty() && scene_.size() > 1) {
    give(record);
    return true;
  }
  if (scenes_ == 0 && !character_.empty())
    throw InputError("data.character: {} never answers anyone in {}. Spell the name as in the text.", character_,
                     last_file_);
  return false;
}

}  // namespace trainer::data
