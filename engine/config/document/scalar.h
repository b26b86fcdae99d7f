// Interprets the text of a scalar, independent of the YAML dialect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainer::config {

std::string lower(std::string text);

/// Accelerate's table, any case: y yes t true on 1, n no f false off 0.
std::optional<bool> parse_bool(const std::string& text);

/// Decimal digits, or an integral number in any other form (1e8, 1_000, 2.0). Not 010, which YAML 1.1 reads as 8.
std::optional<int64_t> parse_int(const std::string& text);

/// A finite decimal number.
std::optional<double> parse_double(const std::string& text);

/// The shortest decimal that reads back to exactly `value`, with the dot YAML 1.1 wants: "5.0e-05".
std::string double_text(double value);

/// The parts of `text` between the `by`s, with surrounding blanks removed; empty parts are dropped.
std::vector<std::string> split(const std::string& text, char by);

}  // namespace trainer::config
