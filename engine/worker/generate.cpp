#include <unistd.h>

#include <csignal>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/base/screen.h"
#include "engine/generation/session.h"
#include "engine/worker/chat_input.h"
#include "engine/worker/commands.h"

namespace trainer::worker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Writes a piece of a reply at once.
void show(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

std::string json_line(const generation::Prompt& prompt, const generation::Session::Reply& reply) {
  Json line{{"prompt", prompt.text}, {"generated", reply.text}};
  if (reply.score) line["score"] = *reply.score;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// "2 of 3, score -0.41".
std::string heading(size_t number, size_t count, const generation::Session::Reply& reply) {
  return fmt::format("{} of {}{}", number, count, reply.score ? fmt::format(", score {:.4g}", *reply.score) : "");
}

/// One reply appears while it is made; several, one after the other.
void answer(generation::Session& session, const config::GenerateRequest& request) {
  const generation::Prompt prompt = session.prompts().of_text(request.prompt);
  const bool streams = !request.json && request.num_return_sequences == 1;
  const auto replies = session.reply({prompt}, 0, [&](size_t, const std::string& text) {
    if (streams) show(text);
    return true;
  });
  if (streams) return show("\n");
  for (size_t i = 0; i < replies.size(); ++i)
    show(request.json ? json_line(prompt, replies[i])
                      : fmt::format("--- {}\n{}\n", heading(i + 1, replies.size(), replies[i]), replies[i].text));
}

/// Where replies to a file go: a file that appears when it is complete, or standard output.
class Replies {
 public:
  explicit Replies(const std::string& path) : path_(path) {
    if (path.empty()) return;
    growing_ = path_.parent_path() / ("." + path_.filename().string() + ".partial");
    file_ = std::fopen(growing_.c_str(), "we");
    if (file_ == nullptr) throw machine_error("create", growing_, errno);
  }
  ~Replies() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::error_code ignored;
    fs::remove(growing_, ignored);
  }
  Replies(const Replies&) = delete;
  Replies& operator=(const Replies&) = delete;

  void add(const generation::Prompt& prompt, const generation::Session::Reply& reply) {
    const std::string line = json_line(prompt, reply);
    if (file_ == nullptr) {
      show(line);
      return;
    }
    if (std::fwrite(line.data(), 1, line.size(), file_) != line.size()) throw machine_error("write", growing_, errno);
    ++count_;
  }
  void publish() {
    if (file_ == nullptr) return;
    if (std::fflush(file_) != 0) throw machine_error("write", growing_, errno);
    publish_written(growing_, path_);
    fmt::print("wrote {} ({} replies)\n", path_.string(), count_);
  }

 private:
  fs::path path_, growing_;
  std::FILE* file_ = nullptr;
  int64_t count_ = 0;
};

void answer_file(generation::Session& session, const config::GenerateRequest& request) {
  Replies replies(request.output);
  std::vector<generation::Prompt> batch;
  int64_t first = 0;
  const auto flush = [&] {
    const auto made = session.reply(batch, first);
    for (size_t i = 0; i < made.size(); ++i) replies.add(batch[i * batch.size() / made.size()], made[i]);
    first += static_cast<int64_t>(batch.size());
    batch.clear();
  };
  session.prompts().read([&](generation::Prompt prompt) {
    batch.push_back(std::move(prompt));
    if (std::ssize(batch) * request.num_return_sequences >= request.batch_size * evaluation::kBatchesTogether) flush();
  });
  if (!batch.empty()) flush();
  replies.publish();
}

/// A conversation on the terminal: Ctrl-C ends a reply; at the prompt, it ends the conversation, as Ctrl-D does.
int converse(generation::Session& session) {
  session.prompts().of_dialogue({{{"role", "user"}, {"content", "?"}}});  // reports at once if that can't work
  ChatInput input;
  if (isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0)
    screen::print(
        "Enter sends a message, Ctrl-C stops a reply.\nCtrl-D ends the chat, as does Ctrl-C at the prompt.\n");
  Json turns = Json::array();
  std::string line;
  for (int64_t turn = 0;; ++turn) {
    input.forget_interrupt();  // which ended the reply; one that follows the prompt counts
    screen::print("> ");
    if (!input.next(line)) break;
    if (line.empty()) continue;
    turns.push_back({{"role", "user"}, {"content", line}});
    const auto replies =
        session.reply({session.prompts().of_dialogue(turns)}, turn, [&](size_t, const std::string& text) {
          screen::print("{}", text);
          return !input.interrupted();
        });
    screen::print("\n");
    turns.push_back({{"role", "assistant"}, {"content", replies[0].text}});
  }
  screen::print("\n");
  return input.interrupted() ? 128 + SIGINT : kDone;
}

}  // namespace

int generate_command(const std::vector<std::string>& args) {
  require(args.size() == 1, "generate takes 1 argument, not {}", args.size());
  const config::GenerateRequest request = config::generate_request(args[0]);
  generation::Session session(request);
  if (request.has_prompt)
    answer(session, request);
  else if (!request.input.empty())
    answer_file(session, request);
  else
    return converse(session);
  return kDone;
}

}  // namespace trainer::worker
