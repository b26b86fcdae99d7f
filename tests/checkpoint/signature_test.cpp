// Signed folders: keys as openssl and ssh-keygen write them (tests/checkpoint/keys), and every way to change a folder.
#include "engine/checkpoint/signature.h"

#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/contents.h"
#include "engine/checkpoint/openssh_key.h"
#include "tests/checkpoint/test_key.h"

namespace trainer::testing {
namespace {

namespace fs = std::filesystem;
using checkpoint::PublicKey;
using checkpoint::SigningKey;
using checkpoint::Sums;

PublicKey public_key(const std::string& name) {
  return {key_file(name), "--key"};
}

/// The message of the error that `work` throws, or "".
template <class ErrorClass>
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const ErrorClass& error) {
    return error.what();
  }
  return "";
}

#define EXPECT_SAYS(message, part) EXPECT_NE(std::string(message).find(part), std::string::npos) << "in: " << (message)

TEST(SigningKeys, OfOpensslAndOpensshSignAndVerify) {
  for (const auto& [secret, open] :
       {std::pair{"openssl.pem", "openssl.pub.pem"}, std::pair{"openssh", "openssh.pub"}}) {
    const SigningKey key = signing_key(secret);
    const std::string signature = key.sign("text");
    EXPECT_EQ(signature.size(), checkpoint::kSignatureBytes);
    EXPECT_TRUE(public_key(open).verifies("text", signature)) << open;
    EXPECT_FALSE(public_key(open).verifies("texts", signature)) << open;
    EXPECT_FALSE(public_key(open).verifies("text", signature.substr(1))) << open;
    EXPECT_FALSE(public_key(open).verifies("text", "")) << open;
    EXPECT_EQ(public_key(open).id(), key.public_key().id());
  }
  EXPECT_FALSE(public_key("openssl.pub.pem").verifies("text", signing_key("openssh").sign("text")));
}

TEST(SigningKeys, RefuseOtherFilesAndSayWhy) {
  const auto signs = [](const std::string& name) { return message_of<ConfigError>([&] { signing_key(name); }); };
  const auto verifies = [](const std::string& name) { return message_of<ConfigError>([&] { public_key(name); }); };
  EXPECT_SAYS(signs("openssl_passphrase.pem"), "protected by a passphrase");
  EXPECT_SAYS(signs("openssh_passphrase"), "protected by a passphrase");
  EXPECT_SAYS(signs("ec.pem"), "a key of another kind");
  EXPECT_SAYS(signs("openssh_ecdsa"), "ecdsa-sha2-nistp256");
  EXPECT_SAYS(signs("openssl.pub.pem"), "a private key of Ed25519 is needed");
  EXPECT_SAYS(signs("openssh.pub"), "a private key of Ed25519 is needed");
  EXPECT_SAYS(verifies("openssl.pem"), "it is a private key");
  EXPECT_SAYS(verifies("openssh"), "it is a private key");
  EXPECT_SAYS(verifies("openssh_ecdsa.pub"), "ecdsa-sha2-nistp256");
  EXPECT_SAYS(verifies("absent"), "--key: ");
  EXPECT_SAYS(verifies("absent"), "No such file");
}

TEST(SigningKeys, RefuseAPrivateKeyThatOthersCanRead) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "key";
  fs::copy_file(key_file("openssl.pem"), file);
  fs::permissions(file, fs::perms::owner_read | fs::perms::others_read);
  EXPECT_SAYS(message_of<ConfigError>([&] { SigningKey(file, "checkpoint.sign"); }), "chmod 600");
}

TEST(SigningKeys, RefuseEveryTruncationAndAreNotConfusedByFlippedBits) {
  const std::string text = read_file(key_file("openssh"));
  for (size_t size = text.find("KEY-----\n") + 9; size + 40 < text.size(); ++size)
    EXPECT_THROW(checkpoint::openssh_private_key(text.substr(0, size)), ConfigError) << size;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    try {
      EXPECT_EQ(checkpoint::openssh_private_key(changed).size(), 32u);
    } catch (const ConfigError&) {  // most flips are noticed; a flip within the secret makes another key
    }
  }
}

TEST(SigningKeys, OfARunMustTrustEachOther) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "key";
  fs::copy_file(key_file("openssl.pem"), file);
  fs::permissions(file, fs::perms::owner_read);
  checkpoint::check_keys("", "");
  checkpoint::check_keys(file, "");
  checkpoint::check_keys(file, key_file("openssl.pub.pem"));
  EXPECT_SAYS(message_of<ConfigError>([&] { checkpoint::check_keys(file, key_file("openssh.pub")); }), "another key");
  EXPECT_SAYS(message_of<ConfigError>([&] { checkpoint::check_keys("", key_file("openssh.pub")); }),
              "checkpoint.sign is empty");
}

