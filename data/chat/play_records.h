// Reads a play as scenes.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "data/readers/readers.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// The maximum number of speeches in a scene.
inline constexpr size_t kSceneSpeeches = 8;

/// Turns the lines of a play into records with one column, `scene`: a JSON list of {"speaker", "text"}. A speech is a
/// line "SPEAKER:" after an empty line, and the lines up to the next speech. With a character, a scene ends with one of
/// the character's speeches, preceded by up to seven others that no earlier scene contains; without, a scene is eight
/// speeches. Only one scene is in memory.
class PlayRecords {
 public:
  /// Errors: those of RecordStream.
  PlayRecords(const config::DataSource& source, std::string character);

  /// As RecordStream::next; the record's line is where the scene begins. Errors: InputError with file and line for a
  /// text that does not begin with a speaker, and at the end when the character never speaks.
  bool next(Record& record);

  /// As RecordStream::part.
  double part() const { return lines_.part(); }

  /// Of the lines read so far.
  const ReadSummary& summary() const { return lines_.summary(); }

 private:
  struct Speech {
    std::string speaker, text, file;
    int64_t line = 0;
    size_t entry = 0;
  };

  bool read_speech(Speech& speech);
  bool begins_speech(const Record& line) const;
  void give(Record& record);

  RecordStream lines_;
  std::string character_;
  Record line_;            // the last line read
  bool has_line_ = false;  // line_ is not used yet
  std::string last_file_;
  int64_t last_line_ = 0;
  std::deque<Speech> scene_;
  int64_t scenes_ = 0;
};

}  // namespace trainer::data
