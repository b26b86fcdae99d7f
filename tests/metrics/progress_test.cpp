#include "engine/metrics/progress.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <cstdlib>

#include <gtest/gtest.h>

#include "engine/base/file_descriptor.h"
#include "engine/base/terminal_text.h"

namespace trainer::metrics {
namespace {

using namespace std::chrono_literals;

StepRecord record_at(int64_t step) {
  return {.step = step,
          .epoch = 0.3333,
          .loss = 2.4131,
          .grad_norm = 0.9128,
          .learning_rate = 2.9e-4,
          .tokens_per_second = 1234};
}

ProgressState state() {
  return {30, 120, record_at(30), 192, ""};
}

TEST(ProgressBar, ShowsTheFactsThatFit) {
  EXPECT_EQ(progress_bar(state(), 120),
            "[==========>                             ]  30/120  loss 2.413  3m 12s left  1.2k tok/s  lr 2.90e-04");
  EXPECT_EQ(progress_bar(state(), 80),
            "[=====>              ]  30/120  loss 2.413  3m 12s left  1.2k tok/s  lr 2.90e-04");
  EXPECT_EQ(progress_bar(state(), 60), " 30/120  loss 2.413  3m 12s left  1.2k tok/s  lr 2.90e-04");
  EXPECT_EQ(progress_bar(state(), 40), " 30/120  loss 2.413  3m 12s left");
  EXPECT_EQ(progress_bar(state(), 10), " 30/120");
}

TEST(ProgressBar, ShowsTheShareOfThePeakOnceItIsKnown) {
  ProgressState known = state();
  known.last->peak_share = 0.437;
  EXPECT_NE(progress_bar(known, 120).find("1.2k tok/s  44 % of peak  lr"), std::string::npos)
      << progress_bar(known, 120);
  EXPECT_NE(progress_line(known).find("1.2k tok/s   44 % of peak  3m 12s left"), std::string::npos)
      << progress_line(known);
}

TEST(ProgressBar, NeverLeavesItsLine) {
  ProgressState busy = state();
  busy.activity = "evaluating\n3/20";
  for (size_t width = 0; width < 140; ++width) {
    EXPECT_LE(display_width(progress_bar(state(), width)), width);
    EXPECT_LE(display_width(progress_bar(busy, width)), width);
    EXPECT_EQ(progress_bar(busy, width).find('\n'), std::string::npos);
  }
}

TEST(ProgressBar, BeginsEmptyAndEndsFull) {
  EXPECT_EQ(progress_bar({.step = 0, .total_steps = 9}, 20), "[>             ] 0/9");
  EXPECT_EQ(progress_bar({.step = 9, .total_steps = 9}, 20), "[==============] 9/9");
}

TEST(ProgressLine, AlignsItsFields) {
  EXPECT_EQ(progress_line(state()),
            "step  30/120  epoch   0.33  loss   2.4131  grad_norm    0.913  lr 2.90e-04   1.2k tok/s  3m 12s left");
  EXPECT_EQ(evaluation_line({30, 1, {{"eval_loss", 0.51234}, {"eval_accuracy", 0.75}}}, 120),
            "step  30/120  eval_accuracy 0.7500  eval_loss 0.5123");
  EXPECT_EQ(evaluation_line({30, 1, {{"eval_loss", 0.51234}, {"eval_accuracy", 0.75}}}, 120, 40),
            "step  30/120  eval_accuracy 0.7500\n  eval_loss 0.5123")
      << "a value stays with its name";
}

TEST(ProgressLine, ShowsWhatPairsHaveLearned) {
  ProgressState pairs = state();
  pairs.last->rewards = {{"rewards/accuracies", 0.75}, {"rewards/chosen", 0.5}, {"rewards/margins", 0.25}};
  EXPECT_NE(progress_line(pairs).find("1.2k tok/s  rewards/margins 0.250  rewards/accuracies 0.750  3m"),
            std::string::npos)
      << progress_line(pairs);
}

/// A screen that Progress writes to, with a clock that only the test advances.
class ProgressTest : public ::testing::Test {
 protected:
  Progress::Clock clock() {
    return [this] { return time_; };
  }