/// A signed checkpoint of two files.
class Signed : public ::testing::Test {
 protected:
  Signed() { make(folder_, 5); }

  void make(const fs::path& folder, int64_t step) const {
    fs::create_directories(folder);
    put(folder / "rank-00000.safetensors", "weights of step " + std::to_string(step));
    put(folder / "trainer_state.json", "{}");
    const auto files = checkpoint::other_files(folder, {}, "sha256");
    nlohmann::json manifest = {{"format", checkpoint::kFormat},      {"version", checkpoint::kFormatVersion},
                               {"progress", {{"step", step}}},       {"world_size", 1},
                               {"strategy", "replicated"},           {"optimizer", "adamw"},
                               {"metrics", nlohmann::json::object()}};
    manifest["files"] = checkpoint::to_json(files);
    put(folder / "manifest.json", checkpoint::sealed(manifest.dump(1)));
    Sums sums{.run = "run", .step = step};
    sums.files["manifest.json"] = checkpoint::sha256_of_file(folder / "manifest.json");
    for (const auto& file : files) sums.files[file.name] = checkpoint::sha256_of_file(folder / file.name);
    for (const auto& [name, content] : checkpoint::signature_files(sums, key_)) put(folder / name, content);
  }

  static void put(const fs::path& path, const std::string& content) { std::ofstream(path) << content; }

  std::string problem() const {
    return message_of<InputError>([&] { checkpoint::verify_signed(folder_, key_.public_key()); });
  }

  const SigningKey key_ = signing_key("openssl.pem");
  const TemporaryFolder place_;
  const fs::path folder_ = place_.path() / "run/checkpoint-5", other_ = place_.path() / "other/checkpoint-6";
};

TEST_F(Signed, IsAccepted) {
  EXPECT_EQ(problem(), "");
  const Sums sums = checkpoint::verify_signed(folder_, key_.public_key());
  EXPECT_EQ(sums.run, "run");
  EXPECT_EQ(sums.step, 5);
  EXPECT_EQ(sums.files.size(), 3u);
}

TEST_F(Signed, NamesEveryFileThatWasChangedRemovedOrTruncated) {
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string(), content = read_file(entry.path());
    std::string changed = content;
    changed[content.size() / 2] ^= 1;
    for (const std::string& other : {changed, content.substr(0, content.size() - 1), std::string(), content + "\n"}) {
      put(entry.path(), other);
      EXPECT_SAYS(problem(), name);
    }
    fs::remove(entry.path());
    EXPECT_SAYS(problem(), name);
    put(entry.path(), content);
    EXPECT_EQ(problem(), "") << name;
  }
}

TEST_F(Signed, DetectsEveryFlippedBitOfEveryFile) {
  int64_t flips = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string content = read_file(entry.path());
    for (size_t bit = 0; bit < 8 * content.size(); bit += 13, ++flips) {
      std::string changed = content;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
      put(entry.path(), changed);
      EXPECT_NE(problem(), "") << entry.path() << ", bit " << bit;
    }
    put(entry.path(), content);
  }
  EXPECT_GT(flips, 500);
}

TEST_F(Signed, NamesAFileThatWasAddedOrRenamed) {
  put(folder_ / "tokenizer.json", "{}");
  EXPECT_SAYS(problem(), "tokenizer.json is not signed");
  fs::remove(folder_ / "tokenizer.json");
  fs::create_directory(folder_ / "sub");
  EXPECT_SAYS(problem(), "sub is not signed");
  fs::remove(folder_ / "sub");
  fs::rename(folder_ / "trainer_state.json", folder_ / "state.json");
  EXPECT_SAYS(problem(), "state.json");
}

TEST_F(Signed, FollowsNoLinks) {
  fs::rename(folder_ / "rank-00000.safetensors", place_.path() / "elsewhere");
  fs::create_symlink(place_.path() / "elsewhere", folder_ / "rank-00000.safetensors");
  EXPECT_SAYS(problem(), "rank-00000.safetensors is missing");
}

TEST_F(Signed, NamesFilesThatWereSwapped) {
  fs::rename(folder_ / "trainer_state.json", folder_ / "x");
  fs::rename(folder_ / "rank-00000.safetensors", folder_ / "trainer_state.json");
  fs::rename(folder_ / "x", folder_ / "rank-00000.safetensors");
  EXPECT_SAYS(problem(), "rank-00000.safetensors");
}

