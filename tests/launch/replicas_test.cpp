// Copies of checkpoints on other machines.
#include <sys/socket.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "engine/base/files.h"
#include "engine/base/publish_folder.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/contents.h"
#include "engine/checkpoint/digest.h"
#include "engine/launch/copy_receiver.h"
#include "engine/launch/copy_sender.h"
#include "engine/launch/holdings.h"
#include "engine/launch/seal.h"
#include "tests/launch/several_machines.h"
#include "tests/support/temporary_folder.h"

namespace trainer::launch {
namespace {

using testing::TemporaryFolder;

/// A whole checkpoint with these files, under a leader epoch.
void save(const fs::path& output_dir, int64_t step, const std::map<std::string, std::string>& files,
          int64_t leader_epoch = 1, const std::map<std::string, double>& metrics = {}) {
  const fs::path folder = checkpoint::checkpoint_path(output_dir, step);
  const fs::path growing = output_dir / fmt::format(".checkpoint-{}.partial", step);
  fs::create_directories(growing);
  std::vector<checkpoint::StoredFile> stored;
  for (const auto& [name, content] : files) {
    std::ofstream(growing / name) << content;
    stored.push_back({name, std::ssize(content), checkpoint::digest_of("xxh3", content)});
  }
  const nlohmann::json manifest = {{"format", checkpoint::kFormat},
                                   {"version", checkpoint::kFormatVersion},
                                   {"progress", {{"step", step}}},
                                   {"world_size", 1},
                                   {"strategy", "replicated"},
                                   {"optimizer", "adamw"},
                                   {"metrics", metrics},
                                   {"leader_epoch", leader_epoch},
                                   {"files", checkpoint::to_json(stored)}};
  std::ofstream(growing / "manifest.json") << checkpoint::sealed(manifest.dump(1));
  publish_folder(growing, folder);
}

const std::string kLarge = [] {
  std::string text;
  while (text.size() < (5u << 20) + 17) text += std::to_string(text.size());
  return text;
}();
const std::map<std::string, std::string> kFiles{
    {"rank-00000.safetensors", kLarge}, {"rank-00001.safetensors", "two"}, {"empty", ""}};

std::map<std::string, std::string> content(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::directory_iterator(folder)) all[entry.path().filename()] = read_file(entry.path());
  return all;
}

/// Two machines' folders, with a connection.
class Copies : public ::testing::Test {
 protected:
  Copies() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    for (std::size_t i = 0; i < 2; ++i) {
      lines_.emplace_back(FileDescriptor(ends[i]));
      Seals seals = make_seals("secret", std::string(32, 'a'), std::string(32, 'b'), 1);
      i == 0 ? lines_[i].seal(std::move(seals.by_leader), std::move(seals.by_follower))
             : lines_[i].seal(std::move(seals.by_follower), std::move(seals.by_leader));
      lines_[i].trust();
      lines_[i].encrypt();
    }
  }

  CopySender sender(const std::string& name) {
    return {here_.path() / name, [this, name] {
              return name.empty() ? offer_of_run(here_.path(), true) : offer_of_checkpoint(here_.path(), name);
            }};
  }
  CopyReceiver receiver(std::optional<checkpoint::Keep> keep = std::nullopt, int64_t leader_epoch = 1) {
    return {there_.path(), std::move(keep), leader_epoch};
  }
  void copy(CopySender& from, CopyReceiver& to, const std::function<void(LinkMessage&)>& change = {}) {
    while (!from.has_ended() || to.is_busy()) {
      from.serve(lines_[0]);
      while (auto message = lines_[0].next()) from.take(*message);
      to.serve(lines_[1]);
      while (auto message = lines_[1].next()) {
        bytes_ += message->op == LinkOp::kCopyPart && message->code == 0 ? message->strings.at(0).size() : 0;
        if (change) change(*message);
        to.take(std::move(*message));
      }
      lines_[0].flush();
      usleep(100);
    }
  }
  /// Returns why there is no copy.
  std::string copy(const std::string& name, CopyReceiver& to, const std::function<void(LinkMessage&)>& change = {}) {
    CopySender from = sender(name);
    copy(from, to, change);
    return from.why();
  }
  void expect_nothing_unfinished() {
    for (const auto& entry : fs::directory_iterator(there_.path()))
      EXPECT_NE(entry.path().filename().string().front(), '.') << entry.path();
  }

