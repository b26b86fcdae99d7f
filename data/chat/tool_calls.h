// Calls of tools as LLaMA-Factory's sharegpt records write them.
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "data/readers/record.h"

namespace trainer::data {

/// The assistant's turn for a `function_call`: `text` is an object with `name` and `arguments`, or a list of them, and
/// may begin with thoughts (<think>…</think>). Chat templates read `tool_calls`. `number`: of the turn, from 1.
/// Errors: InputError for another text.
nlohmann::ordered_json call_of(const std::string& text, size_t number, const Record& record);

/// Tools that are given by their name alone become {"type": "function", "function": …}, which templates print.
void complete_tools(nlohmann::ordered_json& tools);

}  // namespace trainer::data