  /// The text written since the last call.
  static std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t count = 0; (count = read(fd, buffer, sizeof(buffer))) > 0;)
      text.append(buffer, static_cast<size_t>(count));
    return text;
  }

  std::chrono::steady_clock::time_point time_{};
};

TEST_F(ProgressTest, WritesPlainLinesIntoAPipe) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  FileDescriptor reader(ends[0]), writer(ends[1]);
  {
    Progress progress(10, 20, writer.get(), clock());
    time_ += 4s;
    for (int64_t step = 11; step <= 12; ++step) progress.advance(step);
    progress.report(record_at(12));
    progress.set_activity("evaluating");
    progress.report(EvaluationRecord{12, 1, {{"eval_loss", 0.5}}});
  }
  EXPECT_EQ(read_all(reader.get()),
            "step 12/20  epoch   0.33  loss   2.4131  grad_norm    0.913  lr 2.90e-04   1.2k tok/s  16s left\n"
            "step 12/20  eval_loss 0.5000\n");
}

TEST_F(ProgressTest, EstimatesTheTimeOfALongRunOnce) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  FileDescriptor reader(ends[0]), writer(ends[1]);
  Progress progress(10, 1000, writer.get(), clock());
  time_ += 60s;  // the first update is slow
  for (int64_t step = 11; step <= 20; ++step, time_ += 500ms) progress.advance(step);
  EXPECT_EQ(read_all(reader.get()),
            "time     about 8m 13s for the updates that are left, 500 ms each, without evaluation and saving\n");
  Progress shorter(0, 30, writer.get(), clock());
  for (int64_t step = 1; step <= 20; ++step, time_ += 500ms) shorter.advance(step);
  EXPECT_EQ(read_all(reader.get()), "") << "a run of a few seconds";
}

TEST_F(ProgressTest, RedrawsOneLineOnATerminal) {
  FileDescriptor screen(posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK));
  ASSERT_TRUE(screen);
  ASSERT_EQ(grantpt(screen.get()), 0);
  ASSERT_EQ(unlockpt(screen.get()), 0);
  FileDescriptor terminal(open(ptsname(screen.get()), O_RDWR | O_NOCTTY));
  ASSERT_TRUE(terminal);
  const winsize size{.ws_row = 24, .ws_col = 31, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(terminal.get(), TIOCSWINSZ, &size), 0);
  setenv("TERM", "xterm", 1);

  Progress progress(0, 1000, terminal.get(), clock());
  progress.advance(1);
  EXPECT_EQ(read_all(screen.get()), "\r\x1b[K   1/1000  0.0s left");
  for (int64_t step = 2; step <= 100; ++step) progress.advance(step);
  progress.report(record_at(100));
  EXPECT_EQ(read_all(screen.get()), "");  // no time has passed
  time_ += 100ms;
  progress.advance(101);
  EXPECT_EQ(read_all(screen.get()), "\r\x1b[K 101/1000  loss 2.413");
  progress.set_activity("saving");
  EXPECT_EQ(read_all(screen.get()), "\r\x1b[K 101/1000  saving  loss 2.413") << "at once: it may take long";
  progress.set_activity("");
  EXPECT_EQ(read_all(screen.get()), "");
  progress.print("a message");
  EXPECT_EQ(read_all(screen.get()), "\r\x1b[Ka message\r\n\r\x1b[K 101/1000  loss 2.413");
  progress.print("a message that is wider than the terminal");
  EXPECT_EQ(read_all(screen.get()),
            "\r\x1b[Ka message that is wider than\r\n  the terminal\r\n\r\x1b[K 101/1000  loss 2.413");
  progress.finish();
  EXPECT_EQ(read_all(screen.get()), "\r\x1b[K 101/1000  loss 2.413\r\n");
  progress.finish();
  EXPECT_EQ(read_all(screen.get()), "");
}

TEST_F(ProgressTest, SurvivesAClosedScreen) {
  Progress progress(0, 10, -1, clock());
  EXPECT_NO_THROW(progress.report(record_at(1)));
}

}  // namespace
}  // namespace trainer::metrics
