// What `trainer generate` is asked to do: written by the command, read by the worker, as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"

namespace trainer::config {

struct GenerateRequest {
  std::string model;    // a model folder, a Hub name, or an adapter's folder
  std::string adapter;  // an adapter's folder for `model`; "": none
  std::string prompt;   // one text to answer or to continue
  bool has_prompt = false;
  std::string input;          // a file of prompts; "": none
  std::string source;         // data.source of that file; "": its column messages, prompt or text
  std::string output;         // "": standard output
  bool chat = false;          // prompts are a user's turns, rendered with the chat template
  std::string system;         // the system message of a chat
  std::string chat_template;  // as data.chat_template
  int64_t batch_size = 8;
  int64_t num_return_sequences = 1;
  std::string device = "cpu";  // or "cuda"
  bool json = false;           // the reply to `prompt` as a JSON object
  uint64_t seed = 42;
  std::vector<std::string> stop;
  // Without a value: as the model's generation_config.json says.
  std::optional<int64_t> max_new_tokens, top_k, num_beams;
  std::optional<double> temperature, top_p, min_p, repetition_penalty, length_penalty;
  std::optional<std::string> early_stopping;  // of beam search: true, false or never
};

/// One row for each field: none is forgotten on one side.
template <class Visitor>
void each_field(GenerateRequest& r, Visitor&& visit) {
  visit("model", r.model);
  visit("adapter", r.adapter);
  visit("prompt", r.prompt);
  visit("has_prompt", r.has_prompt);
  visit("input", r.input);
  visit("source", r.source);
  visit("output", r.output);
  visit("chat", r.chat);
  visit("system", r.system);
  visit("chat_template", r.chat_template);
  visit("batch_size", r.batch_size);
  visit("num_return_sequences", r.num_return_sequences);
  visit("device", r.device);
  visit("json", r.json);
  visit("seed", r.seed);
  visit("stop", r.stop);
  visit("max_new_tokens", r.max_new_tokens);
  visit("top_k", r.top_k);
  visit("temperature", r.temperature);
  visit("top_p", r.top_p);
  visit("min_p", r.min_p);
  visit("repetition_penalty", r.repetition_penalty);
  visit("num_beams", r.num_beams);
  visit("length_penalty", r.length_penalty);
  visit("early_stopping", r.early_stopping);
}

inline std::string to_json(GenerateRequest request) {
  nlohmann::json json;
  const auto put = [&]<class T>(const char* key, const std::optional<T>& value) {
    if (value) json[key] = *value;
  };
  each_field(request, [&](const char* key, const auto& value) {
    if constexpr (requires { value.has_value(); })
      put(key, value);
    else
      json[key] = value;
  });
  // Arguments can be any bytes.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

inline GenerateRequest generate_request(const std::string& text) {
  const nlohmann::json json = bounded_json(text);
  GenerateRequest request;
  each_field(request, [&]<class T>(const char* key, T& value) {
    if constexpr (requires { value.has_value(); }) {
      if (json.contains(key)) value = json[key].template get<typename T::value_type>();
    } else {
      value = json.at(key).template get<T>();
    }
  });
  return request;
}

}  // namespace trainer::config
