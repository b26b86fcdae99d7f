// replay FOLDER [SECONDS]: runs a fuzzer's code on every file of its corpus, so that former findings stay fixed even in
// a build without libFuzzer. With SECONDS, then runs it on randomly damaged files of the corpus for that long; a
// crashing input is left in ./finding.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "engine/base/files.h"
#include "tests/fuzz/fuzz.h"

namespace {

void run(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

/// `text` with a few bytes changed, inserted, removed or repeated, or with a part of `other` inserted.
std::string damaged(std::string text, const std::string& other, std::mt19937_64& random) {
  static const std::string kTelling = "\"{}[]:,0129-.eE\\n\0\xff";
  for (uint64_t edits = 1 + random() % 6; edits > 0; --edits) {
    const size_t at = text.empty() ? 0 : random() % text.size();
    const size_t length = 1 + random() % 16;
    const uint64_t kind = random() % 6;
    if (kind == 0 && !text.empty()) text[at] = static_cast<char>(random());
    if (kind == 1) text.insert(at, 1, kTelling[random() % kTelling.size()]);
    if (kind == 2) text.erase(at, length);
    if (kind == 3) text.insert(at, std::string(text, at, length * 4));
    if (kind == 4 && !other.empty()) text.insert(at, std::string(other, random() % other.size(), length * 4));
    if (kind == 5) text.insert(at, std::to_string(random() >> random() % 64));
  }
  return text;
}

void damage(const std::vector<std::string>& corpus, int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::mt19937_64 random(std::random_device{}());
  int64_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    const std::string text = damaged(corpus[random() % corpus.size()], corpus[random() % corpus.size()], random);
    std::ofstream("finding", std::ios::binary) << text;
    run(text);
  }
  std::filesystem::remove("finding");
  std::printf("%lld damaged files\n", static_cast<long long>(runs));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 && count != 3) return std::fprintf(stderr, "usage: %s FOLDER [SECONDS]\n", arguments[0]), 2;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const auto& file : files) {
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);  // the last printed name is the crashing file
    corpus.push_back(trainer::read_file(file));
    run(corpus.back());
  }
  trainer::check(!files.empty(), "the corpus is not empty");
  if (count == 3) damage(corpus, std::atoi(arguments[2]));
}
