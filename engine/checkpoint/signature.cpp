#include "engine/checkpoint/signature.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/file_operations.h"
#include "engine/base/files.h"
#include "engine/checkpoint/contents.h"
#include "engine/checkpoint/digest.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTitle = "# trainer signature 1, key ", kRun = "# run ", kStep = "# step ";
constexpr std::string_view kDigest = "sha256:";
constexpr size_t kSumDigits = 64;
constexpr int64_t kMostSumsBytes = int64_t{64} << 20;

/// What a run writes into its output_dir besides the model; no program reads it as part of one.
const std::set<std::string, std::less<>> kRunRecords = {
    "README.md",    "config.resolved.yaml", "latest",      "logs",       "metrics.jsonl", "mlflow.json",
    "outcome.json", "predictions.jsonl",    "report.html", "tensorboard"};

bool is_run_record(const std::string& name) {
  return name.starts_with('.') || name.starts_with("checkpoint-") || kRunRecords.contains(name);
}

bool is_of_signature(const std::string& name) {
  return name == kSumsFile || name == kSignatureFile;
}

/// sha256sum escapes line ends and backslashes in names; no file of ours has them.
void check_name(const std::string& name) {
  if (name.find_first_of("\n\r\\") != std::string::npos)
    throw InputError("the file name '{}' can't be signed", nlohmann::json(name).dump());
}

/// A comment's value ends its line, so it is written as JSON.
std::string text_of(const Sums& sums, const SigningKey& key) {
  std::string text =
      fmt::format("{}{}\n{}{}\n", kTitle, key.public_key().id(), kRun,
                  nlohmann::json(sums.run).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  if (sums.step >= 0) text += fmt::format("{}{}\n", kStep, sums.step);
  for (const auto& [name, sum] : sums.files) {
    check_name(name);
    text += fmt::format("{}  {}\n", sum, name);
  }
  return text;
}

Sums sums_from(const std::string& text, const fs::path& path) {
  Sums sums;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string_view view = line;
    if (view.starts_with(kRun)) {
      const auto name = bounded_json_or_none(std::string(view.substr(kRun.size())));
      if (name.is_string()) sums.run = name.get<std::string>();
    } else if (view.starts_with(kStep)) {
      std::from_chars(line.data() + kStep.size(), line.data() + line.size(), sums.step);
    } else if (!view.starts_with('#')) {
      if (view.size() < kSumDigits + 3 || view.substr(kSumDigits, 2) != "  ")
        throw InputError("{}: the line '{}' is not of sha256sum", path.string(), line);
      sums.files[line.substr(kSumDigits + 2)] = line.substr(0, kSumDigits);
    }
  }
  return sums;
}

/// Why the key doesn't verify the text. Its first line names the key that signed it.
std::string reason(const std::string& text, const PublicKey& key) {
  const std::string line = text.substr(0, text.find('\n'));
  const std::string signer = line.starts_with(kTitle) ? line.substr(kTitle.size()) : "";
  if (!signer.empty() && signer != key.id())
    return fmt::format("signed by another key ({}; the trusted one is {})", signer.substr(0, 64), key.id());
  return fmt::format(
      "the signature in {} is not of this content: one of the two was changed after signing, or is of "
      "another step, run or key",
      kSignatureFile);
}

/// The paths of all files and links in `folder`, and of empty folders; not those of the signature itself.
std::set<std::string> paths_in(const fs::path& folder) {
  std::set<std::string> paths;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, error); entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    const bool is_folder = entry->is_directory(ignored) && !entry->is_symlink(ignored);
    const std::string path = entry->path().lexically_relative(folder).string();
    if (!is_of_signature(path) && (!is_folder || fs::is_empty(entry->path(), ignored))) paths.insert(path);
  }
  if (error) throw InputError("cannot list {}: {}", folder.string(), error.message());
  return paths;
}

void check_sum(const fs::path& folder, const std::string& name, const std::string& sum) {
  const fs::path path = folder / name;
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) throw InputError("{} is missing", path.string());
  const std::string found = sha256_of_file(path);
  if (found != sum)
    throw InputError("{} was changed after it was signed (SHA-256 {}, signed as {})", path.string(), found, sum);
}

InputError added(const fs::path& path) {
  return InputError("{} is not signed: it was added or renamed later", path.string());
}

