#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/nn/feed_forward.h"

namespace trainer::nn {

/// Reads the keys of a Hugging Face config.json and collects what is wrong, so that finish() can say all of it at once.
/// A key that is absent or null leaves the value as it is: the default.
class ConfigReader {
 public:
  /// `text` must hold a JSON object; `origin` names it and `family` ("T5") the model in messages.
  /// `strict`: keys that nobody asked for are problems, and problems are the user's configuration's (ConfigError).
  ConfigReader(const std::string& text, std::string origin, std::string family, bool strict);

  bool strict() const { return strict_; }
  /// Whether `key` has a value.
  bool has(const std::string& key);
  /// Whether `key` is given as null, where that is another thing than leaving it out.
  bool is_null(const std::string& key) const;
  const nlohmann::json& value(const std::string& key) const { return json_->at(key); }

  void number(const std::string& key, int64_t least, int64_t& value);
  void number(const std::string& key, double least, double most, double& value);
  /// A list of positive numbers.
  void numbers(const std::string& key, std::vector<double>& values);
  void flag(const std::string& key, bool& value);
  void text(const std::string& key, std::string& value);
  /// The name of an activation, and which one that is.
  void activation(const std::string& key, std::string& name, Activation& value);
  /// One token id or a list of them.
  void tokens(const std::string& key, std::vector<int64_t>& values);
  /// A list of text.
  void texts(const std::string& key, std::vector<std::string>& values);
  /// The names of the classes, by id2label or num_labels; two when nothing is said, as transformers has it.
  std::vector<std::string> class_names();

  /// Keys that are known and change nothing here.
  void skip(std::initializer_list<const char*> keys);
  /// skip() of what every Hugging Face config may hold.
  void skip_common();

  /// The object at `key`, which has(); its problems are this reader's. Call refuse_unknown() on it at the end.
  ConfigReader below(const std::string& key) const;

  /// "<key> must be <wanted>; is <value>".
  void wrong(const std::string& key, const std::string& wanted);
  void problem(std::string text) { problems_->push_back(std::move(text)); }
  /// When strict: every key that nobody asked for is a problem.
  void refuse_unknown();
  /// refuse_unknown(), and throws what is wrong: InputError, or ConfigError when strict.
  void finish();

 private:
  ConfigReader() = default;
  std::string hint(const std::string& key) const;

  std::shared_ptr<const nlohmann::json> json_;
  std::string origin_, family_, prefix_;
  bool strict_ = false;
  std::set<std::string> known_;
  std::shared_ptr<std::vector<std::string>> problems_;
};

}  // namespace trainer::nn
