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

/// Reads the keys of a Hugging Face config.json and collects all problems, so that finish() can report them at once.
/// A key that is absent or null leaves the value unchanged, at its default.
class ConfigReader {
 public:
  /// `text` must hold a JSON object; messages name it `origin` and the model `family` ("T5").
  /// `strict`: unread keys are problems, and problems are those of the user's configuration (ConfigError).
  ConfigReader(const std::string& text, std::string origin, std::string family, bool strict);

  bool strict() const { return strict_; }
  /// Whether `key` has a value.
  bool has(const std::string& key);
  /// Whether `key` is explicitly null, for keys where null differs from absent.
  bool is_null(const std::string& key) const;
  const nlohmann::json& value(const std::string& key) const { return json_->at(key); }

  void number(const std::string& key, int64_t least, int64_t& value);
  void number(const std::string& key, double least, double most, double& value);
  /// A list of positive numbers.
  void numbers(const std::string& key, std::vector<double>& values);
  void flag(const std::string& key, bool& value);
  void text(const std::string& key, std::string& value);
  /// The name of an activation, and the activation of that name.
  void activation(const std::string& key, std::string& name, Activation& value);
  /// One token id or a list of them; an explicit null means none.
  void tokens(const std::string& key, std::vector<int64_t>& values);
  /// A list of texts.
  void texts(const std::string& key, std::vector<std::string>& values);
  /// The class names, from id2label or num_labels; two if neither is given, as in transformers.
  std::vector<std::string> class_names();

  /// Marks keys as known that have no effect.
  void skip(std::initializer_list<const char*> keys);
  /// skip() for the keys that every Hugging Face config may have.
  void skip_common();

  /// A reader of the object at `key`, which must exist; it adds its problems to this reader. Call its refuse_unknown()
  /// at the end.
  ConfigReader below(const std::string& key) const;

  /// "<key> must be <wanted>; is <value>".
  void wrong(const std::string& key, const std::string& wanted);
  void problem(std::string text) { problems_->push_back(std::move(text)); }
  /// When strict: reports every key that was not read.
  void refuse_unknown();
  /// refuse_unknown(), then throws if there are problems: InputError, or ConfigError when strict.
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

/// The value of a key that ConfigReader::tokens() reads.
nlohmann::json tokens_json(const std::vector<int64_t>& ids);

}  // namespace trainer::nn
