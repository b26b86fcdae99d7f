// The token cache: written atomically, and created again when anything it depends on changes.
#include "data/cache/prepare.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "tests/chat/special_tokenizer.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/data/support.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

struct Prepare : ::testing::Test {
  TempFolder folder;
  config::DataConfig config;

  Prepare() {
    config.cache_dir = (folder / "cache").string();
    config.train = {.path = {folder.write("a.txt", "ab@c\nd@ef\n")}, .format = config::DataFormat::kDelimited};
    config.train.columns = {"source", "target"};
  }
  std::shared_ptr<const TokenCache> run() const { return prepare({config, config.train}, ByteTokenizer()); }

  /// The folders of complete token caches.
  std::set<std::string> stores() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(config.cache_dir))
      if (entry.is_directory() && entry.path().filename() != "hashes") names.insert(entry.path().filename());
    return names;
  }
  /// Writes a file whose preparation takes long.
  void write_long_file() const {
    std::string text;
    for (int i = 0; i < 400'000; ++i) text += fmt::format("some words of sentence {}@label\n", i);
    folder.write("a.txt", text);
  }
};

TEST_F(Prepare, RunsOnce) {
  EXPECT_EQ(run()->size(), 2);
  ASSERT_EQ(stores().size(), 1u);
  const auto written = fs::last_write_time(fs::path(config.cache_dir) / *stores().begin() / "tokens");
  EXPECT_EQ(run()->size(), 2);
  ASSERT_EQ(stores().size(), 1u);
  EXPECT_EQ(fs::last_write_time(fs::path(config.cache_dir) / *stores().begin() / "tokens"), written);
}

TEST_F(Prepare, RunsAgainWhenTheContentOrAnOptionChanges) {
  run();
  folder.write("a.txt", "ab@c\nd@eg\n");  // of the same size
  EXPECT_EQ(run()->sample(1).second[1], 'g');
  EXPECT_EQ(stores().size(), 2u);
  config.max_source_length = 2;
  run();
  EXPECT_EQ(stores().size(), 3u);
  config.shuffle = false;  // changes the sample order, not the samples
  run();
  EXPECT_EQ(stores().size(), 3u);
}

TEST_F(Prepare, CountsTruncatedSamplesAlsoFromTheCache) {
  EXPECT_EQ(run()->facts().notes, std::vector<std::string>());
  config.max_source_length = config.max_target_length = 2;  // with the end of sequence
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(run()->facts().notes,
              (std::vector<std::string>{"2 of 2 samples (100 %) were truncated: 1 to data.max_source_length (2), 1 to "
                                        "data.max_target_length (2); `data.on_too_long: drop` drops them"}));
  EXPECT_EQ(stores().size(), 2u);
  config.max_target_length = 3;
  EXPECT_EQ(run()->facts().notes[0],
            "1 of 2 samples (50 %) were truncated: 1 to data.max_source_length (2); "
            "`data.on_too_long: drop` drops them");
}

TEST_F(Prepare, ErrorOfABadRecordNamesOnBadSample) {
  config.task = config::Task::kCausalLm;
  config.dialogue = config::Dialogue::kMessages;
  config.chat_template = "{% for m in messages %}{{ m.role + m.content }}{% endfor %}";
  config.learn = config::Learn::kAll;
  config.train = {.path = {folder.write("d.jsonl", R"({"messages": [{"role": "user", "content": null}]})"
                                                   "\n"
                                                   R"({"messages": [{"role": "user", "content": "a"}]})")}};
  EXPECT_EQ(error_of<InputError>([&] { run(); }),
            config.train.path[0] +
                ":1: the chat template fails: `+` of a str and a NoneType (data.chat_template:1)\n"
                "Set `on_bad_sample: skip` to skip bad records.");
  config.train.on_bad_sample = config::OnBadSample::kSkip;
  EXPECT_EQ(run()->size(), 1);
  contains(run()->facts().notes.at(0), "1 record was skipped because it could not be converted");
}