  const TemporaryFolder here_, there_;
  std::vector<MachineLine> lines_;
  std::size_t bytes_ = 0;  // of files, on the way
};

TEST_F(Copies, AreEqualAndWholeByteForByte) {
  save(here_.path(), 40, kFiles);
  CopyReceiver to = receiver();
  EXPECT_EQ(copy("checkpoint-40", to), "");
  EXPECT_EQ(to.take_end(), "");
  EXPECT_EQ(to.newest(), "checkpoint-40");
  EXPECT_EQ(content(there_.path() / "checkpoint-40"), content(here_.path() / "checkpoint-40"));
  EXPECT_EQ(holdings_of(there_.path()).newest, "checkpoint-40");
  EXPECT_EQ(fs::read_symlink(there_.path() / "latest"), "checkpoint-40");
  expect_nothing_unfinished();
}

TEST_F(Copies, OfAnotherVersionSendOnlyWhatChanged) {
  save(here_.path(), 40, kFiles);
  CopyReceiver to = receiver();
  EXPECT_EQ(copy("checkpoint-40", to), "");
  EXPECT_GT(std::exchange(bytes_, 0), kLarge.size());
  save(here_.path(), 40, kFiles, 1, {{"eval_loss", 0.5}});
  EXPECT_EQ(copy("checkpoint-40", to), "");
  EXPECT_LT(bytes_, 2000u);
  EXPECT_EQ(content(there_.path() / "checkpoint-40"), content(here_.path() / "checkpoint-40"));
}

TEST_F(Copies, OfADamagedFileAreSentAgain) {
  save(here_.path(), 40, kFiles);
  CopyReceiver to = receiver();
  EXPECT_EQ(copy("checkpoint-40", to), "");
  std::ofstream(there_.path() / "checkpoint-40" / "rank-00001.safetensors") << "twx";
  EXPECT_EQ(copy("checkpoint-40", to), "");
  EXPECT_EQ(content(there_.path() / "checkpoint-40"), content(here_.path() / "checkpoint-40"));
}

TEST_F(Copies, OfWhatIsDamagedHereAreNotPublished) {
  save(here_.path(), 40, kFiles);
  std::ofstream(here_.path() / "checkpoint-40" / "rank-00001.safetensors") << "twx";
  CopyReceiver to = receiver();
  const std::string why = copy("checkpoint-40", to);
  EXPECT_NE(why.find("rank-00001.safetensors: the bytes that arrived differ from those of the original"), why.npos)
      << why;
  EXPECT_TRUE(fs::is_empty(there_.path()));
}

TEST_F(Copies, OfAFileThatIsWrittenAgainMeanwhileAreTriedAgain) {
  save(here_.path(), 40, kFiles);
  CopyReceiver to = receiver();
  CopySender from = sender("checkpoint-40");
  copy(from, to, [&](LinkMessage& message) {
    if (message.op != LinkOp::kCopyOffer) return;
    const fs::path manifest = here_.path() / "checkpoint-40" / "manifest.json";
    std::string text = read_file(manifest);
    text.replace(text.find("40"), 2, "41");  // of the same size
    std::ofstream(manifest) << text;
  });
  EXPECT_FALSE(from.receiver_failed()) << from.why();
  EXPECT_NE(from.why(), "");
  EXPECT_TRUE(fs::is_empty(there_.path()));
}