/// Errors: InputError when the manifest, whose sum is the signed one, lists other files than the signature.
void check_listed(const fs::path& folder, const Sums& sums, const Contents& contents) {
  std::map<std::string, std::string> listed{{kManifestFile, sums.files.at(kManifestFile)}};
  for (const StoredFile& file : contents.files)
    if (file.digest.starts_with(kDigest)) listed[file.name] = file.digest.substr(kDigest.size());
  for (const auto& [name, sum] : sums.files) {
    const auto found = listed.find(name);
    if (found == listed.end() || found->second != sum)
      throw InputError("{}: {} and {} list different checksums", (folder / name).string(), kSumsFile, kManifestFile);
  }
  for (const StoredFile& file : contents.files)
    if (!sums.files.contains(file.name))
      throw InputError("{}: {} doesn't list it", (folder / file.name).string(), kSumsFile);
}

}  // namespace

std::string run_name(const fs::path& output_dir) {
  fs::path path = fs::absolute(output_dir).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // it ends in a slash
  return path.filename().string();
}

std::optional<Trust> trust_in(const std::string& trusted_key, const fs::path& output_dir) {
  if (trusted_key.empty()) return std::nullopt;
  return Trust{PublicKey(trusted_key, kTrustedKeyOption), output_dir.empty() ? "" : run_name(output_dir)};
}

std::string sha256_of_file(const fs::path& path) {
  return digest_of_file("sha256", path).substr(kDigest.size());
}

std::string sha256_of(std::string_view bytes) {
  return digest_of("sha256", bytes).substr(kDigest.size());
}

SignatureFiles signature_files(const Sums& sums, const SigningKey& key) {
  const std::string text = text_of(sums, key);
  return {{{kSumsFile, text}, {kSignatureFile, key.sign(text)}}};
}

bool is_signed(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kSumsFile, error) && fs::exists(folder / kSignatureFile, error);
}

void remove_signature(const fs::path& folder) {
  for (const char* const name : {kSignatureFile, kSumsFile})
    if (file_operations::remove_file(folder / name) != 0 && errno != ENOENT)
      throw machine_error("remove", folder / name, errno);
}

void sign_folder(const fs::path& folder, const std::string& run, const SigningKey& key) {
  Sums sums{.run = run};
  for (const std::string& path : paths_in(folder)) sums.files[path] = sha256_of_file(folder / path);
  for (const auto& [name, content] : signature_files(sums, key)) publish_file(folder / name, content);
}

bool holds_model(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (is_of_signature(name) || !is_run_record(name)) return true;
  }
  return false;
}

Sums read_sums(const fs::path& folder, const PublicKey& key) {
  const fs::path path = folder / kSumsFile;
  std::error_code error;
  if (!is_signed(folder))
    throw InputError("{} is not signed: it has no {}", folder.string(),
                     fs::exists(path, error) ? kSignatureFile : kSumsFile);
  const std::string text = read_file(path, kMostSumsBytes),
                    signature = read_file(folder / kSignatureFile, kMostSumsBytes);
  if (!key.verifies(text, signature)) throw InputError("{}: {}", path.string(), reason(text, key));
  return sums_from(text, path);
}

Sums check_signature(const fs::path& folder, const Trust& trust) {
  const Sums sums = read_sums(folder, trust.key);
  if (!trust.run.empty() && sums.run != trust.run)
    throw InputError(
        "{} was signed for the run '{}'; this run's output_dir is named '{}'.\n  If the folder was renamed, resume "
        "with checkpoint.resume_from_checkpoint: FOLDER.",
        folder.string(), sums.run, trust.run);
  for (const std::string& path : paths_in(folder))
    if (!sums.files.contains(path)) throw added(folder / path);
  for (const auto& [name, sum] : sums.files) {
    std::error_code error;
    if (!fs::exists(folder / name, error)) throw InputError("{} is missing", (folder / name).string());
  }
  if (!sums.files.contains(kManifestFile))
    throw InputError("{}: doesn't list {}", (folder / kSumsFile).string(), kManifestFile);
  check_sum(folder, kManifestFile, sums.files.at(kManifestFile));
  const Contents contents = read_contents(folder);
  if (contents.step != sums.step)
    throw InputError("{} is of step {}; {} says {}", folder.string(), contents.step, kSumsFile, sums.step);
  check_listed(folder, sums, contents);
  return sums;
}

Sums verify_model(const fs::path& folder, const PublicKey& key) {
  const Sums sums = read_sums(folder, key);
  for (const std::string& path : paths_in(folder))
    if (!sums.files.contains(path) && !is_run_record(path.substr(0, path.find('/')))) throw added(folder / path);
  for (const auto& [name, sum] : sums.files) check_sum(folder, name, sum);
  return sums;
}

Sums verify_signed(const fs::path& folder, const PublicKey& key) {
  std::error_code error;
  if (!fs::exists(folder / kManifestFile, error)) return verify_model(folder, key);
  const Sums sums = check_signature(folder, {key, ""});
  verify_files(folder, read_contents(folder));
  return sums;
}

}  // namespace trainer::checkpoint