TEST_F(Prepare, AReplyBeginsWithTheTokenThatReachesIntoIt) {
  const PlainTokenizer tokenizer({"</s>", " c"});
  const int32_t end = tokenizer.eos_id(), merged = end + 1;
  config.task = config::Task::kCausalLm;
  config.source = "prompt";
  config.target = "completion";
  config.train = {.path = {folder.write("d.jsonl", R"({"prompt": "ab", "completion": "cd"})"
                                                   "\n"
                                                   R"({"prompt": "a ", "completion": "cd"})"
                                                   "\n"
                                                   R"({"prompt": "a", "completion": " cd"})"
                                                   "\n"
                                                   R"({"prompt": "", "completion": "d"})"
                                                   "\n")}};
  const auto store = prepare({config, config.train}, tokenizer);
  const auto ids = [&](int64_t i) {
    const auto span = store->sample(i).source;
    return std::vector<int32_t>(span.begin(), span.end());
  };
  const auto learned = [&](int64_t i) {
    const auto span = store->sample(i).second;
    return std::vector<int32_t>(span.begin(), span.end());
  };
  EXPECT_EQ(learned(0), (std::vector<int32_t>{2, 5}));
  EXPECT_EQ(ids(1), (std::vector<int32_t>{'a', merged, 'd', end}));
  EXPECT_EQ(learned(1), (std::vector<int32_t>{1, 4})) << "its first word is learned too";
  EXPECT_EQ(ids(2), ids(1));
  EXPECT_EQ(learned(2), (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(learned(3), (std::vector<int32_t>{0, 2})) << "a prompt may be empty";
  ASSERT_EQ(store->facts().notes.size(), 1U);
  contains(store->facts().notes[0], "in 1 of 4 samples, the end of the prompt and the beginning of the reply are one");
  contains(store->facts().notes[0], "d.jsonl:2");
}

TEST_F(Prepare, ATextThatEndsWithTheEndOfSequenceTokenGetsNoOther) {
  const PlainTokenizer tokenizer({"</s>"});
  const int32_t end = tokenizer.eos_id();
  config.task = config::Task::kCausalLm;
  config.source = "text";
  config.target = "";
  config.train = {.path = {folder.write("d.jsonl", R"({"text": "a"})"
                                                   "\n"
                                                   R"({"text": "a</s>"})"
                                                   "\n")}};
  const auto store = prepare({config, config.train}, tokenizer);
  for (const int64_t i : {0, 1}) {
    const auto span = store->sample(i).source;
    EXPECT_EQ(std::vector<int32_t>(span.begin(), span.end()), (std::vector<int32_t>{'a', end}));
  }
}

TEST_F(Prepare, DependsOnTheChatTemplatesContentNotItsPath) {
  config.task = config::Task::kCausalLm;
  config.dialogue = config::Dialogue::kMessages;
  config.train = {.path = {folder.write("d.jsonl", R"({"messages": [{"role": "assistant", "content": "a"}]})")}};
  for (const char* file : {"1.jinja", "2.jinja"}) {
    config.chat_template = folder.write(file, "{{ messages[0].content if messages }}");
    run();
    EXPECT_EQ(stores().size(), 1u);
  }
  config.chat_template = folder.write("2.jinja", "{{ messages[0].content + '!' if messages }}");
  run();
  EXPECT_EQ(stores().size(), 2u);
}

TEST_F(Prepare, ReusesTheCacheForTheSameContentAtAnotherPath) {
  run();
  config.train.path = {folder.write("b.txt", "ab@c\nd@ef\n")};
  run();
  EXPECT_EQ(stores().size(), 1u);
}

TEST_F(Prepare, RecreatesABrokenCache) {
  run();
  const fs::path store = fs::path(config.cache_dir) / *stores().begin();
  fs::resize_file(store / "tokens", 4);
  EXPECT_EQ(run()->sample(1).second[1], 'f');
  std::ofstream(store / "about.json") << "{";
  EXPECT_EQ(run()->size(), 2);
}

/// Overwrites the tokens of a cache with zeros; its sizes stay.
void clear_tokens(const fs::path& store) {
  const auto bytes = fs::file_size(store / "tokens");
  std::ofstream(store / "tokens", std::ios::binary) << std::string(bytes, '\0');
}

TEST_F(Prepare, RecreatesACacheWhoseContentIsNotWhatWasWritten) {
  run();
  const fs::path store = fs::path(config.cache_dir) / *stores().begin();
  clear_tokens(store);
  EXPECT_EQ(run()->sample(1).second[1], 'f');
  std::string about = read_all(store / "about.json");
  about.replace(about.find("\"too_short\": 0"), 14, "\"too_short\": 1");
  std::ofstream(store / "about.json") << about;
  EXPECT_EQ(run()->facts().too_short, 0);
}

TEST_F(Prepare, DoesNotUseWhatAnotherUserCanHaveWritten) {
  if (geteuid() != 0) GTEST_SKIP() << "gives files to another user, which needs root";
  run();
  const fs::path store = fs::path(config.cache_dir) / *stores().begin();
  const auto cached_again = [&] {
    const auto made = run();
    EXPECT_EQ(made->sample(1).second[1], 'f');
    EXPECT_EQ(stores().size(), 2U);
    const fs::path own = store.string() + "-0";
    EXPECT_TRUE(fs::exists(own));
    fs::remove_all(own);
  };
  ASSERT_EQ(chown((store / "tokens").c_str(), 4711, 4711), 0);
  cached_again();
  ASSERT_EQ(chown((store / "tokens").c_str(), 0, 0), 0);
  ASSERT_EQ(chown(store.c_str(), 4711, 4711), 0);
  cached_again();
  ASSERT_EQ(chown(store.c_str(), 0, 0), 0);
  fs::permissions(store, fs::perms::others_write, fs::perm_options::add);
  cached_again();
  fs::permissions(store, fs::perms::others_write, fs::perm_options::remove);
  fs::rename(store, folder / "elsewhere");
  fs::create_directory_symlink(folder / "elsewhere", store);
  cached_again();
}

/// Without HOME, the cache is in a folder that everybody writes to.
TEST_F(Prepare, WithoutHomeTheCacheIsPrivate) {
  const fs::path temporary = folder / "tmp", cache = temporary / fmt::format("trainer-data-{}", geteuid());
  fs::create_directory(temporary);
  config.cache_dir.clear();
  const auto in_child = [&] {
    const pid_t child = fork();
    if (child == 0) {
      unsetenv("HOME");
      unsetenv("XDG_CACHE_HOME");
      setenv("TMPDIR", temporary.c_str(), 1);
      try {
        _exit(run()->size() == 2 ? 0 : 1);
      } catch (const MachineError& error) {
        _exit(std::string(error.what()).find("set HOME") != std::string::npos ? 4 : 5);
      }
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(in_child(), 0);
  EXPECT_EQ(fs::status(cache).permissions(), fs::perms::owner_all);
  fs::permissions(cache, fs::perms::group_read, fs::perm_options::add);
  EXPECT_EQ(in_child(), 4);
  fs::remove_all(cache);
  fs::create_directory(folder / "theirs");
  fs::permissions(folder / "theirs", fs::perms::owner_all);
  fs::create_directory_symlink(folder / "theirs", cache);
  EXPECT_EQ(in_child(), 4);
}

TEST_F(Prepare, IgnoresTheRemainsOfAKilledPreparation) {
  write_long_file();
  const pid_t child = fork();
  if (child == 0) {
    run();
    _exit(0);
  }
  while (!fs::exists(config.cache_dir)) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(run()->size(), 400'000);
  EXPECT_EQ(stores().size(), 1u);
}

TEST_F(Prepare, ConcurrentPreparationsMakeOneCache) {
  write_long_file();
  const pid_t child = fork();
  if (child == 0) _exit(run()->size() == 400'000 ? 0 : 1);
  EXPECT_EQ(run()->size(), 400'000);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(stores().size(), 1u);
}

TEST_F(Prepare, LeavesNothingOnAFullDisk) {
  write_long_file();
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1 << 20, 1 << 20};  // limits file sizes to simulate a full disk
    setrlimit(RLIMIT_FSIZE, &small);
    try {
      run();
    } catch (const MachineError&) {
      _exit(stores().empty() ? 0 : 2);
    }
    _exit(1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(run()->size(), 400'000);
}

TEST_F(Prepare, ErrorNamesTheFirstBadRecordForAnyThreadTiming) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += i == 1234 || i == 3456 ? "x@\n" : "x@y\n";
  config.train.path = {folder.write("bad.txt", text)};
  config.preprocessing_num_workers = 4;
  for (int i = 0; i < 5; ++i) contains(error_of<InputError>([&] { run(); }), "bad.txt:1235");
  config.train.on_bad_sample = config::OnBadSample::kSkip;
  EXPECT_EQ(run()->size(), 4998);
  EXPECT_EQ(run()->facts().notes.size(), 1u);
}

TEST_F(Prepare, ThreadsDoNotChangeTheResult) {
  write_long_file();
  config.preprocessing_num_workers = 1;
  const auto one = run();
  const TempFolder other;
  config.cache_dir = other.string();
  config.preprocessing_num_workers = 5;
  const auto five = run();
  ASSERT_EQ(one->size(), five->size());
  for (int64_t i = 0; i < one->size(); i += 997)
    EXPECT_TRUE(std::equal(one->sample(i).source.begin(), one->sample(i).source.end(), five->sample(i).source.begin()));
}

}  // namespace
}  // namespace trainer::data