TEST_F(Copies, AreEncryptedOnTheirWay) {
  save(here_.path(), 40, {{"weights", std::string(10'000, 'x')}});
  CopyReceiver to = receiver();
  int parts = 0;
  EXPECT_EQ(copy("checkpoint-40", to,
                 [&](LinkMessage& message) {
                   if (message.op != LinkOp::kCopyPart) return;
                   ++parts;
                   EXPECT_EQ(message.strings.at(0).find("xxxxxxxx"), std::string::npos);
                 }),
            "");
  EXPECT_EQ(parts, 2);  // and the manifest
}

TEST_F(Copies, ThatAreInterruptedLeaveTheEarlierOnes) {
  save(here_.path(), 20, kFiles);
  {
    CopyReceiver to = receiver();
    EXPECT_EQ(copy("checkpoint-20", to), "");
  }
  const auto before = content(there_.path() / "checkpoint-20");
  save(here_.path(), 40, kFiles);
  {
    CopyReceiver to = receiver();
    CopySender from = sender("checkpoint-40");
    int parts = 0;
    while (parts < 3) {
      from.serve(lines_[0]);
      while (auto message = lines_[0].next()) from.take(*message);
      to.serve(lines_[1]);
      while (auto message = lines_[1].next()) {
        parts += message->op == LinkOp::kCopyPart ? 1 : 0;
        to.take(std::move(*message));
      }
      lines_[0].flush();
    }
  }
  EXPECT_FALSE(fs::exists(there_.path() / "checkpoint-40"));
  EXPECT_EQ(content(there_.path() / "checkpoint-20"), before);
  EXPECT_EQ(holdings_of(there_.path()).newest, "checkpoint-20");
  expect_nothing_unfinished();
}

TEST_F(Copies, EndWhenTheCheckpointIsRemovedMeanwhile) {
  save(here_.path(), 40, kFiles);
  CopyReceiver to = receiver();
  CopySender from = sender("checkpoint-40");
  copy(from, to, [&](LinkMessage& message) {
    if (message.op == LinkOp::kCopyOffer) fs::remove_all(here_.path() / "checkpoint-40");
  });
  EXPECT_FALSE(from.receiver_failed());
  EXPECT_NE(from.why(), "");
  EXPECT_TRUE(fs::is_empty(there_.path()));
  EXPECT_NE(copy("checkpoint-40", to), "") << "it is gone";
  save(here_.path(), 60, kFiles);
  EXPECT_EQ(copy("checkpoint-60", to), "") << "the next one is copied";
}

TEST_F(Copies, RemoveOldOnesAsTheRunDoes) {
  CopyReceiver to = receiver(checkpoint::Keep{2, "none"});
  for (const int64_t step : {20, 40, 60}) {
    save(here_.path(), step, {{"weights", "w"}});
    EXPECT_EQ(copy(fmt::format("checkpoint-{}", step), to), "");
  }
  EXPECT_FALSE(fs::exists(there_.path() / "checkpoint-20"));
  EXPECT_TRUE(fs::exists(there_.path() / "checkpoint-40"));
  EXPECT_EQ(fs::read_symlink(there_.path() / "latest"), "checkpoint-60");
}

TEST_F(Copies, OfALeaderOfAnOlderEpochAreRefused) {
  save(there_.path(), 40, kFiles, 3);
  save(here_.path(), 60, kFiles, 2);
  CopyReceiver to = receiver(std::nullopt, 2);
  const std::string why = copy("checkpoint-60", to);
  EXPECT_NE(why.find("has a checkpoint of leader epoch 3, but the copy comes from a leader of epoch 2"), why.npos)
      << why;
  EXPECT_FALSE(fs::exists(there_.path() / "checkpoint-60"));
}

TEST_F(Copies, OfTheFinalModelReplaceAnEarlierOne) {
  std::ofstream(here_.path() / "config.json") << "new";
  std::ofstream(here_.path() / "model.safetensors") << "new weights";
  std::ofstream(here_.path() / ".hidden") << "mine";
  save(here_.path(), 40, kFiles);
  std::ofstream(there_.path() / "config.json") << "old";
  std::ofstream(there_.path() / "model.safetensors") << "old weights";
  CopyReceiver to = receiver();
  EXPECT_EQ(copy("", to), "");
  EXPECT_EQ(content(there_.path()),
            (std::map<std::string, std::string>{{"config.json", "new"}, {"model.safetensors", "new weights"}}));
}

TEST(CopyOffers, OutsideTheFolderAreRefused) {
  for (const char* name : {"../x", "a/b", "", ".lock", "."})
    EXPECT_THROW(read_offer({.op = LinkOp::kCopyOffer, .strings = {"checkpoint-4", name, "1", "xxh3:0"}}), PeerError);
  for (const char* checkpoint : {"checkpoint-", "checkpoint-4x", "..", "checkpoint--1", "logs"})
    EXPECT_THROW(read_offer({.op = LinkOp::kCopyOffer, .strings = {checkpoint, "a", "1", "xxh3:0"}}), PeerError);
  EXPECT_THROW(read_offer({.op = LinkOp::kCopyOffer, .strings = {"checkpoint-4", "a", "-1", "xxh3:0"}}), PeerError);
  EXPECT_THROW(read_offer({.op = LinkOp::kCopyOffer, .strings = {"checkpoint-4", "a", "1"}}), PeerError);
  EXPECT_EQ(read_offer({.op = LinkOp::kCopyOffer, .strings = {"checkpoint-4", "a", "1", "xxh3:0"}}).bytes(), 1);
}

TEST(HoldingsTest, NamesTheNewestCheckpointThatIsWhole) {
  const TemporaryFolder folder;
  for (const int64_t step : {20, 40, 60, 80}) save(folder.path(), step, kFiles, step / 20);
  std::ofstream(folder.path() / "checkpoint-80/rank-00001.safetensors") << "tw";   // a size
  std::ofstream(folder.path() / "checkpoint-60/rank-00001.safetensors") << "twx";  // a byte
  const Holdings found = holdings_of(folder.path());
  EXPECT_EQ(found.newest, "checkpoint-40");
  EXPECT_EQ(found.epoch, 2);
  EXPECT_EQ(found.checkpoints.size(), 2u);
  const Holdings read = holdings_from(to_text(found));
  EXPECT_EQ(read.checkpoints, found.checkpoints);
  EXPECT_EQ(read.step(), 40);
  EXPECT_EQ(read.epoch, 2);
  EXPECT_EQ(holdings_from(to_text({.why_not = "a\nb", .checkpoints = {}, .newest = {}})).why_not, "a b");
  EXPECT_EQ(holdings_of(folder.path() / "none").step(), -1);
  for (const char* text : {"", "\n\n", "\nx\n1\n", "\n\n1\nx y\n", "\n\n-1\n"})
    EXPECT_THROW(holdings_from(text), PeerError);
}

/// Three machines with one rank each and separate output folders.
class Replicated : public SeveralMachines {
 protected:
  explicit Replicated(int machines = 3) : SeveralMachines(machines, 1) {
    plan_.config.max_restarts = 3;
    plan_.config.checkpoint.replicas = 2;
    patience_.last_call = milliseconds(300);
  }

  fs::path folder_of(int number) const { return folder_ / fmt::format("output-{}", number); }
  void start_apart(int number, const std::string& fake) {
    fs::create_directories(folder_of(number));
    plan_.config.output_dir = folder_of(number).string();
    start(number, {{"FAKE", fake}, {"FAKE_OUTPUT", folder_of(number)}});
  }
  bool has_copy(int number, int64_t step) const {
    const fs::path folder = checkpoint::checkpoint_path(folder_of(number), step);
    return fs::exists(folder) && content(folder) == content(checkpoint::checkpoint_path(folder_of(0), step));
  }
  void stop_all(const std::vector<int>& numbers) {
    kill(pid_of(0), SIGTERM);
    for (const int number : numbers) EXPECT_EQ(finish(number), 143) << screens();
  }
};

TEST_F(Replicated, APublishedCheckpointIsCopiedToOneOtherMachine) {
  for (const int number : {0, 1, 2}) start_apart(number, "live:9");
  wait_for_note("life-0-2");
  save(folder_of(0), 40, kFiles);
  wait_for([&] { return has_copy(1, 40); });
  EXPECT_TRUE(said(0, "the others send it theirs; 1 of them keeps copies")) << screen(0);
  save(folder_of(0), 60, kFiles);
  wait_for([&] { return has_copy(1, 60); });
  EXPECT_FALSE(fs::exists(folder_of(2) / "checkpoint-40"));
  stop_all({0, 1, 2});
  EXPECT_EQ(nlohmann::json::parse(read_file(folder_of(0) / "outcome.json"))["replicated_checkpoint"], "checkpoint-60");
  EXPECT_FALSE(anyone_left());
}

TEST_F(Replicated, ALeaderWhoseDiskWasLostGetsTheNewestCopyFirst) {
  for (const int number : {0, 1, 2}) start_apart(number, "live:9");
  wait_for_note("life-0-2");
  std::ofstream(folder_of(0) / "metrics.jsonl") << "{}\n";
  save(folder_of(0), 40, kFiles);
  wait_for([&] { return has_copy(1, 40) && fs::exists(folder_of(1) / "metrics.jsonl"); });
  const auto before = content(folder_of(0) / "checkpoint-40");
  const auto lose_machine_0 = [&](bool disk_too) {
    kill(pid_of(0), SIGKILL);
    finish(0);
    if (disk_too) fs::remove_all(folder_of(0));
    forget_notes();
    start_apart(0, "live:9");
    wait_for_note("life-0-2");
  };
  lose_machine_0(false);
  EXPECT_EQ(FolderOwner(folder_of(0)).epoch(), 2);
  EXPECT_FALSE(said(0, "copying checkpoint-40")) << screen(0);
  lose_machine_0(true);
  EXPECT_TRUE(said(0, "copying checkpoint-40 from machine 1 (")) << screen(0);
  EXPECT_EQ(content(folder_of(0) / "checkpoint-40"), before);
  EXPECT_EQ(read_file(folder_of(0) / "metrics.jsonl"), "{}\n");
  EXPECT_GT(FolderOwner(folder_of(0)).epoch(), 2) << "which the others have followed";
  stop_all({0, 1, 2});
}

TEST_F(Replicated, ALeaderWhoseDiskWasLostGetsAlsoTheBestCheckpoint) {
  plan_.config.checkpoint.metric_for_best_model = "loss";
  save(folder_of(1), 20, kFiles, 1, {{"eval_loss", 0.1}});
  save(folder_of(1), 40, kFiles, 1, {{"eval_loss", 0.2}});
  for (const int number : {0, 1, 2}) start_apart(number, "live:9");
  wait_for_note("life-0-2");
  for (const int64_t step : {20, 40}) EXPECT_TRUE(has_copy(1, step)) << screens();
  stop_all({0, 1, 2});
}

TEST_F(Replicated, AnotherMachineKeepsCopiesWhenOneIsLost) {
  plan_.config.min_machines = 1;
  for (const int number : {0, 1, 2}) start_apart(number, "live:9");
  wait_for_note("life-0-2");
  save(folder_of(0), 40, kFiles);
  wait_for([&] { return has_copy(1, 40); });
  kill(pid_of(1), SIGKILL);
  finish(1);
  wait_for_note("life-1-1");
  wait_for([&] { return has_copy(2, 40); });
  stop_all({0, 2});
}

TEST_F(Replicated, AMachineThatCannotKeepCopiesIsNamed) {
  fs::create_directories(folder_of(1));
  const FolderLock another(folder_of(1));
  for (const int number : {0, 1, 2}) start_apart(number, "live:9");
  wait_for_note("life-0-2");
  EXPECT_TRUE(said(0, "keeps no copies of checkpoints: output folder in use")) << screen(0);
  save(folder_of(0), 40, kFiles);
  wait_for([&] { return has_copy(2, 40); });
  stop_all({0, 1, 2});
}

TEST_F(Replicated, AFullDiskIsReportedAndTheOtherMachineTakesOver) {
  fs::create_directories(folder_of(1));
  std::ofstream(folder_of(1) / "checkpoint-40") << "a file in the way";
  for (const int number : {0, 1, 2}) start_apart(number, "live:9");
  wait_for_note("life-0-2");
  save(folder_of(0), 40, kFiles);
  wait_for([&] { return has_copy(2, 40); });
  EXPECT_TRUE(said(0, "trainer: warning: checkpoint-40 has no copy on machine 1 (")) << screen(0);
  stop_all({0, 1, 2});
}

TEST_F(Replicated, ARunFromScratchDoesNotTouchTheCopiesOfAnEarlierOne) {
  save(folder_of(1), 40, kFiles);
  plan_.config.checkpoint.resume_from_checkpoint = "false";
  for (const int number : {0, 1, 2}) start_apart(number, "live:9");
  EXPECT_EQ(finish(0), kUsageFailure) << screens();
  EXPECT_TRUE(said(0, "holds checkpoints of an earlier run (the newest is checkpoint-40)")) << screen(0);
  for (const int number : {1, 2}) EXPECT_EQ(finish(number), kUsageFailure) << screens();
  EXPECT_TRUE(fs::exists(folder_of(1) / "checkpoint-40"));
}

TEST_F(Replicated, ASharedFolderHasOneCopy) {
  const auto start_together = [&](int number) { start(number, {{"FAKE", "live:9"}}); };
  for (const int number : {0, 1, 2}) start_together(number);
  wait_for_note("life-0-2");
  EXPECT_TRUE(said(0, "checkpoint.replicas is 2, but all machines share output_dir")) << screen(0);
  stop_all({0, 1, 2});
}

TEST_F(Replicated, TheRunEndsOnceItsModelHasACopy) {
  for (const int number : {0, 1, 2}) start_apart(number, "finish_at:finish");
  wait_for_note("waits-2");
  save(folder_of(0), 40, kFiles);
  std::ofstream(folder_of(0) / "model.safetensors") << kLarge;
  std::ofstream(folder_ / "notes/finish") << "";
  for (const int number : {0, 1, 2}) EXPECT_EQ(finish(number), 0) << screens();
  EXPECT_EQ(read_file(folder_of(1) / "model.safetensors"), kLarge);
  EXPECT_TRUE(has_copy(1, 40));
  EXPECT_FALSE(anyone_left());
}

/// The same machines, as an elastic run: a majority may replace the leader. Machine 0 has an address of its own.
class Elected : public Replicated {
 protected:
  Elected() {
    plan_.config.min_machines = 1;
    plan_.config.main_process_ip = "127.0.0.2";
    patience_.silence = milliseconds(2500);
    patience_.last_call = milliseconds(1000);
    plan_.config.max_restarts = 9;
  }
  /// The first attempt from `attempt` on that has `ranks`.
  int wait_for_attempt_of(int ranks, int attempt) {
    const auto note = [&] { return fmt::format("life-{}-0", attempt); };
    wait_for([&] {
      while (is_noted(note()) && !noted(note()).empty() && noted(note()) != std::to_string(ranks)) ++attempt;
      return is_noted(note()) && noted(note()) == std::to_string(ranks);
    });
    return attempt;
  }
  /// Machines 0, 1 and 2 train, and machine 1 has a copy of checkpoint-40. Returns the attempt.
  int begin_with_a_copy() {
    for (const int number : {0, 1, 2}) start_apart(number, "live:99");
    const int attempt = wait_for_attempt_of(3, 0);
    save(folder_of(0), 40, kFiles);
    wait_for([&] { return has_copy(1, 40); });
    return attempt;
  }
  void stop(int leader, const std::vector<int>& numbers) {
    kill(pid_of(leader), SIGTERM);
    for (const int number : numbers) EXPECT_EQ(finish(number), 143) << screens();
    for (const int number : numbers) EXPECT_FALSE(fs::exists(folder_of(number) / ".votes")) << "the run has ended";
  }
};

TEST_F(Elected, AFollowerReplacesALeaderWhoseDiskIsLost) {
  int attempt = begin_with_a_copy();
  kill(pid_of(0), SIGKILL);
  finish(0);
  fs::remove_all(folder_of(0));
  attempt = wait_for_attempt_of(2, attempt + 1);
  EXPECT_TRUE(said(1, "machine 1 of 3 leads the run from now on, at 127.0.0.1:")) << screens();
  save(folder_of(1), 60, kFiles, 2);
  start_apart(0, "live:99");
  attempt = wait_for_attempt_of(3, attempt + 1);
  EXPECT_TRUE(said(0, "machine 0 of 3 leads no longer: machine 1 leads the run, at 127.0.0.1:")) << screens();
  EXPECT_TRUE(said(0, "connected to machine 1 (")) << screens();
  wait_for([&] { return fs::exists(folder_of(0) / "checkpoint-60"); });
  stop(1, {1, 0, 2});
  EXPECT_FALSE(anyone_left());
}

TEST_F(Elected, APausedLeaderFollowsItsSuccessor) {
  int attempt = begin_with_a_copy();
  kill(pid_of(0), SIGSTOP);
  save(folder_of(0), 80, kFiles);  // which no other machine has
  attempt = wait_for_attempt_of(2, attempt + 1);
  const int leader = said(1, "machine 1 of 3 leads the run from now on") ? 1 : 2;  // they have one address
  save(folder_of(leader), 60, kFiles, 2);
  kill(pid_of(0), SIGCONT);
  wait_for_attempt_of(3, attempt + 1);
  EXPECT_TRUE(said(0, fmt::format("connected to machine {} (", leader))) << screens();
  wait_for([&] { return fs::exists(folder_of(0) / "checkpoint-60"); });
  EXPECT_FALSE(fs::exists(folder_of(0) / "checkpoint-80")) << "the run continued without it";
  EXPECT_TRUE(said(0, "checkpoint-80: it is of leader epoch 1, but epoch 2 continued the run")) << screen(0);
  stop(leader, {1, 0, 2});
}

TEST_F(Elected, ALeaderThatLosesAllOthersAtOnceDoesNotContinue) {
  patience_.join = milliseconds(4000);
  for (const int number : {0, 1, 2}) start_apart(number, "live:99");
  wait_for_attempt_of(3, 0);
  for (const int number : {1, 2}) kill(pid_of(number), SIGKILL);
  EXPECT_EQ(finish(0), kPeerFailure) << screen(0);
  EXPECT_TRUE(said(0, "machines 0, 1, 2 trained last (leader epoch ")) << screen(0);
  EXPECT_TRUE(said(0, "and no majority of them is connected: 1 of 3")) << screen(0);
  EXPECT_TRUE(said(0, "lost for good: remove the file .votes")) << screen(0);
  fs::remove(folder_of(0) / ".votes");
  forget_notes();
  start_apart(0, "live:99");
  wait_for_attempt_of(1, 0);
  stop(0, {0});
}

TEST_F(Elected, OneOfTwoMachinesContinuesOnlyIfItLed) {
  patience_.join = milliseconds(4000);
  for (const bool leader_is_lost : {true, false}) {
    for (const int number : {0, 1}) start_apart(number, "live:99");
    const int attempt = wait_for_attempt_of(2, 0);
    kill(pid_of(leader_is_lost ? 0 : 1), SIGKILL);
    finish(leader_is_lost ? 0 : 1);
    if (leader_is_lost) {
      EXPECT_EQ(finish(1), kPeerFailure) << screens();
      EXPECT_TRUE(said(1,
                       "no machine leads in its place: of the 2 machines that trained last, 1 without machine 0 is no "
                       "majority"))
          << screen(1);
      for (const int number : {0, 1}) fs::remove_all(folder_of(number));
      forget_notes();
    } else {
      wait_for_attempt_of(1, attempt + 1);
      stop(0, {0});
    }
  }
}

}  // namespace
}  // namespace trainer::launch