TEST_F(Signed, RefusesASignatureOfAnotherStepOrRun) {
  make(other_, 6);
  fs::copy_file(other_ / "SHA256SUMS.sig", folder_ / "SHA256SUMS.sig", fs::copy_options::overwrite_existing);
  EXPECT_SAYS(problem(), "another step, run or key");
  fs::copy_file(other_ / "SHA256SUMS", folder_ / "SHA256SUMS", fs::copy_options::overwrite_existing);
  EXPECT_SAYS(problem(), "manifest.json was changed after it was signed");
  fs::remove_all(folder_);
  fs::copy(other_, folder_);  // all of step 6, as checkpoint-5
  EXPECT_SAYS(problem(), "its folder is named checkpoint-5");
}

TEST_F(Signed, RefusesAnotherRunsFolderUnlessItWasNamed) {
  const PublicKey key = key_.public_key();
  checkpoint::check_signature(folder_, {key, "run"});
  checkpoint::check_signature(folder_, {key, ""});
  EXPECT_SAYS(message_of<InputError>([&] {
                checkpoint::check_signature(folder_, {key, "mine"});
              }),
              "signed for the run 'run'; this run's output_dir is named 'mine'");
}

TEST_F(Signed, NamesBothKeysWhenAnotherSigned) {
  const PublicKey other = public_key("openssh.pub");
  const std::string message = message_of<InputError>([&] { checkpoint::verify_signed(folder_, other); });
  EXPECT_SAYS(message, key_.public_key().id());
  EXPECT_SAYS(message, other.id());
}

TEST_F(Signed, SaysWhatAnUnsignedFolderLacks) {
  fs::remove(folder_ / "SHA256SUMS");
  EXPECT_SAYS(problem(), "is not signed: it has no SHA256SUMS");
}

/// A signed manifest can't stand for files that it lists by a checksum which anyone can forge.
TEST_F(Signed, RefusesAManifestWithOtherChecksums) {
  nlohmann::json manifest = nlohmann::json::parse(read_file(folder_ / "manifest.json"));
  manifest["files"][0]["digest"] = "xxh3:0";
  manifest.erase("seal");
  put(folder_ / "manifest.json", checkpoint::sealed(manifest.dump(1)));
  Sums sums = checkpoint::read_sums(folder_, key_.public_key());
  sums.files["manifest.json"] = checkpoint::sha256_of_file(folder_ / "manifest.json");
  for (const auto& [name, content] : checkpoint::signature_files(sums, key_)) put(folder_ / name, content);
  EXPECT_SAYS(problem(), "different checksums");
}

/// The final model of a run, in its output_dir.
TEST(SignedModel, CoversAllFilesButARunsRecords) {
  const TemporaryFolder place;
  const SigningKey key = signing_key("openssh");
  const fs::path folder = place.path() / "model";
  fs::create_directories(folder / "chat");
  const auto put = [&](const std::string& name, const char* content) { std::ofstream(folder / name) << content; };
  put("model.safetensors", "weights");
  put("config.json", "{}");
  put("chat/template.jinja", "{{ messages }}");
  checkpoint::sign_folder(folder, "model", key);
  const auto problem = [&] {
    return message_of<InputError>([&] { checkpoint::verify_signed(folder, public_key("openssh.pub")); });
  };
  EXPECT_EQ(problem(), "");
  put("metrics.jsonl", "");
  fs::create_directories(folder / "checkpoint-5");
  put("checkpoint-5/x", "");
  EXPECT_EQ(problem(), "");
  put("generation_config.json", "{}");
  EXPECT_SAYS(problem(), "generation_config.json is not signed");
  fs::remove(folder / "generation_config.json");
  put("chat/template.jinja", "{{ other }}");
  EXPECT_SAYS(problem(), "chat/template.jinja was changed");
  checkpoint::remove_signature(folder);
  checkpoint::remove_signature(folder);
  EXPECT_SAYS(problem(), "is not signed");
}

TEST(RunName, IsTheNameOfTheFolder) {
  EXPECT_EQ(checkpoint::run_name("runs/t5"), "t5");
  EXPECT_EQ(checkpoint::run_name("/runs/t5/"), "t5");
  EXPECT_EQ(checkpoint::run_name("runs/t5/../mt5"), "mt5");
}

}  // namespace
}  // namespace trainer::testing
