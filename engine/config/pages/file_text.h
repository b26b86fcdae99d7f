// Writes a configuration file as Accelerate would, followed by our sections.
#pragma once

#include <string>
#include <string_view>

#include "engine/config/document/document.h"

namespace trainer::config {

/// The line between the two parts.
inline constexpr const char* kSectionsComment =
    "# What to train, and how. Accelerate itself does not know these sections.";

/// The first and the last line of such a file: YAML has no end marker, so a file truncated by a full disk or a broken
/// copy would be read as a shorter one.
std::string first_comment(const std::string& by);
bool is_first_comment(std::string_view line);
inline constexpr const char* kLastComment = "# This is the end of the file.";

/// Errors: ConfigError if `text`, the content of `file`, has the first line but not the last.
void refuse_cut(const std::string& text, const std::string& file);

enum class FileFormat { kYaml, kJson };
/// JSON if the name ends in .json, as for Accelerate.
FileFormat format_of(const std::string& file);

/// The text of a file that contains `document`. Accelerate's part: sorted keys, quotes around texts that YAML would
/// read as booleans, no empty values. Our part: in the order of the tables, between the two comments. JSON: all keys
/// sorted. `by`: what wrote it, for the first line.
std::string file_text(const Node& document, FileFormat format, const std::string& by = "`trainer config`");

}  // namespace trainer::config
