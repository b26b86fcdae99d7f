// A play's text as scenes.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "data/readers/readers.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// The most speeches of a scene.
inline constexpr size_t kSceneSpeeches = 8;

/// Turns the lines of a play into records with one column, `scene`: a JSON list of {"speaker", "text"}. A speech is a
/// line "SPEAKER:" behind an empty one, and the lines up to the next. With a character, a scene ends with a speech of
/// theirs and holds up to seven that come before it, none of which is in an earlier scene; without, a scene is eight
/// speeches. Only one scene is held.
class PlayRecords {
 public:
  /// Errors: those of RecordStream.
  PlayRecords(const config::DataSource& source, std::string character);

  /// As RecordStream::next; the record's line is where the scene begins. Errors: InputError with file and line for a
  /// text that does not begin with a speaker, and at the end when the character never speaks.
  bool next(Record& record);

  /// As RecordStream::part.
  double part() const { return lines_.part(); }

  /// Of the lines that were read so far.
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
  Record line_;            // the one that was read last
  bool has_line_ = false;  // and not used yet
  std::string last_file_;
  int64_t last_line_ = 0;
  std::deque<Speech> scene_;
  int64_t scenes_ = 0;
};

}  // namespace trainer::data
